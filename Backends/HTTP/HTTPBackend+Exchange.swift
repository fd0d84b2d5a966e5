import HTTPTypes
import SyncCore
import SyncProtocol

extension HTTPBackend {
    /// Why `value` is not sent; `nil` for nothing.
    func refusal(of value: [UInt8], _ key: EntryKey) -> BackendError? {
        guard let maximum = capabilities.maximumValueByteCount, value.count > maximum else { return nil }
        return BackendError(
            .tooLarge, operation: .write, key: key,
            message: "a value has at most \(maximum) bytes here, this one has \(value.count)")
    }

    func version(of answer: TransportAnswer) -> EntryVersion? {
        guard let field = answer.response.headerFields.value(of: .eTag), case .tags(let tags) = TagCondition(field),
            tags.count == 1
        else { return nil }
        return tags[0].version
    }

    /// Sends a request, and once more with a new credential where the first was refused.
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
            // Whoever is refused has done nothing.
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

    /// The error that an answer tells of.
    func failure(
        _ answer: TransportAnswer, _ operation: BackendError.Operation, _ key: EntryKey?
    ) -> BackendError {
        let problem = Problem(json: answer.body) ?? Problem(answer.response.status, "")
        return problem.error(during: operation, key: key, retryAfter: RetryAfter.pause(of: answer.response))
    }

    /// The error of an answer that is not the protocol's.
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
