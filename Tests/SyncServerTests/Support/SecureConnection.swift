import Foundation
import TestSupport

/// A blocking TLS connection to this machine that can send arbitrary bytes, using `openssl s_client`.
final class SecureConnection {
    /// An HTTP/2 frame (RFC 9113, section 4.1).
    struct Frame {
        var type: UInt8
        var flags: UInt8 = 0
        var stream: UInt32 = 0
        var payload: [UInt8] = []

        static func settings(_ payload: [UInt8] = []) -> Frame { Frame(type: 4, payload: payload) }
        static func windowUpdate(stream: UInt32, by count: UInt32) -> Frame {
            Frame(type: 8, stream: stream, payload: SecureConnection.bytes(count))
        }
        static func data(stream: UInt32, _ payload: [UInt8]) -> Frame {
            Frame(type: 0, stream: stream, payload: payload)
        }
        static let ping = Frame(type: 6, payload: [UInt8](repeating: 7, count: 8))
        static let acknowledgement: UInt8 = 1

        /// A request with literal header fields without indexing (RFC 7541, section 6.2.2).
        static func request(
            _ method: String, _ path: String, stream: UInt32, isWhole: Bool, fields: [String: String] = [:]
        ) -> Frame {
            func literal(_ name: UInt8, _ value: String) -> [UInt8] { [name, UInt8(value.utf8.count)] + value.utf8 }
            var header = literal(2, method) + literal(4, path) + [0x87] + literal(1, "localhost")
            for (name, value) in fields { header += literal(0, name) + [UInt8(value.utf8.count)] + value.utf8 }
            return Frame(type: 1, flags: isWhole ? 5 : 4, stream: stream, payload: header)
        }

        var isData: Bool { type == 0 }
        var isReset: Bool { type == 3 }
        var isGoAway: Bool { type == 7 }
        var isPong: Bool { type == 6 && flags & Self.acknowledgement != 0 }
    }

    private let process = Process()
    private let input = Pipe.closedOnExec()
    private let output = Pipe.closedOnExec()
    private var received: [UInt8] = []

    /// Connects and offers `protocol` (ALPN).
    ///
    /// - Parameter printsProtocol: `true` to let openssl print the negotiated protocol. Its output is mixed with the
    ///   received bytes, so that frames cannot be read.
    init(port: Int, protocol name: String, printsProtocol: Bool = false) throws {
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "s_client", printsProtocol ? "-ign_eof" : "-quiet", "-alpn", name, "-connect",
            "127.0.0.1:\(port)",
        ]
        process.standardInput = input
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    deinit {
        // SIGKILL, because the child inherits an ignored SIGTERM.
        let end = ProcessEnd(of: process)
        end.send(SIGKILL)
        end.wait()
        // Foundation would leave them open.
        try? input.fileHandleForWriting.close()
        try? output.fileHandleForReading.close()
    }

    private static func bytes(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    func send(_ bytes: [UInt8]) throws { try input.fileHandleForWriting.write(contentsOf: Data(bytes)) }

    /// Starts HTTP/2 with a large connection window. The window of a stream is the default of 65,535 bytes unless
    /// `settings` change it.
    func beginHTTP2(settings: [UInt8] = []) throws {
        try send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8))
        try send([.settings(settings), .windowUpdate(stream: 0, by: 1 << 30)])
    }

    func send(_ frames: [Frame]) throws {
        for frame in frames {
            var bytes = Array(Self.bytes(UInt32(frame.payload.count)).dropFirst())
            bytes += [frame.type, frame.flags]
            bytes += Self.bytes(frame.stream)
            try send(bytes + frame.payload)
        }
    }

    /// The next received bytes; empty at the end of the connection, `nil` on a timeout.
    private func receive() -> [UInt8]? {
        var ready = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&ready, 1, Int32(Patience.seconds) * 1_000) > 0 else { return nil }
        var space = [UInt8](repeating: 0, count: 65_536)
        let count = read(ready.fd, &space, space.count)
        return count < 0 ? nil : Array(space[..<count])
    }

    /// Returns `true` if the connection is closed before a timeout. A connection that failed counts as closed.
    func isClosed() -> Bool {
        while let more = receive() {
            if more.isEmpty { return true }
            received += more
        }
        return false
    }

    /// The negotiated protocol (ALPN) that openssl has printed; `nil` if there is none.
    var agreedProtocol: String? {
        let beginning = "ALPN protocol: "
        let lines = String(decoding: received, as: UTF8.self).split(separator: "\n")
        return lines.first { $0.hasPrefix(beginning) }.map { String($0.dropFirst(beginning.count)) }
    }

    /// All bytes until the end of the connection.
    func text() -> String {
        while let more = receive(), !more.isEmpty { received += more }
        return String(decoding: received, as: UTF8.self)
    }

    /// The next frame; `nil` at the end of the connection or on a timeout.
    func frame() -> Frame? {
        while true {
            if received.count >= 9 {
                let length = received[..<3].reduce(0) { $0 << 8 | Int($1) }
                if received.count >= 9 + length {
                    let frame = Frame(
                        type: received[3], flags: received[4],
                        stream: received[5..<9].reduce(0) { $0 << 8 | UInt32($1) },
                        payload: Array(received[9..<(9 + length)]))
                    received.removeFirst(9 + length)
                    return frame
                }
            }
            guard let more = receive(), !more.isEmpty else { return nil }
            received += more
        }
    }

    /// The frames up to the first one that satisfies `isLast`; `nil` if it does not arrive.
    func frames(until isLast: (Frame) -> Bool) -> [Frame]? {
        var frames: [Frame] = []
        while let frame = frame() {
            frames.append(frame)
            if isLast(frame) { return frames }
        }
        return nil
    }
}
