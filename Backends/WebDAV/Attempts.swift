import SyncCore

/// A limit on the repetitions of a read.
struct Attempts {
    /// With pauses of 1, 2, 4 … milliseconds, a quarter of a second in all.
    private static let most = 8

    private let host: HostServices
    private let limit: Duration
    private let elapsed: @Sendable () -> Duration
    private var count = 1

    /// - Parameter limit: the time limit for all attempts together.
    init(host: HostServices, limit: Duration) {
        (self.host, self.limit) = (host, limit)
        elapsed = host.stopwatch()
    }

    /// The time limit of the next request.
    var remaining: Duration { limit - elapsed() }

    /// Waits for the next attempt. Returns `false` if none is left.
    mutating func begin(_ operation: BackendError.Operation, _ key: EntryKey?) async throws(BackendError) -> Bool {
        guard count < Self.most else { return false }
        let pause = Duration.milliseconds(1 << (count - 1))
        guard remaining > pause * 2 else { return false }
        count += 1
        do { try await host.sleep(for: pause) } catch { throw .cancelled(operation, key: key, cause: error) }
        return true
    }
}
