import SyncCore

/// Waits for another process that holds the database, with back-off, until a total timeout. No thread is blocked.
struct BusyWait {
    private let host: HostServices
    private let timeout: Duration
    private let hasPassed: @Sendable () -> Bool
    private var longest = Duration.milliseconds(1)

    /// - Parameter timeout: The total time to wait, starting now.
    init(host: HostServices, timeout: Duration) {
        self.host = host
        self.timeout = timeout
        hasPassed = Self.deadline(on: host.timer, after: timeout)
    }

    /// Suspends before the next attempt.
    ///
    /// - Throws: `failure` if the timeout has passed, or a cancellation error if the task was cancelled.
    mutating func pause(
        after failure: BackendError, in operation: BackendError.Operation
    ) async throws(BackendError) {
        guard !hasPassed() else {
            throw BackendError(
                failure.kind, operation: failure.operation ?? operation, key: failure.key,
                disposition: failure.disposition, message: "\(failure.message), after waiting for \(timeout)",
                cause: failure.cause)
        }
        var generator = host.generator
        let duration = longest * Double.random(in: 0.5...1, using: &generator)
        longest = min(longest * 2, .milliseconds(8))
        do {
            try await host.sleep(for: duration)
        } catch {
            throw .cancelled(operation)
        }
    }

    private static func deadline(
        on clock: some Clock<Duration>, after duration: Duration
    ) -> @Sendable () -> Bool {
        let end = clock.now.advanced(by: duration)
        return { clock.now >= end }
    }
}
