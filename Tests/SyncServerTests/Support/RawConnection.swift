import Foundation
import TestSupport

/// A blocking TCP connection to this machine that can send arbitrary bytes.
final class RawConnection {
    struct Answer: Equatable {
        var status: Int
        var fields: [String: String]
        var body: [UInt8]

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    let descriptor: Int32
    private var received: [UInt8] = []

    /// - Parameters:
    ///   - address: an address of this machine.
    ///   - kernelByteCount: the approximate size of the kernel's receive buffer. The segment size is then that of
    ///     Ethernet: with the 64 KiB segments of loopback, the sender's kernel would buffer 2.5 MiB more.
    init(port: Int, address text: String = "127.0.0.1", kernelByteCount: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        if var count = kernelByteCount {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &count, socklen_t(MemoryLayout<Int32>.size))
            var segmentByteCount: Int32 = 1_460
            setsockopt(
                descriptor, Int32(IPPROTO_TCP), TCP_MAXSEG, &segmentByteCount, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        guard inet_pton(AF_INET, text, &address.sin_addr) == 1 else { throw POSIXError(.EINVAL) }
        var timeout = timeval(tv_sec: Patience.seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw POSIXError(.ECONNREFUSED) }
    }

    deinit { close(descriptor) }

    /// Sends `bytes`. The rest is dropped if the other side has closed the connection.
    func send(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    func send(_ text: String) { send(Array(text.utf8)) }

    /// Closes the sending side only.
    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Shuts the connection down in both directions.
    func cut() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Resets the connection. The other side notices at once, even while it waits to send.
    func reset() {
        var nowhere = sockaddr()
        nowhere.sa_family = sa_family_t(AF_UNSPEC)
        connect(descriptor, &nowhere, socklen_t(MemoryLayout<sockaddr>.size))
    }

    /// The next received bytes; empty at the end of the connection, `nil` on a timeout.
    func receive() -> [UInt8]? {
        var space = [UInt8](repeating: 0, count: 65_536)
        var count = recv(descriptor, &space, space.count, 0)
        // `recv` fails with EINTR when a stopped process is continued (signal(7)).
        while count < 0, errno == EINTR { count = recv(descriptor, &space, space.count, 0) }
        if count < 0 { return errno == EAGAIN || errno == EWOULDBLOCK ? nil : [] }
        return Array(space[..<count])
    }

    /// All bytes until the end of the connection; `nil` on a timeout.
    func receiveAll() -> [UInt8]? {
        while let more = receive() {
            if more.isEmpty { return received }
            received += more
        }
        return nil
    }

    /// The next answer, which has a Content-Length or no body; `nil` if the connection ends before or on a timeout.
    func answer(hasBody: Bool = true) -> Answer? {
        while true {
            if let (answer, count) = Self.parse(received, hasBody: hasBody) {
                received.removeFirst(count)
                return answer
            }
            guard let more = receive(), !more.isEmpty else { return nil }
            received += more
        }
    }

    /// Adds bytes that the caller has received, and returns the answer once it is complete. For polling many
    /// connections.
    func answerSoFar(adding more: [UInt8]) -> Answer? {
        received += more
        guard let (answer, count) = Self.parse(received, hasBody: true) else { return nil }
        received.removeFirst(count)
        return answer
    }

    private static func parse(_ bytes: [UInt8], hasBody: Bool) -> (Answer, Int)? {
        let separator = Array("\r\n\r\n".utf8)
        guard let end = bytes.indices.first(where: { bytes[$0...].starts(with: separator) }) else { return nil }
        let lines = String(decoding: bytes[..<end], as: UTF8.self).components(separatedBy: "\r\n")
        let words = lines[0].split(separator: " ")
        guard words.count > 1, let status = Int(words[1]) else { return nil }
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields[line[..<colon].lowercased()] = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        }
        let start = end + 4
        let count = hasBody && status != 204 && status != 304 ? Int(fields["content-length"] ?? "0") ?? 0 : 0
        guard bytes.count >= start + count else { return nil }
        return (Answer(status: status, fields: fields, body: Array(bytes[start..<(start + count)])), start + count)
    }
}

/// Sends one request over a new connection.
func ask(
    _ port: Int, _ method: String, _ target: String, fields: [String] = [], body: String? = nil
) throws -> RawConnection.Answer? {
    let connection = try RawConnection(port: port)
    connection.send(request(method, target, fields: fields, body: body))
    return connection.answer(hasBody: method != "HEAD")
}

/// The text of a request.
func request(_ method: String, _ target: String, fields: [String] = [], body: String? = nil) -> String {
    var lines = ["\(method) \(target) HTTP/1.1", "Host: localhost"] + fields
    if let body { lines.append("Content-Length: \(body.utf8.count)") }
    return lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")
}

/// Polls `condition`. Returns `true` as soon as it holds, or `false` after ``Patience/limit``.
func comesTrue(_ condition: () throws -> Bool) rethrows -> Bool {
    let end = ContinuousClock.now + Patience.limit
    while try !condition() {
        guard ContinuousClock.now < end else { return false }
        sched_yield()
    }
    return true
}
