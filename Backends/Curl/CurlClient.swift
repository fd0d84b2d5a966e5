public import HTTPTypes
public import SyncProtocol

/// A transport on libcurl, version 7.80 or later.
///
/// Exchanges run on one thread of the client, which ends when neither the client nor one of its streams is referenced.
/// A single exchange starts on its caller's thread and stays there for at most one or two milliseconds if the server's
/// last answer was that fast, because waking a thread would take longer. Connections are reused, and HTTP/2 is used if
/// TLS negotiates it.
///
/// - **Retries only safe methods.** If a reused connection turns out to be dead, libcurl sends the request again. This
///   client allows it for `GET` and `HEAD` only. Other requests fail with `TransportError.Kind.interrupted`, because
///   they may have arrived.
/// - **Reports which requests may have arrived**: every request that was handed to a connection, whatever happened
///   later. A server that was not reached, or whose certificate was not trusted, has received nothing.
/// - Follows no redirects, stores no cookies, reads no `.netrc`, supports HTTP only, and requests uncompressed bodies
///   unless the request says otherwise.
/// - Uses the proxy of the environment (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`), but never for this
///   machine. ``Configuration/proxy`` overrides that.
///
/// ```swift
/// let transport = try CurlClient()
/// let backend = try HTTPBackend(server: "https://sync.example.com", transport: transport)
/// ```
public final class CurlClient: HTTPStreamingTransport {
    private let session: CurlSession
    private let connectTimeout: Duration

    /// Creates a client with its own connections.
    ///
    /// - Throws: `TransportError.Kind.other` if libcurl is older than 7.80 or refuses an option, or if the system
    ///   cannot create a thread.
    public init(_ configuration: Configuration = Configuration()) throws(TransportError) {
        session = try CurlSession(configuration)
        connectTimeout = configuration.connectTimeout
    }

    /// Sends `request` and reads the whole answer. Cancelling the task closes the connection, or the stream of HTTP/2.
    ///
    /// - Parameters:
    ///   - request: method, address and header. The fields that belong to the transfer itself (`Host`, `Connection`,
    ///     `Content-Length`, `Transfer-Encoding`, `Expect`) are set by the transport.
    ///   - body: the bytes after the header, empty for none.
    ///   - timeout: the time limit for the whole exchange, more than zero.
    ///   - maximumByteCount: the maximum length of the answer. A longer one is `TransportError.Kind.tooLarge`.
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

    /// Sends `request` and returns when the header of the answer has arrived. Cancelling the task closes the
    /// connection.
    ///
    /// - Parameters:
    ///   - request: method, address and header.
    ///   - idleTimeout: the maximum silence of the server, more than zero. The timeout is paused while the buffer is
    ///     full.
    public func stream(
        _ request: HTTPRequest, idleTimeout: Duration
    ) async throws(TransportError) -> TransportStream {
        let message = try CurlMessage(request, body: [])
        let buffer = TransportBuffer()
        let id = session.queue.makeID()
        // Referenced from here on, so that a caller that gives up before the header also ends the exchange.
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
        /// The trusted certificate authorities.
        public enum Trust: Hashable, Sendable {
            /// The default authorities of libcurl, which are those of the system.
            case system
            /// Only the certificates in this PEM file; the system's authorities are not trusted.
            case file(String)
            /// Only these certificates in PEM; the system's authorities are not trusted.
            case pem([UInt8])
        }

        /// The proxy for requests.
        public enum Proxy: Hashable, Sendable {
            /// The proxy of the environment, and none for requests to this machine.
            case environment
            /// No proxy.
            case none
            /// The given proxy (`http://HOST:PORT`, `socks5h://HOST:PORT`) for all requests.
            case server(String)
        }

        /// The trusted certificate authorities.
        public var trust = Trust.system
        /// A folder of authorities, with names as of `openssl rehash`, that replaces the default folder of libcurl;
        /// `nil` for the default. Tests use it in place of the system's folder.
        package var defaultAuthorityFolder: String?
        /// The addresses to which the client connects.
        package enum Addresses: Hashable, Sendable {
            case any
            /// Addresses that the whole Internet can reach. See ``IPAddress/isPublic(_:)``.
            case publicOnly
            /// All other addresses.
            case privateOnly
        }

        /// The addresses to which the client connects. They are checked after the look-up of the host's name, so a
        /// name that changes its address is no way around. Without a proxy only.
        package var addresses = Addresses.any
        /// `true` if an answer counts once its header is complete. If the rest is too long, late or interrupted, it is
        /// dropped with the connection, and is no error.
        package var ignoresRest = false
        /// `false` to accept any certificate, for a server from which only public data is read.
        package var verifiesServer = true
        /// The proxy for requests.
        public var proxy = Proxy.environment
        /// The user agent of requests that do not set their own; `nil` for none.
        public var userAgent: String?
        /// The time limit for connecting, including TLS: more than zero and at most the timeout of the request.
        public var connectTimeout = Duration.seconds(10)
        /// The maximum number of connections to one server, 1 or more. Further requests wait. A stream occupies a
        /// connection unless the server speaks HTTP/2.
        public var maximumConnectionsPerHost = 64
        /// The maximum length of an answer's header in bytes. A longer one is `TransportError.Kind.tooLarge`.
        public var maximumHeaderByteCount = 64 << 10

        /// Creates the default configuration.
        public init() {}
    }
}
