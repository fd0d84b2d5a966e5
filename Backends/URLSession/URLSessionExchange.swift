import Foundation
import HTTPTypes
import SyncProtocol
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// One request and its answer, for a single reader. Releasing it ends the exchange.
final class URLSessionExchange: TransportSource {
    /// The state that the delegate updates.
    final class State: Sendable {
        let task: URLSessionDataTask
        let buffer = TransportBuffer()
        let response = Mutex<HTTPResponse?>(nil)
        /// Signals the arrival of the header.
        let header = TransportBuffer()
        /// True if the exchange cannot use an existing connection, which might be dead.
        let isFirst: Bool
        /// The maximum number of unread bytes.
        let maximumByteCount: Int

        init(_ task: URLSessionDataTask, isFirst: Bool, maximumByteCount: Int) {
            (self.task, self.isFirst, self.maximumByteCount) = (task, isFirst, maximumByteCount)
        }

        func finish(_ error: TransportError?) {
            header.finish(error)
            buffer.finish(error)
        }
    }

    let state: State
    /// All exchanges of the session.
    let exchanges: URLSessionExchanges
    /// The remaining time of a timeout.
    let patience: Mutex<Duration>

    init(
        _ task: URLSessionDataTask, among exchanges: URLSessionExchanges, _ authority: String, patience: Duration,
        maximumByteCount: Int
    ) {
        state = State(task, isFirst: exchanges.isFirst(of: authority), maximumByteCount: maximumByteCount)
        self.exchanges = exchanges
        self.patience = Mutex(patience)
    }

    // Has no effect on a finished task.
    deinit { state.task.cancel() }

    /// Sends the request and returns when the header of the answer has arrived.
    func head() async throws(TransportError) -> HTTPResponse {
        if Task.isCancelled { throw cancelled(mayHaveArrived: false) }
        state.task.resume()
        _ = try await next(from: state.header)
        guard let response = state.response.withLock({ $0 }) else {
            throw TransportError(.malformed, mayHaveArrived: true, message: "the answer is not HTTP")
        }
        return response
    }

    func next() async throws(TransportError) -> [UInt8]? { try await next(from: state.buffer) }

    private func next(from buffer: TransportBuffer) async throws(TransportError) -> [UInt8]? {
        while true {
            if Task.isCancelled { throw cancelled(mayHaveArrived: true) }
            // Bytes may keep arriving after the deadline.
            guard patience.withLock({ $0 > .zero }) else { throw late() }
            switch buffer.take() {
            case .bytes(let bytes, _):
                return bytes
            case .end(.success): return nil
            case .end(.failure(let error)): throw error
            case .nothing:
                guard await isTimely(buffer) || Task.isCancelled else { throw late() }
            }
        }
    }

    /// Waits for bytes and returns false if the timeout expires first.
    private func isTimely(_ buffer: TransportBuffer) async -> Bool {
        let patience = patience.withLock { $0 }
        return await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                await buffer.wait {}
                return true
            }
            group.addTask {
                // The sleep ends early only by cancellation, which means that bytes arrived.
                do { try await ContinuousClock().sleep(for: patience) } catch { return true }
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }

    private func late() -> TransportError {
        state.task.cancel()
        return TransportError(.timedOut, mayHaveArrived: true, message: "the request timed out")
    }

    private func cancelled(mayHaveArrived: Bool) -> TransportError {
        state.task.cancel()
        return TransportError(.cancelled, mayHaveArrived: mayHaveArrived, message: "the task was cancelled")
    }
}

/// The delegate of a session, which routes events to its exchanges.
final class URLSessionExchanges: NSObject, URLSessionDataDelegate, Sendable {
    private struct State {
        var active: [Int: (exchange: URLSessionExchange.State, authority: String)] = [:]
        /// The servers that have answered, to which connections may exist.
        var known: Set<String> = []
    }

    private let state = Mutex(State())

    func isFirst(of authority: String) -> Bool { state.withLock { !$0.known.contains(authority) } }

    func add(_ exchange: URLSessionExchange.State, _ authority: String) {
        state.withLock { $0.active[exchange.task.taskIdentifier] = (exchange, authority) }
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        let found = state.withLock { state in
            let found = state.active[dataTask.taskIdentifier]
            if let found { state.known.insert(found.authority) }
            return found?.exchange
        }
        if let response = response as? HTTPURLResponse, (100...999).contains(response.statusCode) {
            found?.response.withLock { $0 = HTTPResponse(response) }
        }
        found?.header.finish(nil)
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        guard let exchange = state.withLock({ $0.active[dataTask.taskIdentifier]?.exchange }) else { return }
        guard !exchange.buffer.offer(data, maximum: exchange.maximumByteCount) else { return }
        exchange.finish(
            TransportError(
                .tooLarge, mayHaveArrived: true,
                message: "the answer has more than \(exchange.maximumByteCount) bytes, or they are not being read"))
        dataTask.cancel()
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let exchange = state.withLock { $0.active.removeValue(forKey: task.taskIdentifier)?.exchange }
        guard let exchange else { return }
        exchange.finish(error.map { TransportError($0, isFirst: exchange.isFirst) })
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}

extension HTTPResponse {
    fileprivate init(_ response: HTTPURLResponse) {
        var fields: [(name: String, value: String)] = []
        for (name, value) in response.allHeaderFields {
            if let name = name as? String, let value = value as? String { fields.append((name, value)) }
        }
        self.init(status: Status(code: response.statusCode))
        for (name, value) in fields.sorted(by: { $0.name < $1.name }) {
            if let name = HTTPField.Name(name) { headerFields.append(HTTPField(name: name, value: value)) }
        }
    }
}

extension TransportError {
    /// Maps an error of `URLSession`.
    ///
    /// - Parameter isFirst: true if no connection existed. Then an unreachable server has received nothing.
    fileprivate init(_ error: any Error, isFirst: Bool) {
        guard let error = error as? URLError else {
            self.init(.other, mayHaveArrived: true, message: Self.line(error))
            return
        }
        let kind: Kind =
            switch error.code {
            case .cannotFindHost, .dnsLookupFailed, .cannotConnectToHost, .notConnectedToInternet,
                .secureConnectionFailed, .internationalRoamingOff, .dataNotAllowed:
                .unreachable
            case .serverCertificateUntrusted, .serverCertificateHasBadDate, .serverCertificateNotYetValid,
                .serverCertificateHasUnknownRoot, .clientCertificateRejected, .clientCertificateRequired:
                .untrusted
            case .timedOut: .timedOut
            case .networkConnectionLost: .interrupted
            case .cancelled: .cancelled
            case .badServerResponse, .cannotParseResponse, .cannotDecodeContentData, .cannotDecodeRawData, .badURL,
                .unsupportedURL:
                .malformed
            case .dataLengthExceedsMaximum: .tooLarge
            default: .other
            }
        let isUnsent = isFirst && [.unreachable, .untrusted].contains(kind)
        self.init(kind, mayHaveArrived: !isUnsent, message: Self.line(error))
    }

    private static func line(_ error: any Error) -> String {
        error.localizedDescription.split(whereSeparator: \.isNewline).joined(separator: " ")
    }
}
