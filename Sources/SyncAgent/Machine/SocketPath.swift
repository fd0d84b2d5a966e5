import Foundation

/// The path of a Unix socket.
package enum SocketPath {
    /// The longest path in bytes, without the terminating zero: 107 on Linux.
    package static let maximumByteCount = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

    /// Creates a socket.
    ///
    /// - Returns: Its descriptor; negative after an error. Child processes do not inherit it.
    static func open(isStream: Bool) -> Int32 {
        #if os(Linux)
        let type = isStream ? SOCK_STREAM : SOCK_DGRAM
        return socket(AF_UNIX, Int32(type.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        #else
        return socket(AF_UNIX, isStream ? SOCK_STREAM : SOCK_DGRAM, 0)
        #endif
    }

    /// Calls `body` with the address of `path`. A leading `@` stands for the abstract namespace of Linux.
    ///
    /// - Returns: `nil` if the path is too long.
    static func withAddress<Value>(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Value
    ) -> Value? {
        var bytes = Array(path.utf8)
        guard bytes.count <= maximumByteCount else { return nil }
        let isAbstract = bytes.first == UInt8(ascii: "@")
        if isAbstract { bytes[0] = 0 }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let length = isAbstract ? MemoryLayout<sa_family_t>.size + bytes.count : MemoryLayout<sockaddr_un>.size
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(length)) }
        }
    }
}
