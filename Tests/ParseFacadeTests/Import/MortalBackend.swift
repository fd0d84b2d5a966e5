import SyncCore
import SyncCoreTesting
import Synchronization

/// A store whose writes fail after some of them, as those of a process that was killed.
final class MortalBackend: ForwardingBackend {
    let base: any KeyValueBackend
    private let left: Mutex<Int>

    init(_ base: any KeyValueBackend, writes: Int) {
        self.base = base
        left = Mutex(writes)
    }

    /// Lets as many writes succeed from now on.
    func allow(_ writes: Int) { left.withLock { $0 = writes } }

    private func count() throws(BackendError) {
        let isOver = left.withLock { left in
            left -= 1
            return left < 0
        }
        if isOver { throw BackendError(.unavailable, message: "the process was killed") }
    }

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        try count()
        return try await base.write(value, to: key, if: precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try count()
        return try await base.delete(key, if: precondition)
    }
}
