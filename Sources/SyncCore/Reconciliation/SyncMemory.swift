import Synchronization

/// What an engine remembers of its remote from one sync to the next: facts about the remote alone, which stay true
/// whatever becomes of the local store.
///
/// It only spares requests and bytes. What must survive the process is in the checkpoints.
final class SyncMemory<Merge: DocumentMerge>: Sendable {
    struct Notes: Sendable {
        /// The version of the remote's document that was seen last, and the digest of its content.
        var lastSeen: Checkpoints.Checkpoint?
        /// The entries of a remote with an entry for each replica.
        var entries: [EntryKey: ReplicaEntries<Merge>.Known] = [:]
    }

    private let notes = Mutex<[EntryKey: Notes]>([:])

    subscript(key: EntryKey) -> Notes {
        get { notes.withLock { $0[key] } ?? Notes() }
        set { notes.withLock { $0[key] = newValue } }
    }
}
