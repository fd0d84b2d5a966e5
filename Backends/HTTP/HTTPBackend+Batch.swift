import HTTPTypes
public import SyncCore
import SyncProtocol
import Synchronization

extension HTTPBackend {
    /// Reads several keys: one `POST` for each 256. A server without batches is asked one by one.
    public func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
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

    /// Writes or deletes several keys: one `POST` for each 256, or about 4 MiB. When the exchange breaks, each of its
    /// writes is `outcomeUnknown`.
    public func write(_ requests: [WriteRequest]) async throws(BackendError)
        -> Answer<[Result<WriteOutcome, BackendError>]>
    {
        let batch = Batch<WriteRequest, WireWriteOutcome>(
            operation: .write, key: \.key,
            // One that is too long goes alone, to be refused.
            byteCount: { request in
                request.value.map { self.refusal(of: $0, request.key) == nil ? $0.count : .max } ?? 0
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
                let answer =
                    if let value = request.value {
                        try await self.write(value, to: request.key, if: request.precondition)
                    } else {
                        try await self.delete(request.key, if: request.precondition)
                    }
                return Answer(.complete(answer.outcome), serverTime: answer.serverTime)
            })
        return await readingConflicts(try await all(requests, of: batch), of: requests)
    }

    /// Reads the entries of the conflicts whose values the server left out, each key once.
    private func readingConflicts(
        _ answer: Answer<[Result<WireWriteOutcome, BackendError>]>, of requests: [WriteRequest]
    ) async -> Answer<[Result<WriteOutcome, BackendError>]> {
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

    /// The conflict of a write whose answer had no value, from the entry that was read afterwards.
    ///
    /// The entry may be a later one than that of the conflict. It still contradicts the precondition, because versions
    /// never repeat; only an entry that was deleted meanwhile may leave a precondition fulfilled. Then the same write
    /// can succeed, and nothing was written yet.
    ///
    /// - Throws: `BackendError.Kind.busy`, transient, when the key holds nothing any more.
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
            message: "the entry that stood against this write was deleted meanwhile; try again")
    }

    private func all<Request, Outcome>(
        _ requests: [Request], of batch: Batch<Request, Outcome>
    ) async throws(BackendError) -> Answer<[Result<Outcome, BackendError>]> {
        var all = Answer<[Result<Outcome, BackendError>]>([])
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

    /// Asks for `chunk` in one request, in several where the answer would be too long, in one for each where the server
    /// takes no batches.
    private func ask<Request, Outcome>(
        _ chunk: ArraySlice<Request>, _ batch: Batch<Request, Outcome>
    ) async throws(BackendError) -> Answer<[Result<Outcome, BackendError>]> {
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

    /// Asks for what did not fit into an answer, after what did.
    private func postponed<Request, Outcome>(
        _ chunk: ArraySlice<Request>, _ batch: Batch<Request, Outcome>,
        _ told: Answer<[Result<Outcome, BackendError>]>
    ) async -> Answer<[Result<Outcome, BackendError>]> {
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
    ) async -> Answer<[Result<Outcome, BackendError>]> {
        var all = Answer<[Result<Outcome, BackendError>]>([])
        for request in chunk {
            do throws(BackendError) {
                let answer = try await batch.alone(request)
                all.outcome.append(.success(answer.outcome))
                all.serverTime = answer.serverTime ?? all.serverTime
            } catch {
                all.outcome.append(.failure(error))
            }
        }
        return all
    }

    private func post(
        _ operations: [BatchOperation], for operation: BackendError.Operation
    ) async throws(BackendError) -> TransportAnswer {
        let fields: HTTPFields = [.contentType: BatchBody.mediaType, .accept: BatchBody.mediaType]
        // As much as the longest values make, but not of all 256.
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

/// One kind of operation, as batches of it are sent and understood.
private struct Batch<Request: Sendable, Outcome: Sendable> {
    /// About so many bytes of values go into one.
    static var maximumByteCount: Int { 4 << 20 }

    var operation: BackendError.Operation
    var key: (Request) -> EntryKey
    /// What it adds to the request.
    var byteCount: (Request) -> Int
    var wire: (Request) -> BatchOperation
    /// What a result says of it; `nil` where it is an answer to something else.
    var outcome: (Request, BatchResult) -> Outcome?
    var alone: (Request) async throws(BackendError) -> Answer<Outcome>

    /// The first of `requests`, as many as go into one batch, one at least.
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
    /// This error of a request of many, as that of `key`.
    fileprivate func about(_ key: EntryKey) -> BackendError {
        BackendError(
            kind, operation: operation, key: key, disposition: disposition, message: message, cause: cause,
            retryAfter: retryAfter)
    }

    /// What is said of `key`, which was not asked about because of this error.
    fileprivate func unsent(_ operation: Operation, _ key: EntryKey) -> BackendError {
        BackendError(
            kind, operation: operation, key: key,
            disposition: disposition == .outcomeUnknown ? .transient : disposition,
            message: "not sent, because the batch before it failed: \(message)", cause: self, retryAfter: retryAfter)
    }
}
