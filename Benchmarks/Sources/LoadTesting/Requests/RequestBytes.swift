package import NIOCore
import Synchronization

/// An access token that may be replaced during a run.
package final class LoadCredential: Sendable {
    private let state: Mutex<(token: String, generation: Int)>

    package init(token: String) { state = Mutex((token, 0)) }

    /// The token, and the number of tokens before it.
    package var current: (token: String, generation: Int) { state.withLock { $0 } }

    package func replace(by token: String) {
        state.withLock { $0 = (token, $0.generation + 1) }
    }
}

/// An HTTP/1.1 request that is serialized once and sent often.
package struct RequestBytes: Sendable {
    private let method: String
    private let path: String
    private let authority: String
    private let fields: [(name: String, value: String)]
    private let body: [UInt8]
    private let credential: LoadCredential?
    private var written = ByteBuffer()
    private var generation = -1

    /// - Parameters:
    ///   - path: path and query, with the leading slash.
    ///   - fields: fields other than `Host`, `Content-Length` and `Authorization`.
    ///   - credential: the bearer token of `Authorization`.
    package init(
        _ method: String, _ path: String, at target: LoadTarget, fields: [(name: String, value: String)] = [],
        body: [UInt8] = [], credential: LoadCredential? = nil
    ) {
        (self.method, self.path, self.body, self.credential) = (method, path, body, credential)
        (self.authority, self.fields) = (target.authority, fields)
    }

    /// The request with the current token.
    package mutating func bytes() -> ByteBuffer {
        let (token, current) = credential?.current ?? ("", 0)
        if current != generation {
            written.clear()
            write(token, [], body, to: &written)
            generation = current
        }
        return written
    }

    /// True if the token has been replaced since the last call of ``bytes()``.
    package var isOutdated: Bool { (credential?.current.generation ?? 0) != generation }

    /// The request with the current token, one more field and another body.
    package func bytes(adding field: (name: String, value: String), body: [UInt8]) -> ByteBuffer {
        var buffer = ByteBuffer()
        write(credential?.current.token ?? "", [field], body, to: &buffer)
        return buffer
    }

    private func write(
        _ token: String, _ added: [(name: String, value: String)], _ body: [UInt8], to buffer: inout ByteBuffer
    ) {
        buffer.reserveCapacity(minimumWritableBytes: 1_024 + body.count)
        buffer.writeString("\(method) \(path) HTTP/1.1\r\nHost: \(authority)\r\n")
        if credential != nil { buffer.writeString("Authorization: Bearer \(token)\r\n") }
        for field in fields + added { buffer.writeString("\(field.name): \(field.value)\r\n") }
        if !body.isEmpty || !["GET", "HEAD", "DELETE"].contains(method) {
            buffer.writeString("Content-Length: \(body.count)\r\n")
        }
        buffer.writeString("\r\n")
        buffer.writeBytes(body)
    }
}
