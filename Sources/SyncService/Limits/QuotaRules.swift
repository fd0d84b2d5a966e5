import SyncCore

/// The cause of an over-quota error.
struct QuotaReached: Error {}

/// The store as one account sees it, with a quota for the keys beside its ledger. Changes that reduce the usage are
/// always allowed.
struct QuotaRules: ForwardingBackend {
    let base: any KeyValueBackend
    let usage: AccountUsage
    let scope: KeyScope
    let now: Int64

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        try await base.read(requests)
    }

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        guard scope.isCounted(key) else { return try await base.write(value, to: key, if: precondition) }
        try await reserve(value.count, under: key)
        return try await settling(key, value.count) { () async throws(BackendError) in
            try await base.write(value, to: key, if: precondition)
        }
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        guard scope.isCounted(key) else { return try await base.delete(key, if: precondition) }
        usage.beginDeleting(key)
        return try await settling(key, 0) { () async throws(BackendError) in
            try await base.delete(key, if: precondition)
        }
    }

    /// Runs a change that has begun, and ends it with its outcome.
    private func settling(
        _ key: EntryKey, _ count: Int, _ change: () async throws(BackendError) -> Answer<WriteOutcome>
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        do throws(BackendError) {
            let answer = try await change()
            settle(key, count, .success(answer.outcome))
            return answer
        } catch {
            settle(key, count, .failure(error))
            throw error
        }
    }

    func write(
        _ requests: [WriteRequest]
    ) async throws(BackendError) -> Answer<[Result<WriteOutcome, BackendError>]> {
        if requests.contains(where: { $0.value != nil && scope.isCounted($0.key) }) {
            try await usage.count(scope.prefix, in: base, now: now, isCounted: scope.isCounted)
        }
        var verdicts: [BackendError?] = []
        for request in requests { verdicts.append(await verdict(request)) }
        let allowed = zip(requests, verdicts).filter { $0.1 == nil }.map(\.0)
        guard !allowed.isEmpty else { return Answer(verdicts.compactMap { $0 }.map { .failure($0) }) }
        let answer: Answer<[Result<WriteOutcome, BackendError>]>
        do throws(BackendError) { answer = try await base.write(allowed) } catch {
            usage.forget(scope.prefix, after: allowed.map(\.key))
            throw error
        }
        for (request, result) in zip(allowed, answer.outcome) {
            settle(request.key, request.value?.count ?? 0, result)
        }
        var results = answer.outcome[...]
        return Answer(
            verdicts.compactMap { $0.map { .failure($0) } ?? results.popFirst() }, serverTime: answer.serverTime,
            relatedVersion: answer.relatedVersion)
    }

    /// Begins a change. Returns the error of a write that is refused.
    private func verdict(_ request: WriteRequest) async -> BackendError? {
        guard scope.isCounted(request.key) else { return nil }
        guard let value = request.value else {
            usage.beginDeleting(request.key)
            return nil
        }
        do throws(BackendError) {
            try await reserve(value.count, under: request.key)
            return nil
        } catch {
            return error
        }
    }

    /// Counts the account if necessary, and reserves `count` bytes under `key`.
    ///
    /// Counts of other accounts may evict this one at any moment. The account is then counted again, a few times at
    /// most.
    private func reserve(_ count: Int, under key: EntryKey) async throws(BackendError) {
        for _ in 0..<4 {
            try await usage.count(scope.prefix, in: base, now: now, isCounted: scope.isCounted)
            if try usage.reserve(count, under: key, of: scope.prefix, now: now) { return }
        }
        throw BackendError(
            .busy, operation: .write, key: key, disposition: .transient,
            message: "too many accounts are being counted; try again", cause: LimitReached())
    }

    /// Ends a change with its outcome.
    private func settle(_ key: EntryKey, _ count: Int, _ result: Result<WriteOutcome, BackendError>) {
        guard scope.isCounted(key) else { return }
        switch result {
        case .success(.written(let version)): usage.settle(count, version: version, under: key, of: scope.prefix)
        case .success(.deleted): usage.settle(nil, under: key, of: scope.prefix, deletedAt: now)
        case .success(.conflict(let entry)):
            usage.settle(entry?.value.count, version: entry?.version, under: key, of: scope.prefix)
        case .failure: usage.forget(scope.prefix, after: [key])
        }
    }
}
