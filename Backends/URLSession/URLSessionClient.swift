import Foundation
public import HTTPTypes
public import SyncProtocol
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Carries requests by Foundation's `URLSession`: what an app on Apple's systems has anyway, with the system's proxies,
/// certificates and rules for networks.
///
/// It follows no redirect, keeps no cookies, no cache and no credentials, and asks for bodies without compression
/// unless the request says otherwise.
///
/// - **What may have arrived** it tells carefully: `URLSession` sends again by itself when a connection that was kept
///   turns out to be dead. So only before the first answer of a server does "cannot connect" mean that nothing arrived,
///   and a conditional write may meet its own first attempt as a conflict. `CurlClient` knows better on systems that
///   have libcurl; on Linux, where Foundation also traps at an answer whose header breaks off, it is the one to take.
/// - A field that an answer has several times comes as one, with commas, and the order of fields is lost.
///
/// ```swift
/// let backend = try HTTPBackend(server: "https://sync.example.com", transport: URLSessionClient())
/// ```
public final class URLSessionClient: HTTPStreamingTransport {
    /// A session's, and no other's.
    private let connections: Mutex<Connections>
    private let configuration: URLSessionConfiguration
    /// What of a stream may wait to be read; `URLSession` reads on whether somebody does or not.
    private static let streamByteCount = 1 << 20

    /// A client with connections of its own.
    ///
    /// - Parameter userAgent: named in each request that names none itself; `nil` for the system's choice.
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

        /// What is under way keeps its task, and ends by itself; the session lets go of its delegate then.
        func end() { session.finishTasksAndInvalidate() }
    }

    /// Sends `request` and reads all of the answer. Cancelling the task ends the exchange.
    ///
    /// - Parameters:
    ///   - request: method, address and header.
    ///   - body: what is sent after the header, empty for nothing.
    ///   - timeout: how long all of it may take, more than zero.
    ///   - maximumByteCount: a longer answer is `TransportError.Kind.tooLarge`.
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

    /// Sends `request` and answers as soon as the header is there. Cancelling the task ends the exchange. A stream of
    /// which more than 1 MiB waits to be read ends with `TransportError.Kind.tooLarge`.
    ///
    /// - Parameters:
    ///   - request: method, address and header.
    ///   - idleTimeout: how long nothing may come while somebody waits, more than zero.
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
        guard response.mayAnswer(request) else {
            // Its connection cannot be told apart from the others; all are given up.
            connections.withLock { connections in
                guard connections.exchanges === exchange.exchanges else { return }
                connections.end()
                connections = Connections(configuration)
            }
            throw .answerOfAnother
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
                .malformed, mayHaveArrived: false, message: "the request has no address of the form https://HOST/PATH")
        }
        var wire = URLRequest(url: url)
        wire.httpMethod = request.method.rawValue
        // Whoever waits has a shorter patience; this only ends what nobody waits for.
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
