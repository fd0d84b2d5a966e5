package import HTTPTypes
package import SyncCore
package import SyncProtocol

extension TransportAnswer {
    /// An answer that carries `problem`.
    static func problem(_ problem: Problem) -> TransportAnswer {
        var response = HTTPResponse(status: HTTPResponse.Status(code: problem.status))
        response.headerFields[.contentType] = Problem.mediaType
        return TransportAnswer(response, body: problem.json)
    }

    /// An answer that refuses a request and says what to do instead.
    package static func refusal(_ status: HTTPResponse.Status, _ detail: String) -> TransportAnswer {
        .problem(Problem(status, detail))
    }

    /// Like ``problem(_:)``, with a `Retry-After` if a retry can help.
    static func failure(_ problem: Problem) -> TransportAnswer {
        var answer = TransportAnswer.problem(problem)
        if problem.status == HTTPResponse.Status.serviceUnavailable.code {
            answer.response.headerFields[.retryAfter] = "1"
        }
        return answer
    }

    /// An answer without a body.
    package static let done = TransportAnswer(HTTPResponse(status: .noContent))

    /// An answer with a JSON body.
    package static func json(
        _ status: HTTPResponse.Status = .ok, _ body: () throws -> [UInt8]
    ) throws(BackendError) -> TransportAnswer {
        do {
            var response = HTTPResponse(status: status)
            response.headerFields[.contentType] = "application/json"
            return TransportAnswer(response, body: try body())
        } catch {
            throw BackendError(.other, message: "the answer cannot be written as JSON: \(error)", cause: error)
        }
    }
}

extension Problem {
    /// The refusal of a key outside the caller's scope. It is the same for all keys, whether they exist or not.
    static let outOfScope = Problem(.forbidden, "a token gives access to the keys of its own account only")

    /// The problem that reports an error of the server's store to a client. Paths and causes must not reach the client;
    /// such errors go to `onError`. Errors that the client caused do not, because malformed requests must not fill the
    /// server's log.
    static func report(of error: BackendError, _ onError: (BackendError) -> Void) -> Problem {
        if error.cause is QuotaReached {
            var problem = Problem(error)
            (problem.type, problem.title) = ("urn:entitlementsync:problem:quota", "quota")
            return problem
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
        return Problem(error, detail: detail)
    }
}
