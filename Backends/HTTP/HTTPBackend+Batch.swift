import HTTPTypes
public import SyncCore
import SyncProtocol
import Synchronization

extension HTTPBackend {
    /// Reads several keys with one `POST` for each 256. Without batch support in the server, reads them one by one.
    public func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome> {
        let batch = Batch<ReadRequest, ReadOutcome>(
            operation: .read, key: \.key, byteCount: { _ in 0 }, wire: { .read($0) },
            outcome: { request, result in
                guard case .read(let outcome) = result, outcome != .unchanged || request.knownVersion != nil else {
                    return nil
                }
                return outcome
            },
            alone: { (request) async throws(BackendError) in
                try await self.read(request.key, unless: request.knownVersion)
            })
        return try await all(requests, of: batch)
    }

    /// Writes or deletes several keys with one `POST` for each 256 or about 4 MiB. If the exchange fails, each of its
    /// writes is `outcomeUnknown`.
    public func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome> {
        let batch = Batch<WriteRequest, WireWriteOutcome>(
            operation: .write, key: \.key,
            // A value that is too long is sent alone and refused.
            byteCount: { request in
                request.value.map { self.capabilities.refusal(of: $0, at: request.key) == nil ? $0.count : .max } ?? 0
            },
            wire: { .write($0) },
            outcome: { request, result in
                switch (result, request.value) {
                case (.write(.written(let version)), .some): .complete(.written(version))
                case (.write(.deleted), nil): .complete(.deleted)
                case (.write(.conflict(let entry)), _): .complete(.conflict(entry))
                case (.conflictWithoutValue(let version), _): .conflict(version)
                default: nil
                }
            },
            alone: { (request) async throws(BackendError) in
                let answer = try await self.perform(request)
                return Answer(.complete(answer.outcome), serverTime: answer.serverTime)
            })
        return await readingConflicts(try await all(requests, of: batch), of: requests)
    }

    /// Reads the entries of conflicts whose values the server left out, once for each key.
    private func readingConflicts(
        _ answer: BatchAnswer<WireWriteOutcome>, of requests: [WriteRequest]
    ) async -> BatchAnswer<WriteOutcome> {
        var seen: Set<EntryKey> = []
        let unread = zip(requests, answer.outcome).compactMap { request, result -> ReadRequest? in
            guard case .success(.conflict) = result, seen.insert(request.key).inserted else { return nil }
            return ReadRequest(request.key)
        }
        var found: [EntryKey: Result<ReadOutcome, BackendError>] = [:]
        if !unread.isEmpty {
            do throws(BackendError) {
                for (request, result) in zip(unread, try await read(unread).outcome) { found[request.key] = result }
            } catch {
                for request in unread { found[request.key] = .failure(error.about(request.key)) }
            }
        }
        let outcomes = zip(requests, answer.outcome).map { request, result -> Result<WriteOutcome, BackendError> in
            do throws(BackendError) {
                switch try result.get() {
                case .complete(let outcome): return .success(outcome)
                case .conflict:
                    guard let read = try found[request.key]?.get() else { throw Self.unsettled(request.key) }
                    return .success(try conflict(with: read, request.key, request.precondition))
                }
            } catch {
                return .failure(error)
            }
        }
        return Answer(outcomes, serverTime: answer.serverTime, relatedVersion: answer.relatedVersion)
    }

    /// Creates the conflict of a write from the entry that was read afterwards, because the answer had no value.
    ///
    /// The entry may be newer than that of the conflict. It still contradicts the precondition, because versions never
    /// repeat. Only if the entry was deleted in between may the precondition hold; then the same write can succeed, and
    /// nothing was written yet.
    ///
    /// - Throws: a transient `BackendError.Kind.busy` if the key no longer has a value.
    func conflict(
        with read: ReadOutcome, _ key: EntryKey, _ precondition: Precondition
    ) throws(BackendError) -> WriteOutcome {
        switch read {
        case .found(let entry): return .conflict(entry)
        case .absent where precondition != .absent && precondition != .any: return .conflict(nil)
        case .absent, .unchanged: throw Self.unsettled(key)
        }
    }

    private static func unsettled(_ key: EntryKey) -> BackendError {
        BackendError(
            .busy, operation: .write, key: key, disposition: .transient,
            message: "the conflicting entry was deleted in the meantime; retry the write")
    }

    private func all<Request, Outcome>(
        _ requests: [Request], of batch: Batch<Request, Outcome>
    ) async throws(BackendError) -> BatchAnswer<Outcome> {
        var all = BatchAnswer<Outcome>([])
        var rest = requests[...]
        while !rest.isEmpty {
            let chunk = batch.chunk(of: rest)
            do throws(BackendError) {
                let answer = try await ask(chunk, batch)
                all.outcome += answer.outcome
                all.serverTime = answer.serverTime ?? all.serverTime
                rest = rest.dropFirst(chunk.count)
            } catch {
                guard !all.outcome.isEmpty || error.disposition == .outcomeUnknown else { throw error }
                for request in chunk { all.outcome.append(.failure(error.about(batch.key(request)))) }
                for request in rest.dropFirst(chunk.count) {
                    all.outcome.append(.failure(error.unsent(batch.operation, batch.key(request))))
                }
                return all
            }
        }
        return all
    }

    /// Sends `chunk` in one request, in several if the answer would be too long, or one by one if the server does not
    /// support batches.
    private func ask<Request, Outcome>(
        _ chunk: ArraySlice<Request>, _ batch: Batch<Request, Outcome>
    ) async throws(BackendError) -> BatchAnswer<Outcome> {
        if chunk.count == 1 || isWithoutBatches.withLock({ $0 }) { return await askAlone(chunk, batch) }
        let answer: TransportAnswer
        do throws(BackendError) {
            answer = try await post(chunk.map(batch.wire), for: batch.operation)
        } catch {
            guard error.kind == .tooLarge, batch.operation == .read else { throw error }
            let half = chunk.count / 2
            let first = try await ask(chunk.prefix(half), batch)
            let second = try await ask(chunk.dropFirst(half), batch)
            return Answer(first.outcome + second.outcome, serverTime: second.serverTime ?? first.serverTime)
        }
        switch answer.response.status.code {
        case 200: break
        case 404, 405, 501:
            isWithoutBatches.withLock { $0 = true }
            return await askAlone(chunk, batch)
        default: throw failure(answer, batch.operation, nil)
        }
        guard let results = try? BatchBody.results(answer.body), results.count == chunk.count else {
            throw foreign(answer, batch.operation, nil)
        }
        let answered = results.prefix { result in
            if case .problem(let problem) = result { !problem.isPostponed } else { true }
        }
        guard !answered.isEmpty else { throw foreign(answer, batch.operation, nil) }
        let outcomes = zip(chunk, answered).map { request, result -> Result<Outcome, BackendError> in
            if case .problem(let problem) = result {
                return .failure(problem.error(during: batch.operation, key: batch.key(request)))
            }
            if let outcome = batch.outcome(request, result) { return .success(outcome) }
            return .failure(foreign(answer, batch.operation, batch.key(request)))
        }
        let told = Answer(outcomes, serverTime: WireFields.serverTime(of: answer.response))
        return answered.count == chunk.count ? told : await postponed(chunk.dropFirst(answered.count), batch, told)
    }

    /// Requests the operations that did not fit into an answer.
    private func postponed<Request, Outcome>(
        _ chunk: ArraySlice<Request>, _ batch: Batch<Request, Outcome>,
        _ told: BatchAnswer<Outcome>
    ) async -> BatchAnswer<Outcome> {
        var all = told
        do throws(BackendError) {
            let rest = try await ask(chunk, batch)
            all.outcome += rest.outcome
            all.serverTime = rest.serverTime ?? all.serverTime
        } catch {
            all.outcome += chunk.map { .failure(error.about(batch.key($0))) }
        }
        return all
    }

    private func askAlone<Request, Outcome>(
        _ chunk: ArraySlice<Request>, _ batch: Batch<Request, Outcome>
    ) async -> BatchAnswer<Outcome> {
        await chunk.answers { (request) async throws(BackendError) in try await batch.alone(request) }
    }

    private func post(
        _ operations: [BatchOperation], for operation: BackendError.Operation
    ) async throws(BackendError) -> TransportAnswer {
        let fields: HTTPFields = [.contentType: BatchBody.mediaType, .accept: BatchBody.mediaType]
        // Enough for several values of the maximum length, but not for 256 of them.
        let longest = max(capabilities.maximumValueByteCount ?? 0, 1 << 20)
        return try await exchange(
            .post, BatchBody.path, fields, body: BatchBody.bytes(of: operations), for: operation,
            maximumByteCount: longest * min(operations.count, operation == .read ? 4 : 16))
    }
}

/// The outcome of a write in a batch.
private enum WireWriteOutcome: Sendable {
    case complete(WriteOutcome)
    /// A conflict with an entry of this version, whose value the server left out.
    case conflict(EntryVersion)
}

/// The encoding and decoding of one kind of operation in batches.
private struct Batch<Request: Sendable, Outcome: Sendable> {
    /// The approximate maximum number of value bytes in a batch.
    static var maximumByteCount: Int { 4 << 20 }

    var operation: BackendError.Operation
    var key: (Request) -> EntryKey
    /// The number of value bytes of an operation.
    var byteCount: (Request) -> Int
    var wire: (Request) -> BatchOperation
    /// The outcome for a result; `nil` if the result belongs to another kind of operation.
    var outcome: (Request, BatchResult) -> Outcome?
    var alone: (Request) async throws(BackendError) -> Answer<Outcome>

    /// The first of `requests` that fit into one batch, at least one.
    func chunk(of requests: ArraySlice<Request>) -> ArraySlice<Request> {
        var room = Self.maximumByteCount
        let end = requests.prefix(BatchBody.maximumOperationCount).firstIndex { request in
            let count = byteCount(request)
            guard count <= room else { return true }
            room -= count
            return false
        }
        return requests[..<max(end ?? requests.endIndex, requests.startIndex + 1)]
            .prefix(BatchBody.maximumOperationCount)
    }
}

extension BackendError {
    /// This error of a whole batch as the error of `key`.
    fileprivate func about(_ key: EntryKey) -> BackendError {
        BackendError(
            kind, operation: operation, key: key, disposition: disposition, message: message, cause: cause,
            retryAfter: retryAfter)
    }

    /// The error of `key`, whose operation was not sent because of this error.
    fileprivate func unsent(_ operation: Operation, _ key: EntryKey) -> BackendError {
        BackendError(
            kind, operation: operation, key: key,
            disposition: disposition == .outcomeUnknown ? .transient : disposition,
            message: "not sent, because the batch before it failed: \(message)", cause: self, retryAfter: retryAfter)
    }
}
