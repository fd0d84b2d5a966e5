/// Waits for another process that holds a store, with back-off, until a total timeout. No thread is blocked.
package struct BusyWait {
    private let host: HostServices
    private let timeout: Duration
    private let ceiling: Duration
    private let elapsed: @Sendable () -> Duration
    private var longest = Duration.milliseconds(1)

    /// - Parameters:
    ///   - timeout: The total time to wait, starting now.
    ///   - ceiling: The longest pause.
    package init(host: HostServices, timeout: Duration, ceiling: Duration = .milliseconds(8)) {
        (self.host, self.timeout, self.ceiling) = (host, timeout, ceiling)
        elapsed = host.stopwatch()
    }

    /// Suspends before the next attempt. Returns `false` at once if the timeout has passed.
    ///
    /// - Throws: A cancellation error if the task was cancelled.
    package mutating func pause(in operation: BackendError.Operation) async throws(BackendError) -> Bool {
        guard elapsed() < timeout else { return false }
        var generator = host.generator
        let duration = longest * Double.random(in: 0.5...1, using: &generator)
        longest = min(longest * 2, ceiling)
        do {
            try await host.sleep(for: duration)
        } catch {
            throw .cancelled(operation)
        }
        return true
    }

    /// Suspends before the next attempt.
    ///
    /// - Throws: `failure` if the timeout has passed, or a cancellation error if the task was cancelled.
    package mutating func pause(
        after failure: BackendError, in operation: BackendError.Operation
    ) async throws(BackendError) {
        if try await pause(in: operation) { return }
        throw BackendError(
            failure.kind, operation: failure.operation ?? operation, key: failure.key,
            disposition: failure.disposition, message: "\(failure.message), after waiting for \(timeout)",
            cause: failure.cause)
    }

    /// Repeats `body` while it throws `busy`, until the timeout has passed since the first failure.
    package static func retrying<Result>(
        _ operation: BackendError.Operation, host: HostServices, timeout: Duration,
        _ body: () async throws(BackendError) -> Result
    ) async throws(BackendError) -> Result {
        var wait: BusyWait?
        while true {
            let failure: BackendError
            do throws(BackendError) { return try await body() } catch { failure = error }
            guard failure.kind == .busy else { throw failure }
            var next = wait ?? BusyWait(host: host, timeout: timeout)
            try await next.pause(after: failure, in: operation)
            wait = next
        }
    }
}
