/// The condition for a write or delete, checked by the store in the same atomic step.
public enum Precondition: Hashable, Sendable {
    /// No condition; the last writer wins. The engine uses it only for stores that can check no precondition, and there
    /// only for keys that no other replica writes.
    case any
    /// The key is absent.
    case absent
    /// The key holds an entry of this version.
    case matches(EntryVersion)
}

/// The outcome of a read.
public enum ReadOutcome: Hashable, Sendable {
    /// The key holds this entry.
    case found(Entry)
    /// The key is absent, and the store is sure of it.
    case absent
    /// The key still holds the version that the caller named.
    case unchanged
}

/// The outcome of a write or delete. A conflict is an outcome, not an error.
public enum WriteOutcome: Hashable, Sendable {
    /// The value was written under this version and is as durable as ``Capabilities/durability`` says.
    case written(EntryVersion)
    /// The key is absent now, and the precondition held before.
    case deleted
    /// The precondition did not hold, and nothing changed. Carries the current entry; `nil` if the key is absent.
    case conflict(Entry?)
}

/// An outcome, and what the store sent along with it.
public struct Answer<Outcome: Sendable>: Sendable {
    /// The outcome of the operation.
    public var outcome: Outcome
    /// The store's own time when it answered, in milliseconds since 1970 UTC; `nil` if the store has no clock of its
    /// own (such as a file or a cache) or cannot vouch for it.
    public var serverTime: Int64?
    /// The current version of a related entry, if the store sends one along. A server reports the version of its
    /// decisions about a ledger in this way. `nil` says nothing about the related entry.
    public var relatedVersion: EntryVersion?

    /// Creates an answer.
    public init(_ outcome: Outcome, serverTime: Int64? = nil, relatedVersion: EntryVersion? = nil) {
        self.outcome = outcome
        self.serverTime = serverTime
        self.relatedVersion = relatedVersion
    }
}

extension Answer: Equatable where Outcome: Equatable {}

/// The answer to a batch: for each request, in order, its outcome or its error.
public typealias BatchAnswer<Outcome: Sendable> = Answer<[Result<Outcome, BackendError>]>

/// One read of a batch.
public struct ReadRequest: Hashable, Sendable {
    /// The key to read.
    public var key: EntryKey
    /// A version that the caller already holds. If it is still current, the answer is ``ReadOutcome/unchanged``.
    public var knownVersion: EntryVersion?

    /// Creates a read of `key`, conditional if `knownVersion` is given.
    public init(_ key: EntryKey, unless knownVersion: EntryVersion? = nil) {
        self.key = key
        self.knownVersion = knownVersion
    }
}

/// One write or delete of a batch.
public struct WriteRequest: Hashable, Sendable {
    /// The key to write or delete.
    public var key: EntryKey
    /// The new value, or `nil` to delete.
    public var value: [UInt8]?
    /// The condition under which the change happens.
    public var precondition: Precondition

    /// Creates a write of `value` to `key`, or a delete if `value` is `nil`.
    public init(_ key: EntryKey, value: [UInt8]?, if precondition: Precondition) {
        self.key = key
        self.value = value
        self.precondition = precondition
    }
}

/// A page of keys, in ascending order of their bytes.
public struct KeyPage: Hashable, Sendable {
    /// One listed key.
    public struct Item: Hashable, Sendable {
        /// The key.
        public var key: EntryKey
        /// The version that the key held when the page was made.
        public var version: EntryVersion
        /// The size in bytes of the value at this version; `nil` if the store does not know it without reading the
        /// value.
        public var byteCount: Int?

        /// Creates an item of a page.
        public init(key: EntryKey, version: EntryVersion, byteCount: Int? = nil) {
            self.key = key
            self.version = version
            self.byteCount = byteCount
        }
    }

    /// The keys of this page.
    public var items: [Item]
    /// The cursor to pass as `after` for the next page; `nil` on the last page.
    public var next: EntryKey?

    /// Creates a page of `items`.
    public init(items: [Item], next: EntryKey?) {
        self.items = items
        self.next = next
    }
}

/// A position in the sequence of changes of a store: the number of a change and a random tag of that change.
///
/// After a wipe or a restored backup the same number may be used again, but with another tag. The store then answers
/// ``BackendError/Kind/cursorExpired`` instead of silently skipping the changes in between.
public struct ChangeCursor: Hashable, Sendable {
    /// The number of the change, counted from 1.
    public var sequence: UInt64
    /// The random tag of that change.
    public var tag: UInt64

    /// Creates a cursor at `sequence` with the tag `tag`.
    public init(sequence: UInt64, tag: UInt64) {
        self.sequence = sequence
        self.tag = tag
    }
}

/// A page of changes: each changed key once, with its current version.
public struct ChangePage: Hashable, Sendable {
    /// One changed key.
    public struct Change: Hashable, Sendable {
        /// The key.
        public var key: EntryKey
        /// The current version; `nil` if the key was deleted.
        public var version: EntryVersion?

        /// Creates a change of `key`.
        public init(key: EntryKey, version: EntryVersion?) {
            self.key = key
            self.version = version
        }
    }

    /// The changed keys, in the order of their latest change.
    public var changes: [Change]
    /// The position to continue from; `nil` if nothing has ever changed in this store.
    public var cursor: ChangeCursor?
    /// True if there are more changes after ``cursor``.
    public var hasMore: Bool

    /// Creates a page of `changes` up to `cursor`.
    public init(changes: [Change], cursor: ChangeCursor?, hasMore: Bool) {
        self.changes = changes
        self.cursor = cursor
        self.hasMore = hasMore
    }
}
