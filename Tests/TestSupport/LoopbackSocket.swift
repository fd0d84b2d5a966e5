import Foundation

/// A socket on the loopback interface, closed when the object is deallocated.
public final class LoopbackSocket {
    private let descriptor: Int32
    private var address = sockaddr_in()
    private var length = socklen_t(MemoryLayout<sockaddr_in>.size)

    /// Creates a socket for `port`; 0 for any free one.
    public init(port: UInt16) throws {
        #if os(Linux)
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        #else
        descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        guard descriptor >= 0 else { throw CocoaError(.fileReadUnknown) }
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr = in_addr(s_addr: in_addr_t(0x7F00_0001).bigEndian)
    }

    deinit { close(descriptor) }

    func connect() -> Bool { calling { Foundation.connect(descriptor, $0, length) } == 0 }

    /// Sends all bytes, closes the sending side, and reads until the other side closes.
    func sendAndClose(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
        shutdown(descriptor, Int32(SHUT_WR))
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while recv(descriptor, &buffer, buffer.count, 0) > 0 {}
    }

    /// Binds the socket and returns the port.
    public func bind() throws -> UInt16 {
        guard calling({ Foundation.bind(descriptor, $0, length) }) == 0,
            calling({ getsockname(descriptor, $0, &length) }) == 0
        else { throw CocoaError(.fileReadUnknown) }
        return UInt16(bigEndian: address.sin_port)
    }

    private func calling(_ body: (UnsafeMutablePointer<sockaddr>) -> Int32) -> Int32 {
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1, body)
        }
    }
}
