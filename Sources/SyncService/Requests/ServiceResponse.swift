package import Entitlements
package import HTTPTypes
import SyncCore
import SyncProtocol

/// A response, with the facts that the log and the metrics record about it.
package struct ServiceResponse: Sendable {
    /// The body of a response.
    package enum Body: Sendable {
        /// The whole body.
        case bytes([UInt8])
        /// A body in pieces, until the stream ends. The stream buffers few pieces, and ends by itself if they are not
        /// taken. The server calls `end` when it needs no more pieces, from any thread and any number of times.
        case stream(AsyncStream<[UInt8]>, end: @Sendable () -> Void)
    }

    /// Status and header fields.
    package var head: HTTPResponse
    /// The body.
    package var body: Body
    /// The path as the OpenAPI document writes it: `/v1/kv/{key}`. Never the client's text, which may contain a secret.
    package var route = "none"
    /// The sender of the request, if it is known: an account's name or `operator`.
    package var caller: String?
    /// The name of the account that an operator's request concerned, as the client wrote it; `nil` for requests of
    /// accounts, and for requests that concern no account.
    package var subject: String?

    /// A response of the given parts.
    package init(_ head: HTTPResponse, body: Body = .bytes([]), route: String = "none", caller: String? = nil) {
        (self.head, self.body, self.route, self.caller) = (head, body, route, caller)
    }

    /// A response with a whole body.
    package init(_ head: HTTPResponse, body: [UInt8]) { self.init(head, body: .bytes(body)) }

    /// The number of bytes of a whole body; 0 for a stream.
    package var byteCount: Int { if case .bytes(let bytes) = body { bytes.count } else { 0 } }
}

extension ServiceResponse {
    /// A response that carries `problem`.
    static func problem(_ problem: Problem) -> ServiceResponse {
        var head = HTTPResponse(status: HTTPResponse.Status(code: problem.status))
        head.headerFields[.contentType] = Problem.mediaType
        return ServiceResponse(head, body: problem.json)
    }

    /// A response that refuses a request and says what to do instead.
    package static func refusal(_ status: HTTPResponse.Status, _ detail: String) -> ServiceResponse {
        .problem(Problem(status, detail))
    }

    /// The response to a request that failed with an error of the store, with a `Retry-After` if a retry can help.
    ///
    /// - Parameter onError: Receives the error, unless the client caused it.
    static func failure(_ error: BackendError, _ onError: (BackendError) -> Void) -> ServiceResponse {
        let problem = Problem.report(of: error, onError)
        var response = ServiceResponse.problem(problem)
        if error.cause is LimitReached, let wait = error.retryAfter {
            response.head.headerFields[.retryAfter] = String(max(1, wait.components.seconds))
        } else if problem.status == HTTPResponse.Status.serviceUnavailable.code {
            response.head.headerFields[.retryAfter] = "1"
        }
        return response
    }

    /// A response without a body.
    package static let done = ServiceResponse(HTTPResponse(status: .noContent))

    /// A response with a JSON body.
    package static func json(_ text: [UInt8], status: HTTPResponse.Status = .ok) -> ServiceResponse {
        var head = HTTPResponse(status: status)
        head.headerFields[.contentType] = "application/json"
        return ServiceResponse(head, body: text)
    }

    /// A response with a JSON object.
    package static func json(_ members: [(String, JSON)], status: HTTPResponse.Status = .ok) -> ServiceResponse {
        .json(Array(JSON.object(members).text().utf8), status: status)
    }
}

extension Problem {
    /// The refusal of a key outside the caller's scope. It is the same for all keys, whether they exist or not.
    static let outOfScope = Problem(.forbidden, "a token gives access to the keys of its own account only")

    /// The problem that reports an error of the server's store to a client. Paths and causes must not reach the client;
    /// such errors go to `onError`. Errors that the client caused do not, because malformed requests must not fill the
    /// server's log.
    static func report(of error: BackendError, _ onError: (BackendError) -> Void) -> Problem {
        switch error.cause {
        case is AccountErased: return .outOfScope
        case is LimitReached:
            var problem = Problem(error)
            // The account must wait; the server itself is not overloaded.
            if error.retryAfter != nil { problem.status = HTTPResponse.Status.tooManyRequests.code }
            return problem
        case is QuotaReached:
            var problem = Problem(error)
            (problem.type, problem.title) = ("urn:entitlementsync:problem:quota", "quota")
            return problem
        default: break
        }
        // A missing permission of the server process, or of its file system, is a failure of the server and not a
        // refusal.
        let isInternal = error.kind == .permissionDenied
        let isClientError = !isInternal && error.cause == nil && (400..<500).contains(Problem.status(of: error).code)
        if !isClientError { onError(error) }
        let error =
            isInternal ? BackendError(.unavailable, disposition: error.disposition, message: error.message) : error
        let detail =
            switch error.kind {
            case _ where !isClientError: "the server could not do this (\(error.kind)); its log says why"
            // The store's own message contains its location.
            case .cursorExpired: "this cursor has expired; read everything again"
            default: error.message
            }
        var problem = Problem(error, detail: detail)
        // The key may be another account's, for example that of the owner of a purchase.
        if !isClientError { problem.key = nil }
        return problem
    }
}
