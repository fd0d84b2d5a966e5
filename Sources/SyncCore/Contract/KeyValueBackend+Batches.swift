extension KeyValueBackend {
    /// Performs one write or deletion without a batch.
    package func perform(_ request: WriteRequest) async throws(BackendError) -> Answer<WriteOutcome> {
        guard let value = request.value else { return try await delete(request.key, if: request.precondition) }
        return try await write(value, to: request.key, if: request.precondition)
    }

    /// Performs one write or deletion as a batch, for stores that implement only batches.
    package func performInBatch(_ request: WriteRequest) async throws(BackendError) -> Answer<WriteOutcome> {
        let operation = request.operation
        try BackendError.throwIfCancelled(operation, key: request.key)
        do throws(BackendError) {
            guard let result = try await write([request]).outcome.first else {
                throw BackendError(.other, message: "\(label): the write has no outcome")
            }
            return Answer(try result.get())
        } catch {
            throw error.during(operation, key: request.key)
        }
    }
}

extension KeyValueBackend {
    /// Lists the keys that begin with `prefix`, and calls `body` with each page.
    package func forEachPage(
        prefix: String = "", limit: Int = 1_000, _ body: (KeyPage) async throws(BackendError) -> Void
    ) async throws(BackendError) {
        var cursor: EntryKey?
        repeat {
            let page = try await list(prefix: prefix, after: cursor, limit: limit).outcome
            try await body(page)
            cursor = page.next
        } while cursor != nil
    }
}

extension WriteRequest {
    package var operation: BackendError.Operation { value == nil ? .delete : .write }
}

extension Capabilities {
    /// Performs the writes of a batch whose values are not too large, in one call, and refuses the others.
    package func performAdmitted(
        _ requests: [WriteRequest],
        _ perform: ([WriteRequest]) async throws(BackendError) -> [Result<WriteOutcome, BackendError>]
    ) async throws(BackendError) -> [Result<WriteOutcome, BackendError>] {
        var answers: [Result<WriteOutcome, BackendError>?] = requests.map { request in
            request.value.flatMap { refusal(of: $0, at: request.key) }.map { .failure($0) }
        }
        let admitted = requests.indices.filter { answers[$0] == nil }
        let performed = admitted.isEmpty ? [] : try await perform(admitted.map { requests[$0] })
        for (index, answer) in zip(admitted, performed) { answers[index] = answer }
        return answers.compactMap { $0 }
    }
}

extension Sequence {
    /// Calls `request` with the elements, one after another. The answer has the latest server time.
    package func answers<Outcome: Sendable>(
        _ request: (Element) async throws(BackendError) -> Answer<Outcome>
    ) async -> BatchAnswer<Outcome> {
        var all = BatchAnswer<Outcome>([])
        for element in self {
            do throws(BackendError) {
                let answer = try await request(element)
                all.serverTime = answer.serverTime ?? all.serverTime
                all.outcome.append(.success(answer.outcome))
            } catch {
                all.outcome.append(.failure(error))
            }
        }
        return all
    }
}
