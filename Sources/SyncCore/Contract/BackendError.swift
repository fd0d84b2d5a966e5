/// A backend could not do what it was asked.
///
/// A conflict is not an error (see ``WriteOutcome/conflict(_:)``), and an absent key is not one either. A backend that
/// cannot find out whether a key is there throws; it never answers ``ReadOutcome/absent``.
public struct BackendError: Error, Sendable, CustomStringConvertible {
    /// What went wrong, for a program to decide by.
    public let kind: Kind
    /// What the backend was asked to do, where known.
    public let operation: Operation?
    /// Which key it was about, where it was about one.
    public let key: EntryKey?
    /// Whether trying again can help, and whether the write may have happened.
    public let disposition: Disposition
    /// One line for a person: what is wrong and what to do.
    public let message: String
    /// The error underneath, where there was one.
    public let cause: (any Error)?
    /// How long the store asked to be left alone before the next attempt; `nil` where it did not say.
    public let retryAfter: Duration?

    /// An error of `kind`; without a `disposition`, the one that is usual for the kind.
    public init(
        _ kind: Kind, operation: Operation? = nil, key: EntryKey? = nil, disposition: Disposition? = nil,
        message: String, cause: (any Error)? = nil, retryAfter: Duration? = nil
    ) {
        self.kind = kind
        self.operation = operation
        self.key = key
        self.disposition = disposition ?? kind.usualDisposition
        self.message = message
        self.cause = cause
        self.retryAfter = retryAfter
    }

    /// The same error with the operation and key filled in where they were missing.
    public func during(_ operation: Operation, key: EntryKey? = nil) -> BackendError {
        BackendError(
            kind, operation: self.operation ?? operation, key: self.key ?? key, disposition: disposition,
            message: message, cause: cause, retryAfter: retryAfter)
    }

    /// The message with operation, key, disposition and cause, on one line.
    public var description: String {
        var parts: [String] = []
        if let operation { parts.append(operation.rawValue) }
        if let key { parts.append("\"\(key)\"") }
        let context = parts.isEmpty ? "" : parts.joined(separator: " ") + ": "
        guard let cause else { return context + message }
        // A message that quotes its cause is not followed by it.
        let quoted = "\(cause)".split(separator: ": ", maxSplits: 1).last ?? ""
        return context + message + (message.contains(quoted) ? "" : " (\(cause))")
    }
}

extension BackendError {
    /// What went wrong. More kinds may come; switch with a default.
    public struct Kind: Hashable, Sendable, CustomStringConvertible {
        private enum Code: String {
            case invalidKey, invalidCursor, unsupported, permissionDenied, full, tooLarge, damaged, notAStore
            case newerFormat, missing, unavailable, busy, cancelled, cursorExpired, refused, other
        }
        private let code: Code

        /// The key is empty, too long or has control characters.
        public static let invalidKey = Kind(code: .invalidKey)
        /// The cursor or page position was not made by this backend.
        public static let invalidCursor = Kind(code: .invalidCursor)
        /// The backend's capabilities exclude this; a precondition that cannot be honoured is refused with it.
        public static let unsupported = Kind(code: .unsupported)
        /// The store exists and this process may not use it so.
        public static let permissionDenied = Kind(code: .permissionDenied)
        /// No space is left, or a quota is used up. What was there is still there.
        public static let full = Kind(code: .full)
        /// The value is larger than the backend takes.
        public static let tooLarge = Kind(code: .tooLarge)
        /// What is stored cannot be read back as it was written.
        public static let damaged = Kind(code: .damaged)
        /// The place named is not a store of this kind.
        public static let notAStore = Kind(code: .notAStore)
        /// The store was written by a later version of this software.
        public static let newerFormat = Kind(code: .newerFormat)
        /// There is no store at that place, and none may be made; it may be on a share that is not mounted now.
        public static let missing = Kind(code: .missing)
        /// The store cannot be reached now.
        public static let unavailable = Kind(code: .unavailable)
        /// Someone else holds the store, and did not let go in time.
        public static let busy = Kind(code: .busy)
        /// The calling task was cancelled.
        public static let cancelled = Kind(code: .cancelled)
        /// The cursor's change is no longer (or was never) part of this store: start over, believing no absence.
        public static let cursorExpired = Kind(code: .cursorExpired)
        /// The store looks into what it is given, and does not take this.
        public static let refused = Kind(code: .refused)
        /// None of the others.
        public static let other = Kind(code: .other)

        /// The kind's name.
        public var description: String { code.rawValue }

        /// The kind of this name, as another process wrote it; `nil` for one that this software does not know.
        public init?(name: String) {
            guard let code = Code(rawValue: name) else { return nil }
            self.code = code
        }

        private init(code: Code) {
            self.code = code
        }

        var usualDisposition: Disposition {
            switch code {
            case .missing, .unavailable, .busy: .transient
            default: .permanent
            }
        }
    }

    /// Whether the operation took effect, and whether to try it again.
    public enum Disposition: String, Hashable, Sendable {
        /// It had no effect; the same call may succeed later.
        case transient
        /// It had no effect, and the same call will not succeed.
        case permanent
        /// A write that may or may not have happened. Repeating it under the same precondition is safe.
        case outcomeUnknown
    }

    /// What a backend can be asked to do.
    public enum Operation: String, Hashable, Sendable {
        /// Reading one key.
        case read
        /// Writing one key.
        case write
        /// Deleting one key.
        case delete
        /// Listing keys.
        case list
        /// Asking what changed.
        case changes
        /// Opening the store.
        case open
    }
}
