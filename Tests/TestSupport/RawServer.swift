import Dispatch
import Foundation
import Synchronization

/// A server on 127.0.0.1 that sends the bytes that a test dictates, so that it can send wrong answers, break off, or
/// stay silent. Each connection has its own thread and ends with the closure of the test, or with the server.
public final class RawServer: Sendable {
    /// The port on which it listens.
    public let port: UInt16
    private let listener: Int32
    private let shared: Shared

    fileprivate final class Shared: Sendable {
        struct State {
            var isClosed = false
            var isListening = true
            var connectionCount = 0
            var open: [Int32] = []
        }

        let state = Mutex(State())
        let isOver = DispatchSemaphore(value: 0)
        let turns = DispatchSemaphore(value: 0)
    }

    /// Starts a server that calls `serve` for each connection; `number` counts them from 0.
    public init(_ serve: @escaping @Sendable (_ connection: RawConnection, _ number: Int) -> Void) throws {
        let listener = try Self.listen()
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(listener, $0, &length) }
        }
        guard code == 0 else { throw CocoaError(.fileReadUnknown) }
        port = UInt16(bigEndian: address.sin_port)
        self.listener = listener
        let shared = Shared()
        self.shared = shared
        Thread.detachNewThread {
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else {
                    #if os(Linux)
                    // Closed only here, because the descriptor number could otherwise be reused while this thread still
                    // uses it.
                    close(listener)
                    #endif
                    return
                }
                // Otherwise a child process of another test would keep the connection open.
                _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
                let number = shared.state.withLock { state -> Int? in
                    guard !state.isClosed else { return nil }
                    defer { state.connectionCount += 1 }
                    state.open.append(descriptor)
                    return state.connectionCount
                }
                guard let number else {
                    close(descriptor)
                    continue
                }
                let connection = RawConnection(descriptor: descriptor, shared: shared)
                Thread.detachNewThread {
                    serve(connection, number)
                    connection.close()
                }
            }
        }
    }

    deinit {
        shared.state.withLock { state in
            state.isClosed = true
            for descriptor in state.open { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
        shared.isOver.signal()
        shared.turns.signal()
        stopListening()
    }

    /// Releases one connection that waits in ``RawConnection/waitForTurn()``.
    public func takeTurn() { shared.turns.signal() }

    /// Stops accepting connections. Existing ones stay open.
    public func stopListening() {
        let wasListening = shared.state.withLock { state in
            defer { state.isListening = false }
            return state.isListening
        }
        guard wasListening else { return }
        #if os(Linux)
        shutdown(listener, Int32(SHUT_RDWR))
        #else
        close(listener)
        #endif
    }

    /// The number of connections so far.
    public var connectionCount: Int { shared.state.withLock { $0.connectionCount } }

    /// The number of open connections.
    public var openConnectionCount: Int { shared.state.withLock { $0.open.count } }

    /// `127.0.0.1:PORT`.
    public var authority: String { "127.0.0.1:\(port)" }

    fileprivate static func loopback(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr = in_addr(s_addr: in_addr_t(0x7F00_0001).bigEndian)
        return address
    }

    fileprivate static func makeSocket() -> Int32 {
        #if os(Linux)
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
        let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return descriptor
    }

    private static func listen() throws -> Int32 {
        let descriptor = makeSocket()
        var address = loopback(port: 0)
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard descriptor >= 0, code == 0, Foundation.listen(descriptor, 512) == 0 else {
            throw CocoaError(.fileWriteUnknown)
        }
        return descriptor
    }
}

/// One end of a connection. One thread may read it while another one writes to it.
public final class RawConnection: Sendable {
    private let descriptor: Int32
    private let shared: RawServer.Shared
    private let isOpen = Mutex(true)

    fileprivate init(descriptor: Int32, shared: RawServer.Shared) {
        (self.descriptor, self.shared) = (descriptor, shared)
    }

    /// Connects to a server on this machine; `nil` if no server listens on `port`.
    public static func connect(to port: UInt16) -> RawConnection? {
        let descriptor = RawServer.makeSocket()
        var address = RawServer.loopback(port: port)
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Foundation.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else {
            _ = Foundation.close(descriptor)
            return nil
        }
        return RawConnection(descriptor: descriptor, shared: RawServer.Shared())
    }

    /// Reads a request with header and body; `nil` if the client has closed the connection.
    public func readRequest() -> String? { readMessage().map { String(decoding: $0, as: UTF8.self) } }

    /// Reads a message with header and body; `nil` if the other side has closed the connection. The message must state
    /// its length or have no body.
    public func readMessage() -> [UInt8]? {
        var bytes: [UInt8] = []
        while true {
            if let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) {
                let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
                let length = head.split(separator: "\r\n").compactMap { line in
                    line.lowercased().hasPrefix("content-length: ") ? Int(line.dropFirst(16)) : nil
                }.first
                if bytes.count - end.upperBound >= length ?? 0 { return bytes }
            }
            guard let more = read() else { return nil }
            bytes += more
        }
    }

    /// Reads the available bytes; `nil` at the end.
    public func read() -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var count = recv(descriptor, &buffer, buffer.count, 0)
        while count < 0, errno == EINTR { count = recv(descriptor, &buffer, buffer.count, 0) }
        return count > 0 ? Array(buffer[..<count]) : nil
    }

    /// Sends `text`. Returns true if the client accepted it.
    @discardableResult
    public func write(_ text: String) -> Bool { write(Array(text.utf8)) }

    /// Sends `bytes`. Returns true if the client accepted them.
    @discardableResult
    public func write(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                send(descriptor, $0.baseAddress?.advanced(by: sent), bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// Sends a response with `body` and keeps the connection open.
    @discardableResult
    public func answer(_ body: String = "", fields: String = "", status: String = "200 OK") -> Bool {
        write("HTTP/1.1 \(status)\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
    }

    /// Returns when the client has closed the connection. Received bytes are discarded.
    public func waitForEnd() { while read() != nil {} }

    /// Neither reads nor writes until the server ends.
    public func ignore() {
        shared.isOver.wait()
        // Wakes the next waiting connection.
        shared.isOver.signal()
    }

    /// Waits for the next ``RawServer/takeTurn()``.
    public func waitForTurn() { shared.turns.wait() }

    /// Aborts the connection, so that the client's next operation fails with a reset.
    public func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    /// Ends both directions, so that threads which read or write return.
    public func shutDown() {
        isOpen.withLock { if $0 { shutdown(descriptor, Int32(SHUT_RDWR)) } }
    }

    /// Closes the connection.
    public func close() {
        let wasOpen = isOpen.withLock { isOpen in
            defer { isOpen = false }
            return isOpen
        }
        guard wasOpen else { return }
        shared.state.withLock { state in
            state.open.removeAll { $0 == descriptor }
            _ = Foundation.close(descriptor)
        }
    }
}
