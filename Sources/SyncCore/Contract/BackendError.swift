/// A failure of a backend.
///
/// Neither a conflict (see ``WriteOutcome/conflict(_:)``) nor an absent key is an error. A backend that cannot find out
/// if a key exists throws; it never answers ``ReadOutcome/absent``.
public struct BackendError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure, for programs to act on.
    public let kind: Kind
    /// The operation that failed, if known.
    public let operation: Operation?
    /// The key that the operation concerned, if it concerned one.
    public let key: EntryKey?
    /// The effect of the failed operation, which decides how to retry it.
    public let disposition: Disposition
    /// One line for people: what is wrong and what to do.
    public let message: String
    /// The underlying error, if there is one.
    public let cause: (any Error)?
    /// The time for which the store asked the client to wait before the next attempt; `nil` if it named none.
    public let retryAfter: Duration?

    /// Creates an error of `kind`.
    ///
    /// Without a `disposition`, errors of the kinds `missing`, `unavailable` and `busy` are `transient`, and all others
    /// `permanent`.
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

    /// Returns the same error with the operation and key filled in where they are missing.
    public func during(_ operation: Operation, key: EntryKey? = nil) -> BackendError {
        BackendError(
            kind, operation: self.operation ?? operation, key: self.key ?? key, disposition: disposition,
            message: message, cause: cause, retryAfter: retryAfter)
    }

    /// The operation, key, message and cause on one line.
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
    /// The kind of a failure. More kinds may be added; switch with a default case.
    public struct Kind: Hashable, Sendable, CustomStringConvertible {
        private enum Code: String {
            case invalidKey, invalidCursor, unsupported, permissionDenied, full, tooLarge, damaged, notAStore
            case newerFormat, missing, unavailable, busy, cancelled, cursorExpired, refused, other
        }
        private let code: Code

        /// The key is empty, too long or contains control characters.
        public static let invalidKey = Kind(code: .invalidKey)
        /// The cursor or page position was not issued by this backend.
        public static let invalidCursor = Kind(code: .invalidCursor)
        /// The backend does not offer this operation or cannot check this precondition; see ``Capabilities``.
        public static let unsupported = Kind(code: .unsupported)
        /// The store exists, but this process lacks the permission for the operation.
        public static let permissionDenied = Kind(code: .permissionDenied)
        /// No space is left, or a quota is exhausted. Existing entries are unaffected.
        public static let full = Kind(code: .full)
        /// The value is larger than ``Capabilities/maximumValueByteCount``.
        public static let tooLarge = Kind(code: .tooLarge)
        /// The stored bytes cannot be read back as they were written.
        public static let damaged = Kind(code: .damaged)
        /// The given place is not a store of this kind.
        public static let notAStore = Kind(code: .notAStore)
        /// The store was written by a later version of this software.
        public static let newerFormat = Kind(code: .newerFormat)
        /// There is no store at the given place, and none may be created. It may be on a share that is not mounted.
        public static let missing = Kind(code: .missing)
        /// The store cannot be reached at present.
        public static let unavailable = Kind(code: .unavailable)
        /// Another client held the store until the timeout expired.
        public static let busy = Kind(code: .busy)
        /// The calling task was cancelled.
        public static let cancelled = Kind(code: .cancelled)
        /// The store does not, or no longer, know the change that the cursor names. Read everything again, and do not
        /// conclude that a missing key was deleted.
        public static let cursorExpired = Kind(code: .cursorExpired)
        /// The store inspects values and rejects this one.
        public static let refused = Kind(code: .refused)
        /// Any other failure.
        public static let other = Kind(code: .other)

        /// The name of the kind.
        public var description: String { code.rawValue }

        /// Creates the kind with this name, as another process wrote it; `nil` for a name that this version does not
        /// know.
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

    /// The effect of a failed operation, which decides how to retry it.
    public enum Disposition: String, Hashable, Sendable {
        /// The operation had no effect; the same call may succeed later.
        case transient
        /// The operation had no effect, and the same call will not succeed.
        case permanent
        /// The write may or may not have happened. Repeating it under the same precondition is safe.
        case outcomeUnknown
    }

    /// An operation of a backend.
    public enum Operation: String, Hashable, Sendable {
        /// Reading one key.
        case read
        /// Writing one key.
        case write
        /// Deleting one key.
        case delete
        /// Listing keys.
        case list
        /// Reading the sequence of changes.
        case changes
        /// Opening the store.
        case open
    }
}
