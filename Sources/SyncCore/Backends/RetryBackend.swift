/// Tries again what a store could not do for a passing reason.
///
/// - An error that is `transient` had no effect, so any operation is repeated after it.
/// - A read, a listing or a question for changes is repeated after `outcomeUnknown` too.
/// - A **write of unknown outcome is thrown on**: repeated here, its own first effect could come back as a conflict,
///   and only the caller can tell its own entry from another's.
/// - In a batch only the items that failed are sent again.
///
/// Pauses follow the ``RetryPolicy``, and are longer by what a store asked for (``BackendError/retryAfter``). When the
/// task is cancelled during a pause, the answer is ``BackendError/Kind/cancelled`` with the error that was being
/// overcome as its cause.
///
/// ```swift
/// let remote = server.retrying(RetryPolicy(maximumAttempts: 6))
/// ```
public struct RetryBackend: KeyValueBackend {
    /// The store that is asked.
    public let wrapped: any KeyValueBackend
    /// How often and after which pauses.
    public let policy: RetryPolicy
    private let host: HostServices

    /// Wraps `wrapped`. The host supplies the timer for the pauses and the randomness for their length.
    public init(_ wrapped: any KeyValueBackend, policy: RetryPolicy = RetryPolicy(), host: HostServices = .system) {
        self.wrapped = wrapped
        self.policy = policy
        self.host = host
    }

    /// Those of the wrapped store.
    public var capabilities: Capabilities { wrapped.capabilities }
    /// The label of the wrapped store.
    public var label: String { wrapped.label }
    /// The wrapped store's remote form, with the same retries.
    public var requiringExisting: any KeyValueBackend { RetryBackend(wrapped.requiringExisting, policy: policy, host: host) }

    /// Reads one key, and again after `transient` and `outcomeUnknown`.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try await retrying(.read, key: key) { () async throws(BackendError) in
            try await wrapped.read(key, unless: knownVersion)
        }
    }

    /// Writes one key, and again after `transient`.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await retrying(.write, key: key) { () async throws(BackendError) in
            try await wrapped.write(value, to: key, if: precondition)
        }
    }

    /// Deletes one key, and again after `transient`.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await retrying(.delete, key: key) { () async throws(BackendError) in
            try await wrapped.delete(key, if: precondition)
        }
    }

    /// Lists keys, and again after `transient` and `outcomeUnknown`.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try await retrying(.list) { () async throws(BackendError) in
            try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
        }
    }

    /// Asks what changed, and again after `transient` and `outcomeUnknown`.
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await retrying(.changes) { () async throws(BackendError) in
            try await wrapped.changes(since: cursor, limit: limit)
        }
    }

    /// Reads several keys; those that failed are asked for again.
    public func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
        try await retryingEach(.read, requests) { (pending) async throws(BackendError) in
            try await wrapped.read(pending)
        }
    }

    /// Writes or deletes several keys; those that failed without effect are sent again.
    public func write(_ requests: [WriteRequest]) async throws(BackendError)
        -> Answer<[Result<WriteOutcome, BackendError>]>
    {
        try await retryingEach(.write, requests) { (pending) async throws(BackendError) in
            try await wrapped.write(pending)
        }
    }

    /// The signals of the wrapped store.
    public func signals() -> AsyncStream<Void> { wrapped.signals() }
}

extension RetryBackend {
    private func retrying<Outcome>(
        _ operation: BackendError.Operation, key: EntryKey? = nil,
        _ attempt: () async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        var pauses = Pauses(policy: policy, host: host)
        while true {
            do {
                return try await attempt()
            } catch {
                guard error.allowsRepeating(operation) else { throw error }
                try await pauses.wait(operation, key: key, after: error)
            }
        }
    }

    private func retryingEach<Request: Sendable, Outcome: Sendable>(
        _ operation: BackendError.Operation, _ requests: [Request],
        _ attempt: ([Request]) async throws(BackendError) -> Answer<[Result<Outcome, BackendError>]>
    ) async throws(BackendError) -> Answer<[Result<Outcome, BackendError>]> {
        var pauses = Pauses(policy: policy, host: host)
        var results: [Result<Outcome, BackendError>?] = Array(repeating: nil, count: requests.count)
        var pending = Array(requests.indices)
        var serverTime: Int64?
        var hasAnswers = false
        while !pending.isEmpty {
            let failure: BackendError
            do {
                let answer = try await attempt(pending.map { requests[$0] })
                try expect(answer.outcome.count, of: pending.count, operation)
                serverTime = answer.serverTime ?? serverTime
                hasAnswers = true
                for (index, result) in zip(pending, answer.outcome) { results[index] = result }
                pending = pending.filter { results[$0]?.failure?.allowsRepeating(operation) == true }
                // Of several the one that asks for the longest pause.
                let failures = pending.compactMap { results[$0]?.failure }
                guard let last = failures.max(by: { ($0.retryAfter ?? .zero) < ($1.retryAfter ?? .zero) }) else {
                    break
                }
                failure = last
            } catch {
                failure = error
                // It concerns each item, and is what was heard of it last.
                for index in pending { results[index] = .failure(error) }
            }
            do throws(BackendError) {
                guard failure.allowsRepeating(operation) else { throw failure }
                try await pauses.wait(operation, key: nil, after: failure)
            } catch {
                // Thrown only while nothing has an answer: otherwise it would take away the answers that came.
                guard hasAnswers else { throw error }
                guard error.kind == .cancelled, failure.kind != .cancelled else { break }
                for index in pending {
                    let own = results[index]?.failure
                    results[index] = .failure(.cancelled(operation, key: own?.key, cause: own))
                }
                break
            }
        }
        return Answer(results.compactMap { $0 }, serverTime: serverTime)
    }

    private func expect(
        _ answered: Int, of asked: Int, _ operation: BackendError.Operation
    ) throws(BackendError) {
        guard answered != asked else { return }
        throw BackendError(
            .other, operation: operation, disposition: operation == .write ? .outcomeUnknown : .permanent,
            message: "\(label) answered \(answered) of \(asked) requests of a batch")
    }
}

/// The pauses of one call.
private struct Pauses {
    let policy: RetryPolicy
    let host: HostServices
    private var failedAttempts = 0
    private var waited = Duration.zero

    init(policy: RetryPolicy, host: HostServices) {
        self.policy = policy
        self.host = host
    }

    /// Waits until the next attempt; throws `failure` when there is none, and `cancelled` when the task was.
    mutating func wait(
        _ operation: BackendError.Operation, key: EntryKey?, after failure: BackendError
    ) async throws(BackendError) {
        failedAttempts += 1
        var generator = host.generator
        // What the store asks for comes on top, so that those whom it sent away do not all come back together.
        let asked = max(failure.retryAfter ?? .zero, .zero)
        guard
            let delay = policy.delay(afterFailedAttempts: failedAttempts, waited: waited + asked, using: &generator)
                .map({ $0 + asked })
        else { throw failure }
        waited += delay
        do {
            try await host.sleep(for: delay)
        } catch {
            throw .cancelled(operation, key: key, cause: failure)
        }
    }
}

extension BackendError {
    /// Whether repeating the operation can help and can do no harm.
    fileprivate func allowsRepeating(_ operation: Operation) -> Bool {
        guard kind != .cancelled else { return false }
        return switch disposition {
        case .transient: true
        case .permanent: false
        case .outcomeUnknown: operation != .write && operation != .delete
        }
    }
}

extension Result {
    fileprivate var failure: Failure? {
        if case .failure(let error) = self { error } else { nil }
    }
}

extension KeyValueBackend {
    /// This store, with passing failures tried again.
    public func retrying(_ policy: RetryPolicy = RetryPolicy(), host: HostServices = .system) -> RetryBackend {
        RetryBackend(self, policy: policy, host: host)
    }
}
