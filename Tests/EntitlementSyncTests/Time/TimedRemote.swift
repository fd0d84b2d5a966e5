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

    private func stamped<Outcome: Sendable>(_ answer: Answer<Outcome>) -> Answer<Outcome> {
        let time = time
        transit.withLock { $0 }?()
        return Answer(answer.outcome, serverTime: time)
    }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        stamped(try await base.read(key, unless: knownVersion))
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        stamped(try await base.write(value, to: key, if: precondition))
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        stamped(try await base.delete(key, if: precondition))
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        stamped(try await base.list(prefix: prefix, after: cursor, limit: limit))
    }
}
