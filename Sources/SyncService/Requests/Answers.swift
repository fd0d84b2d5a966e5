import HTTPTypes
import SyncCore
import SyncProtocol

extension TransportAnswer {
    /// An answer that tells of `problem`.
    static func problem(_ problem: Problem) -> TransportAnswer {
        var response = HTTPResponse(status: HTTPResponse.Status(code: problem.status))
        response.headerFields[.contentType] = Problem.mediaType
        return TransportAnswer(response, body: problem.json)
    }

    /// An answer that a request is not done, and what to do instead.
    static func refusal(_ status: HTTPResponse.Status, _ detail: String) -> TransportAnswer {
        .problem(Problem(status, detail))
    }

    /// As ``problem(_:)``, with advice when to try again where that can help.
    static func failure(_ problem: Problem) -> TransportAnswer {
        var answer = TransportAnswer.problem(problem)
        if problem.status == HTTPResponse.Status.serviceUnavailable.code {
            answer.response.headerFields[.retryAfter] = "1"
        }
        return answer
    }

    /// An answer without body.
    static let done = TransportAnswer(HTTPResponse(status: .noContent))

    /// An answer of JSON.
    static func json(
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
    /// What is outside of a caller's scope: the same for all keys, there or not.
    static let notYours = Problem(.forbidden, "this is not yours: a token reaches its own account's keys and no other")

    /// What a client gets told of an error of the server's store: paths and causes are the server's affair, and only
    /// those go to `onError`. A client that asks for nonsense must not fill the server's log.
    static func told(of error: BackendError, _ onError: (BackendError) -> Void) -> Problem {
        if error.cause is QuotaReached {
            var problem = Problem(error)
            (problem.type, problem.title) = ("urn:entitlementsync:problem:quota", "quota")
            return problem
        }
        // What the server's own process may not do is no refusal of the client, nor is what its file system refuses.
        let isOurs = error.kind == .permissionDenied
        let isTheirs = !isOurs && error.cause == nil && (400..<500).contains(Problem.status(of: error).code)
        if !isTheirs { onError(error) }
        let error = isOurs ? BackendError(.unavailable, disposition: error.disposition, message: error.message) : error
        let detail =
            switch error.kind {
            case _ where !isTheirs: "the server could not do this (\(error.kind)); its log says why"
            // The store's own words name the place where it is.
            case .cursorExpired: "what changed since this cursor cannot be said any more; read everything again"
            default: error.message
            }
        return Problem(error, detail: detail)
    }
}
