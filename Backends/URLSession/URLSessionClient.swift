import Foundation
public import HTTPTypes
public import SyncProtocol
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A transport on Foundation's `URLSession`, with the proxies, certificates and network rules of the system.
///
/// It follows no redirects, stores no cookies, caches or credentials, and requests uncompressed bodies unless the
/// request says otherwise.
///
/// - **Requests that may have arrived**: `URLSession` repeats a request by itself if a reused connection turns out to
///   be dead. "Cannot connect" therefore proves that nothing arrived only before the first answer of a server, and a
///   conditional write can conflict with its own first attempt. `CurlClient` is more precise on systems with libcurl.
///   Use it on Linux, where Foundation also traps on an answer with a truncated header.
/// - Repeated fields of an answer are merged into one with commas, and the order of fields is lost.
///
/// ```swift
/// let backend = try HTTPBackend(server: "https://sync.example.com", transport: URLSessionClient())
/// ```
public final class URLSessionClient: HTTPStreamingTransport {
    /// The current session and its connections.
    private let connections: Mutex<Connections>
    private let configuration: URLSessionConfiguration
    /// The maximum number of unread bytes of a stream. `URLSession` continues to receive even if the reader does not
    /// read.
    private static let streamByteCount = 1 << 20

    /// Creates a client with its own connections.
    ///
    /// - Parameter userAgent: the user agent of requests that do not set their own; `nil` for the default of the
    ///   system.
    public init(userAgent: String? = nil) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configuration.urlCredentialStorage = nil
        if let userAgent { configuration.httpAdditionalHeaders = ["User-Agent": userAgent] }
        self.configuration = configuration
        connections = Mutex(Connections(configuration))
    }

    deinit { connections.withLock { $0.end() } }

    private struct Connections {
        let session: URLSession
        let exchanges = URLSessionExchanges()

        init(_ configuration: URLSessionConfiguration) {
            session = URLSession(configuration: configuration, delegate: exchanges, delegateQueue: nil)
        }

        /// Invalidates the session. Its running tasks finish, and then it releases its delegate.
        func end() { session.finishTasksAndInvalidate() }
    }

    /// Sends `request` and reads the whole answer. Cancelling the task ends the exchange.
    ///
    /// - Parameters:
    ///   - request: method, address and header.
    ///   - body: the bytes after the header, empty for none.
    ///   - timeout: the time limit for the whole exchange, more than zero.
    ///   - maximumByteCount: the maximum length of the answer. A longer one is `TransportError.Kind.tooLarge`.
    public func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        let clock = ContinuousClock()
        let end = clock.now + timeout
        let exchange = try start(request, body: body, patience: timeout, maximumByteCount: maximumByteCount)
        var answer = TransportAnswer(try await head(of: exchange, request))
        while true {
            exchange.patience.withLock { $0 = clock.now.duration(to: end) }
            guard let bytes = try await exchange.next() else { return answer }
            guard bytes.count <= maximumByteCount - answer.body.count else {
                throw TransportError(
                    .tooLarge, mayHaveArrived: true, message: "the answer has more than \(maximumByteCount) bytes")
            }
            answer.body += bytes
        }
    }

    /// Sends `request` and returns when the header of the answer has arrived. Cancelling the task ends the exchange. A
    /// stream with more than 1 MiB of unread bytes ends with `TransportError.Kind.tooLarge`.
    ///
    /// - Parameters:
    ///   - request: method, address and header.
    ///   - idleTimeout: the maximum silence while the reader waits, more than zero.
    public func stream(
        _ request: HTTPRequest, idleTimeout: Duration
    ) async throws(TransportError) -> TransportStream {
        let exchange = try start(
            request, body: [], patience: idleTimeout, maximumByteCount: Self.streamByteCount)
        return TransportStream(try await head(of: exchange, request), source: exchange)
    }

    private func head(
        of exchange: URLSessionExchange, _ request: HTTPRequest
    ) async throws(TransportError) -> HTTPResponse {
        let response = try await exchange.head()
        guard response.matchesRequestID(request) else {
            // The connection of the exchange is unknown, so all connections are dropped.
            connections.withLock { connections in
                guard connections.exchanges === exchange.exchanges else { return }
                connections.end()
                connections = Connections(configuration)
            }
            throw .mismatchedAnswer
        }
        return response
    }

    private func start(
        _ request: HTTPRequest, body: [UInt8], patience: Duration, maximumByteCount: Int
    ) throws(TransportError) -> URLSessionExchange {
        guard let scheme = request.scheme, ["http", "https"].contains(scheme), let authority = request.authority,
            !authority.isEmpty, let path = request.path, path.hasPrefix("/"),
            (authority + path).utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !authority.contains("@"),
            let url = URL(string: "\(scheme)://\(authority)\(path)")
        else {
            throw TransportError(
                .malformed, mayHaveArrived: false, message: "the request has no URL of the form https://HOST/PATH")
        }
        var wire = URLRequest(url: url)
        wire.httpMethod = request.method.rawValue
        // Readers have shorter timeouts. This one ends exchanges without a reader.
        wire.timeoutInterval = max(patience / .seconds(1), 1) * 2
        for field in request.headerFields { wire.addValue(field.value, forHTTPHeaderField: field.name.rawName) }
        if request.headerFields[.acceptEncoding] == nil {
            wire.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        }
        if !body.isEmpty { wire.httpBody = Data(body) }
        return connections.withLock { connections in
            let exchange = URLSessionExchange(
                connections.session.dataTask(with: wire), among: connections.exchanges, authority, patience: patience,
                maximumByteCount: maximumByteCount)
            connections.exchanges.add(exchange.state, authority)
            return exchange
        }
    }
}
