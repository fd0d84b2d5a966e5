/// What syncing one document did, or in a dry run would do.
public struct DocumentReport<Content: Sendable>: Sendable {
    /// The content that both sides hold now.
    public var content: Content
    /// Whether the local side lacked something.
    public var localGains = false
    /// Whether the remote side lacked something.
    public var remoteGains = false
    /// How often a write met somebody else's.
    public var conflicts = 0
    /// The remote's own time at its last answer, in milliseconds since 1970 UTC, where it has one.
    public var serverTime: Int64?

    init(content: Content) {
        self.content = content
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

    init(_ reason: Reason, side: Side) {
        self.reason = reason
        self.side = side
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
