/// What syncing one document did, or in a dry run would do.
public struct DocumentReport<Content: Sendable>: Sendable {
    /// The content that both sides hold now.
    public var content: Content
    /// Whether the local side lacked something.
    public var localGains = false
    /// Whether the remote side lacked something.
    public var remoteGains = false
    /// How often a write met somebody else's. A write of our own whose answer was lost is none.
    public var conflicts = 0
    /// What the local side held before anything came from the remote. What others recorded there during the sync is
    /// in it.
    public internal(set) var localContent: Content
    /// What came from the remote: the union of all that it was read to hold, before this sync wrote to it. `nil` when
    /// it was not read, or answered "unchanged".
    public internal(set) var arrivedContent: Content?
    /// What the remote was last seen to hold in this sync, what this sync wrote there included. `nil` when it answered
    /// "unchanged" and nothing was written.
    public internal(set) var remoteContent: Content?
    /// Entries of a remote with an entry for each replica that could not be read, in ascending order of their keys.
    ///
    /// What they hold is neither merged nor noted as seen: each sync tries them again. The others were merged.
    public internal(set) var unreadable: [UnreadableEntry] = []
    /// The remote's own time at its last answer, in milliseconds since 1970 UTC, where it has one.
    public var serverTime: Int64?

    init(content: Content) {
        self.content = content
        localContent = content
    }
}

/// An entry of a remote that cannot be read: damaged, half copied, or of a later version. It was left as it is.
public struct UnreadableEntry: Sendable, CustomStringConvertible {
    /// Where it is.
    public let key: EntryKey
    /// Why it cannot be read.
    public let reason: SyncError.Reason

    /// One line: the key and the reason.
    public var description: String {
        switch reason {
        case .backend(let error): "\(error)"
        case .document(let error): "\"\(key)\": the document cannot be read: \(error)"
        case .contention(let attempts): "\"\(key)\": others wrote in between \(attempts) times"
        }
    }
}

/// A sync could not be finished. What was acknowledged before is still there, on either side.
public struct SyncError: Error, Sendable, CustomStringConvertible {
    /// Which side it happened on.
    public enum Side: String, Hashable, Sendable {
        /// The store on this device.
        case local
        /// The store it syncs with.
        case remote
    }

    /// Why it could not be finished.
    public enum Reason: Sendable {
        /// A backend failed.
        case backend(BackendError)
        /// A document cannot be opened; it was left as it is.
        case document(DocumentError)
        /// Others wrote between each of so many attempts.
        case contention(attempts: Int)
    }

    /// Why it could not be finished.
    public let reason: Reason
    /// Which side it happened on.
    public let side: Side
    /// Whether everything that the remote holds has been received all the same: it answered, its answer was merged
    /// and saved, and only sending failed.
    public let hasReceived: Bool

    init(_ reason: Reason, side: Side, hasReceived: Bool = false) {
        self.reason = reason
        self.side = side
        self.hasReceived = hasReceived
    }

    /// Whether trying again later can help.
    public var isTransient: Bool {
        switch reason {
        case .backend(let error): error.disposition != .permanent
        case .document: false
        case .contention: true
        }
    }

    /// One line: the side, and what went wrong.
    public var description: String {
        switch reason {
        case .backend(let error): "\(side.rawValue) store: \(error)"
        case .document(let error): "\(side.rawValue) store: the document cannot be read: \(error)"
        case .contention(let attempts): "\(side.rawValue) store: others wrote in between \(attempts) times, try again"
        }
    }
}
