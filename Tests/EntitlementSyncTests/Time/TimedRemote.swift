import SyncCore
import Synchronization

/// A remote that reports a server time, which a test sets.
final class TimedRemote: ForwardingBackend {
    let base: any KeyValueBackend = MemoryBackend()
    private let clock: Mutex<Int64?>
    /// Runs after the server has read its clock and before its answer arrives.
    private let transit: Mutex<(@Sendable () -> Void)?> = Mutex(nil)

    init(at time: Int64?) {
        clock = Mutex(time)
    }

    var time: Int64? {
        get { clock.withLock { $0 } }
        set { clock.withLock { $0 = newValue } }
    }

    func duringTransit(_ work: (@Sendable () -> Void)?) {
        transit.withLock { $0 = work }
    }

    var label: String { "server" }

    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        let answer = try await call(base)
        let time = time
        transit.withLock { $0 }?()
        return Answer(answer.outcome, serverTime: time)
    }
}
