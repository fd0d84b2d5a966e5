public import HTTPTypes
public import SyncProtocol

/// Carries requests by libcurl: on all systems that have it, version 7.80 or later.
///
/// Exchanges run on one thread of the client's own, which ends when neither the client nor one of its streams is
/// referenced any more. One that is alone begins on its caller's thread, and stays there for a millisecond or two
/// at most, if the server answered that fast the last time: waking threads would take longer than such an answer.
/// Connections are kept and used again, HTTP/2 where TLS offers it.
///
/// - **Repeats nothing that could be done twice.** When a connection that was kept turns out to be dead, libcurl sends
///   again by itself; here only `GET` and `HEAD` may be. Anything else fails with
///   `TransportError.Kind.interrupted`, as the request may have arrived.
/// - **Knows what may have arrived**: all that was handed to a connection, whatever came after. A server that was not
///   reached, or whose certificate was not trusted, has received nothing.
/// - Follows no redirect, keeps no cookies, reads no `.netrc`, speaks HTTP and nothing else, and asks for bodies
///   without compression unless the request says otherwise.
/// - Goes through the proxy that the environment names (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`), but
///   never to this machine itself. ``Configuration/proxy`` says otherwise.
///
/// ```swift
/// let transport = try CurlClient()
/// let backend = try HTTPBackend(server: "https://sync.example.com", transport: transport)
/// ```
public final class CurlClient: HTTPStreamingTransport {
    private let session: CurlSession
    private let connectTimeout: Duration

    /// A client with connections of its own.
    ///
    /// - Throws: `TransportError.Kind.other` where libcurl is older than 7.80, refuses an option, or the system gives
    ///   no thread.
    public init(_ configuration: Configuration = Configuration()) throws(TransportError) {
        session = try CurlSession(configuration)
        connectTimeout = configuration.connectTimeout
    }

    /// Sends `request` and reads all of the answer. Cancelling the task closes the connection, or the stream of HTTP/2.
    ///
    /// - Parameters:
    ///   - request: method, address and header. The fields that belong to the transfer itself (`Host`, `Connection`,
    ///     `Content-Length`, `Transfer-Encoding`, `Expect`) are the transport's own.
    ///   - body: the bytes after the header, empty for none.
    ///   - timeout: the longest time for all of it, more than zero.
    ///   - maximumByteCount: a longer answer is `TransportError.Kind.tooLarge`.
    public func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        let message = try CurlMessage(request, body: body)
        return try await session.exchange { continuation in
            CurlJob(
                message: message, timeout: timeout, connectTimeout: min(timeout, connectTimeout),
                receiver: .whole(continuation, maximumByteCount: maximumByteCount))
        }
    }

    /// Sends `request` and answers as soon as the header is there. Cancelling the task closes the connection.
    ///
    /// - Parameters:
    ///   - request: method, address and header.
    ///   - idleTimeout: the longest silence of the server, more than zero; not counted while the reader asks for
    ///     nothing and enough pieces wait.
    public func stream(
        _ request: HTTPRequest, idleTimeout: Duration
    ) async throws(TransportError) -> TransportStream {
        let message = try CurlMessage(request, body: [])
        let buffer = TransportBuffer()
        let id = session.queue.makeID()
        // Held from here on, so that a caller that gives up before the header ends the exchange too.
        let source = CurlStreamSource(session: session, id: id, buffer: buffer)
        let response: HTTPResponse = try await session.exchange(id: id) { continuation in
            CurlJob(
                message: message, timeout: nil, connectTimeout: min(idleTimeout, connectTimeout),
                receiver: .stream(continuation, buffer, idleTimeout: idleTimeout))
        }
        return TransportStream(response, source: source)
    }
}

extension CurlClient {
    /// The configuration of a client.
    public struct Configuration: Hashable, Sendable {
        /// The certificates that servers must be signed by.
        public enum Trust: Hashable, Sendable {
            /// The authorities that libcurl was built to trust: the system's.
            case system
            /// Only the certificates in this PEM file; the system's authorities are not trusted.
            case file(String)
            /// Only these certificates in PEM; the system's authorities are not trusted.
            case pem([UInt8])
        }

        /// The proxy that requests go through.
        public enum Proxy: Hashable, Sendable {
            /// The one that the environment names, and none for requests to this machine.
            case environment
            /// No proxy.
            case none
            /// This one (`http://HOST:PORT`, `socks5h://HOST:PORT`), for all requests.
            case server(String)
        }

        /// The certificates that servers must be signed by.
        public var trust = Trust.system
        /// A folder of authorities, named as `openssl rehash` names them, that takes the place of the folder libcurl
        /// was built with; `nil` for that one. Tests use it to stand in for the system's.
        package var defaultAuthorityFolder: String?
        /// The proxy that requests go through.
        public var proxy = Proxy.environment
        /// Named in each request that names none itself; `nil` for none.
        public var userAgent: String?
        /// The longest time to find a server and agree on TLS, more than zero and at most the request's timeout.
        public var connectTimeout = Duration.seconds(10)
        /// The most connections to one server at a time, 1 or more; requests beyond wait for one. A stream
        /// has one to itself unless the server speaks HTTP/2.
        public var maximumConnectionsPerHost = 64
        /// A longer header of an answer is `TransportError.Kind.tooLarge`, in bytes.
        public var maximumHeaderByteCount = 64 << 10

        /// The usual configuration.
        public init() {}
    }
}
