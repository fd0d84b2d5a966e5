/// What must hold for a write or delete to happen, decided by the store in the same atomic step as the write.
public enum Precondition: Hashable, Sendable {
    /// Nothing: last writer wins. The engine uses it only where a store can honour nothing else, and there only for
    /// keys that its own replica alone writes.
    case any
    /// The key holds nothing.
    case absent
    /// The key holds an entry of this version.
    case matches(EntryVersion)
}

/// The answer to a read.
public enum ReadOutcome: Hashable, Sendable {
    /// The key holds this entry.
    case found(Entry)
    /// The store knows that the key holds nothing.
    case absent
    /// The key still holds the version that the caller named.
    case unchanged
}

/// The answer to a write or delete. A conflict is an answer, not an error.
public enum WriteOutcome: Hashable, Sendable {
    /// The write happened, is as durable as ``Capabilities/durability`` says, and got this version.
    case written(EntryVersion)
    /// The key holds nothing now, and held what the precondition asked for before.
    case deleted
    /// The precondition did not hold; nothing changed. The entry that stood against it comes along, `nil` for none.
    case conflict(Entry?)
}

/// An answer, and what else the store told with it: its clock, where it has one that can be believed.
public struct Answer<Outcome: Sendable>: Sendable {
    /// What was asked for.
    public var outcome: Outcome
    /// The store's own time when it answered, in milliseconds since 1970 UTC; `nil` where the store has no clock of
    /// its own (a file, a cache) or cannot vouch for it.
    public var serverTime: Int64?
    /// The version of an entry that belongs to the one asked about and that somebody else writes, where the store tells
    /// of it: what a server has decided about a ledger. `nil` says nothing.
    public var relatedVersion: EntryVersion?

    /// An answer of `outcome`.
    public init(_ outcome: Outcome, serverTime: Int64? = nil, relatedVersion: EntryVersion? = nil) {
        self.outcome = outcome
        self.serverTime = serverTime
        self.relatedVersion = relatedVersion
    }
}

extension Answer: Equatable where Outcome: Equatable {}

/// One read of a batch.
public struct ReadRequest: Hashable, Sendable {
    /// The key to read.
    public var key: EntryKey
    /// Answer ``ReadOutcome/unchanged`` when the key still holds this version.
    public var knownVersion: EntryVersion?

    /// A read of `key`, conditional when `knownVersion` is given.
    public init(_ key: EntryKey, unless knownVersion: EntryVersion? = nil) {
        self.key = key
        self.knownVersion = knownVersion
    }
}

/// One write or delete of a batch.
public struct WriteRequest: Hashable, Sendable {
    /// The key to change.
    public var key: EntryKey
    /// The new value, or `nil` to delete.
    public var value: [UInt8]?
    /// What must hold for it to happen.
    public var precondition: Precondition

    /// A write of `value` to `key`, or a delete when `value` is `nil`.
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
        /// The version it held when the page was made.
        public var version: EntryVersion
        /// The number of bytes of the value of this version; `nil` when the store does not know it without reading.
        public var byteCount: Int?

        /// A listed key, its version, and the size of its value where it is known.
        public init(key: EntryKey, version: EntryVersion, byteCount: Int? = nil) {
            self.key = key
            self.version = version
            self.byteCount = byteCount
        }
    }

    /// The keys of this page.
    public var items: [Item]
    /// Pass as `after` for the next page; `nil` when this was the last.
    public var next: EntryKey?

    /// A page of `items`.
    public init(items: [Item], next: EntryKey?) {
        self.items = items
        self.next = next
    }
}

/// A position in a store's sequence of changes: the number of a change and a random tag of that very change.
///
/// After a wipe or a restored backup the number may exist again, the tag does not; the store answers
/// ``BackendError/Kind/cursorExpired`` instead of pretending that nothing happened in between.
public struct ChangeCursor: Hashable, Sendable {
    /// The position, counted from 1.
    public var sequence: UInt64
    /// The tag of the change at that position.
    public var tag: UInt64

    /// A cursor at `sequence`, tagged `tag`.
    public init(sequence: UInt64, tag: UInt64) {
        self.sequence = sequence
        self.tag = tag
    }
}

/// What changed after a cursor: each key once, with the version it holds now, `nil` when it was deleted.
public struct ChangePage: Hashable, Sendable {
    /// One changed key.
    public struct Change: Hashable, Sendable {
        /// The key.
        public var key: EntryKey
        /// The version it holds now.
        public var version: EntryVersion?

        /// A change of `key`.
        public init(key: EntryKey, version: EntryVersion?) {
            self.key = key
            self.version = version
        }
    }

    /// The changed keys, in the order of their latest change.
    public var changes: [Change]
    /// Where to go on from; `nil` when nothing has ever changed in this store.
    public var cursor: ChangeCursor?
    /// Whether more changes are waiting behind ``cursor``.
    public var hasMore: Bool

    /// A page of `changes` up to `cursor`.
    public init(changes: [Change], cursor: ChangeCursor?, hasMore: Bool) {
        self.changes = changes
        self.cursor = cursor
        self.hasMore = hasMore
    }
}
