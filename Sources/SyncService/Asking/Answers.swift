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

    /// What a client gets told of an error of the server's store: paths and causes are the server's affair.
    static func told(of error: BackendError, _ onError: (BackendError) -> Void) -> Problem {
        onError(error)
        // What the server's own process may not do is no refusal of the client.
        let isOurs = error.kind == .permissionDenied
        let error = isOurs ? BackendError(.unavailable, disposition: error.disposition, message: error.message) : error
        let isTheirs = !isOurs && (400..<500).contains(Problem.status(of: error).code)
        let detail = isTheirs ? error.message : "the server could not do this (\(error.kind)); its log says why"
        return Problem(error, detail: detail)
    }
}
