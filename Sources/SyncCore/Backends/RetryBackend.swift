/// A wrapper that repeats operations after transient failures.
///
/// - After a `transient` error any operation is repeated, because it had no effect.
/// - After `outcomeUnknown`, reads, listings and requests for changes are repeated too.
/// - A write of unknown outcome is **not** repeated; its error is thrown. Its first attempt may have taken effect, so
///   the repeated write could conflict with it, and only the caller can recognize its own entry.
/// - In a batch only the failed items are sent again.
/// - Evidence is passed on without retries.
///
/// Pauses follow the ``RetryPolicy`` and are extended by the time that the store asked for
/// (``BackendError/retryAfter``). If the task is cancelled during a pause, the wrapper throws
/// ``BackendError/Kind/cancelled`` with the last failure as its cause.
///
/// ```swift
/// let remote = server.retrying(RetryPolicy(maximumAttempts: 6))
/// ```
public struct RetryBackend: ForwardingBackend {
    /// The backend whose operations are repeated.
    public let base: any KeyValueBackend
    /// The number of attempts and the pauses between them.
    public let policy: RetryPolicy
    private let host: HostServices

    /// Wraps `base`. The host supplies the timer for the pauses and the randomness for their length.
    public init(_ base: any KeyValueBackend, policy: RetryPolicy = RetryPolicy(), host: HostServices = .system) {
        self.base = base
        self.policy = policy
        self.host = host
    }

    /// The ``KeyValueBackend/requiringExisting`` of the wrapped backend, with the same retries.
    public var requiringExisting: any KeyValueBackend {
        RetryBackend(base.requiringExisting, policy: policy, host: host)
    }

    /// Reads several keys. Retries those that failed.
    public func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome> {
        try await retryingEach(.read, requests) { (pending) async throws(BackendError) in
            try await base.read(pending)
        }
    }

    /// Writes or deletes several keys. Retries those that failed without effect.
    public func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome> {
        try await retryingEach(.write, requests) { (pending) async throws(BackendError) in
            try await base.write(pending)
        }
    }
}

extension RetryBackend {
    /// Performs a call. Retries reads, listings and requests for changes after `transient` and `outcomeUnknown`, and
    /// writes and deletes after `transient`.
    public func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        var pauses = Pauses(policy: policy, host: host)
        while true {
            do {
                return try await call(base)
            } catch {
                guard error.allowsRepeating(operation) else { throw error }
                try await pauses.wait(operation, key: key, after: error)
            }
        }
    }

    private func retryingEach<Request: Sendable, Outcome: Sendable>(
        _ operation: BackendError.Operation, _ requests: [Request],
        _ attempt: ([Request]) async throws(BackendError) -> BatchAnswer<Outcome>
    ) async throws(BackendError) -> BatchAnswer<Outcome> {
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
                // Of several failures, the one that asks for the longest pause decides.
                let failures = pending.compactMap { results[$0]?.failure }
                guard let last = failures.max(by: { ($0.retryAfter ?? .zero) < ($1.retryAfter ?? .zero) }) else {
                    break
                }
                failure = last
            } catch {
                failure = error
                // The error concerns every pending item and is the latest result for it.
                for index in pending { results[index] = .failure(error) }
            }
            do throws(BackendError) {
                guard failure.allowsRepeating(operation) else { throw failure }
                try await pauses.wait(operation, key: nil, after: failure)
            } catch {
                // Throw only while no item has a result; otherwise the results so far would be lost.
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

    /// Waits before the next attempt. Throws `failure` if no attempt is left, and `cancelled` if the task was
    /// cancelled.
    mutating func wait(
        _ operation: BackendError.Operation, key: EntryKey?, after failure: BackendError
    ) async throws(BackendError) {
        failedAttempts += 1
        var generator = host.generator
        // The random pause is added to the requested one, so that clients that were rejected together do not return
        // together.
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
    /// Returns `true` if repeating the operation can help and cannot do harm.
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
    /// Returns this backend with retries after passing failures.
    public func retrying(_ policy: RetryPolicy = RetryPolicy(), host: HostServices = .system) -> RetryBackend {
        RetryBackend(self, policy: policy, host: host)
    }
}
