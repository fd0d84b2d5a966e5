import Synchronization

/// The facts about a remote that an engine remembers between syncs. They concern the remote alone, so they stay true
/// whatever happens to the local store.
///
/// The memory only saves requests and bytes. State that must survive the process is in the checkpoints.
final class SyncMemory<Merge: DocumentMerge>: Sendable {
    struct Notes: Sendable {
        /// The version of the remote's document that was seen last, and a digest of its content.
        var lastSeen: Checkpoints.Checkpoint?
        /// The known entries of a remote with one entry per replica.
        var entries: [EntryKey: ReplicaEntries<Merge>.Known] = [:]
    }

    private let notes = Mutex<[EntryKey: Notes]>([:])

    subscript(key: EntryKey) -> Notes {
        get { notes.withLock { $0[key] } ?? Notes() }
        set { notes.withLock { $0[key] = newValue } }
    }
}
