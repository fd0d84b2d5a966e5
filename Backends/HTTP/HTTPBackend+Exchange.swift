import HTTPTypes
import SyncCore
import SyncProtocol

extension HTTPBackend {
    func version(of answer: TransportAnswer) -> EntryVersion? {
        guard let field = answer.response.headerFields.value(of: .eTag), case .tags(let tags) = TagCondition(field),
            tags.count == 1
        else { return nil }
        return tags[0].version
    }

    /// Sends a request, and repeats it once with a new token if the first was refused.
    func exchange(
        _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields, body: [UInt8] = [],
        for operation: BackendError.Operation, key: EntryKey? = nil, maximumByteCount: Int? = nil
    ) async throws(BackendError) -> TransportAnswer {
        try BackendError.throwIfCancelled(operation, key: key)
        var refused: String?
        while true {
            let token: String?
            do throws(BackendError) {
                token = try await self.token(refused)
            } catch {
                throw error.during(operation, key: key)
            }
            let request = address.request(method, path, fields, token: token)
            let answer = try await send(request, body, for: operation, key: key, maximumByteCount: maximumByteCount)
            // A refused request had no effect.
            guard answer.response.status == .unauthorized, let token, refused == nil else { return answer }
            refused = token
        }
    }

    private func send(
        _ request: HTTPRequest, _ body: [UInt8], for operation: BackendError.Operation, key: EntryKey?,
        maximumByteCount: Int?
    ) async throws(BackendError) -> TransportAnswer {
        do throws(TransportError) {
            return try await transport.exchange(
                request, body: body, timeout: timeout,
                maximumByteCount: maximumByteCount ?? max(capabilities.maximumValueByteCount ?? 0, 1 << 20),
                id: host.randomBits())
        } catch {
            throw BackendError(error, operation: operation, key: key, label: label)
        }
    }

    /// Creates the error of an unsuccessful answer.
    func failure(
        _ answer: TransportAnswer, _ operation: BackendError.Operation, _ key: EntryKey?
    ) -> BackendError {
        let problem = Problem(json: answer.body) ?? Problem(answer.response.status, "")
        return problem.error(during: operation, key: key, retryAfter: RetryAfter.pause(of: answer.response))
    }

    /// Creates the error of an answer that does not follow the protocol.
    func foreign(
        _ answer: TransportAnswer, _ operation: BackendError.Operation, _ key: EntryKey?
    ) -> BackendError {
        BackendError(
            .notAStore, operation: operation, key: key,
            disposition: operation == .write || operation == .delete ? .outcomeUnknown : .permanent,
            message:
                "\(label): the answer (\(answer.response.status.code)) is none of a store; is this the right server?")
    }
}
