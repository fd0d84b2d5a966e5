/// The result of syncing one document, or the expected result of a dry run.
public struct DocumentReport<Content: Sendable>: Sendable {
    /// The content that both sides hold now.
    public var content: Content
    /// True if the local side lacked something.
    public var localGains = false
    /// True if the remote side lacked something.
    public var remoteGains = false
    /// The number of conflicts with other writers. A conflict with a write of this sync whose acknowledgement was lost
    /// does not count.
    public var conflicts = 0
    /// The content of the local side before anything was merged from the remote, including what other writers recorded
    /// there during the sync.
    public internal(set) var localContent: Content
    /// The content that came from the remote: the union of everything read there before this sync wrote to it. `nil` if
    /// the remote was not read or answered "unchanged".
    public internal(set) var arrivedContent: Content?
    /// The last known content of the remote, including what this sync wrote there. `nil` if the remote answered
    /// "unchanged" and nothing was written.
    public internal(set) var remoteContent: Content?
    /// The document that the local side holds after a sync.
    package internal(set) var held: HeldDocument<Content>
    /// Entries that could not be read on a remote with one entry per replica, in ascending order of their keys.
    ///
    /// Their content is neither merged nor recorded as seen, so each sync tries them again. All other entries were
    /// merged.
    public internal(set) var unreadable: [UnreadableEntry] = []
    /// The remote's own time at its last answer, in milliseconds since 1970 UTC; `nil` if it has none.
    public var serverTime: Int64?

    init(content: Content) {
        self.content = content
        localContent = content
        held = HeldDocument(version: nil, document: OpenDocument(content: content))
    }
}

/// An entry of a remote that cannot be read: damaged, partly copied, or of a later version. It was left unchanged.
public struct UnreadableEntry: Sendable, CustomStringConvertible {
    /// The key of the entry.
    public let key: EntryKey
    /// The reason why it cannot be read.
    public let reason: SyncError.Reason

    /// One line: the key and the reason.
    public var description: String {
        switch reason {
        case .backend(let error): "\(error)"
        case .document(let error): "\"\(key)\": the document cannot be read: \(error)"
        case .contention(let attempts): "\"\(key)\": other writers interfered with all \(attempts) attempts"
        }
    }
}

/// An error that ended a sync. Everything that was acknowledged before is kept on both sides.
public struct SyncError: Error, Sendable, CustomStringConvertible {
    /// The side on which a sync failed.
    public enum Side: String, Hashable, Sendable {
        /// The store on this device.
        case local
        /// The store that it syncs with.
        case remote
    }

    /// The reason for a failed sync.
    public enum Reason: Sendable {
        /// A backend failed.
        case backend(BackendError)
        /// A document cannot be opened; it was left unchanged.
        case document(DocumentError)
        /// Other writers interfered with every one of this number of attempts.
        case contention(attempts: Int)
    }

    /// The reason for the failure.
    public let reason: Reason
    /// The side that failed.
    public let side: Side
    /// True if everything that the remote holds was received, merged and saved, and only sending failed.
    public let hasReceived: Bool

    init(_ reason: Reason, side: Side, hasReceived: Bool = false) {
        self.reason = reason
        self.side = side
        self.hasReceived = hasReceived
    }

    /// True if a later attempt can succeed.
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
        case .contention(let attempts):
            "\(side.rawValue) store: other writers interfered with all \(attempts) attempts; try again"
        }
    }
}
