import Foundation
import SyncCore
import Synchronization
import TestSupport

/// A receiver of webhooks in Python, in a process of its own, that verifies each signature without our code. Its path
/// says how it answers.
final class WebhookReceiver: Sendable {
    struct Arrival: Hashable, Sendable {
        var path: String
        var id: String
        var type: String
        var account: String
        var transaction: String
        /// The number of the secrets by which the signature is right, as `0,1`.
        var secrets: String

        /// The number of the event.
        var number: Int? { id.split(separator: "_").dropFirst().first.flatMap { Int($0) } }
    }

    private static let script = #"""
        import base64, hashlib, hmac, json, sys, threading, time
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        secrets = [base64.b64decode(text[6:]) for text in sys.argv[1:]]
        lock = threading.Lock()
        def tell(*words):
            with lock: print("\t".join(words), flush=True)
        class Receiver(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def log_message(self, *words): pass
            def answer(self, code, fields={}, length=0):
                self.send_response(code)
                for name, value in fields.items(): self.send_header(name, value)
                self.send_header("Content-Length", str(length))
                self.end_headers()
            def do_GET(self):
                tell("GET", self.path)
                self.answer(200)
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                id, sent = self.headers["webhook-id"], self.headers["webhook-timestamp"]
                given = self.headers["webhook-signature"].split(" ")
                valid = []
                for number, secret in enumerate(secrets):
                    code = hmac.new(secret, f"{id}.{sent}.".encode() + body, hashlib.sha256).digest()
                    if "v1," + base64.b64encode(code).decode() in given: valid.append(str(number))
                if abs(time.time() - int(sent)) > 300: valid = []
                event = json.loads(body)
                facts = event.get("facts") or [{}]
                tell(self.path, id, event["type"], event.get("account") or "", facts[0].get("transaction") or "",
                     ",".join(valid))
                if self.path == "/fail": self.answer(500)
                elif self.path == "/redirect": self.answer(302, {"Location": "/redirected"})
                elif self.path == "/silent": time.sleep(3600)
                elif self.path == "/close": self.close_connection = True
                elif self.path == "/huge":
                    self.answer(200, length=1 << 30)
                    count = 0
                    try:
                        while count < 1 << 30: count += self.wfile.write(b"a" * 65536)
                    except OSError: pass
                    tell("HUGE", str(count))
                    self.close_connection = True
                else: self.answer(200)
        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True
        server = Server(("127.0.0.1", 0), Receiver)
        tell("PORT", str(server.server_address[1]))
        server.serve_forever()
        """#

    let port: Int
    private let process = Process()
    private let end: ProcessEnd
    private let lines = Mutex<[[String]]>([])
    private let signals = SignalHub()

    /// - Parameter secrets: The secrets by which it verifies, `whsec_…`.
    init(secrets: [String]) throws {
        end = ProcessEnd(of: process)
        let output = Pipe.closedOnExec()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-c", Self.script] + secrets
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        try process.run()
        let reading = output.fileHandleForReading
        let first = String(decoding: reading.availableData, as: UTF8.self).split { $0 == "\t" || $0 == "\n" }
        guard first.first == "PORT", first.count == 2, let port = Int(first[1]) else {
            throw CocoaError(.executableLoad)
        }
        self.port = port
        Thread.detachNewThread { [weak self] in
            var rest = ""
            while true {
                let piece = reading.availableData
                guard !piece.isEmpty else { return }
                rest += String(decoding: piece, as: UTF8.self)
                let parts = rest.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
                rest = parts.last ?? ""
                self?.add(parts.dropLast())
            }
        }
    }

    deinit {
        end.send(SIGKILL)
        end.wait()
    }

    private func add(_ texts: some Sequence<String>) {
        lines.withLock { lines in
            lines += texts.map { $0.split(separator: "\t", omittingEmptySubsequences: false).map(String.init) }
        }
        signals.signal()
    }

    /// The requests so far.
    var arrivals: [Arrival] {
        lines.withLock { $0 }.filter { $0.count == 6 }.map { line in
            Arrival(
                path: line[0], id: line[1], type: line[2], account: line[3], transaction: line[4], secrets: line[5])
        }
    }

    /// The second words of the lines that begin with `word`.
    func words(after word: String) -> [String] { lines.withLock { $0 }.filter { $0.first == word }.map { $0[1] } }

    /// The requests to a path, in order.
    func arrivals(at path: String) -> [Arrival] { arrivals.filter { $0.path == path } }

    func wait(until condition: (WebhookReceiver) -> Bool) async {
        for await _ in signals.subscribe(startingWith: (), keeping: 1) where condition(self) { return }
    }
}
