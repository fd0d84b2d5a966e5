import HTTPTypes
public import SyncCore
import SyncProtocol

/// A server did not do what was asked about an account.
public struct AccountError: Error, Sendable, CustomStringConvertible {
    /// What went wrong, for a program to decide by. More kinds may come; switch with a default.
    public struct Kind: Hashable, Sendable, CustomStringConvertible {
        private enum Code: String {
            case invalidCredentials, nameTaken, tooManyGuesses, sessionOver, notAllowed, invalid, unknown
            case deviceRefused, codeExpired, unreachable, untrusted, server, cancelled
        }
        private let code: Code

        /// The name, password or recovery code is wrong. The server does not say which.
        public static let invalidCredentials = Kind(code: .invalidCredentials)
        /// Somebody else has an account of this name.
        public static let nameTaken = Kind(code: .nameTaken)
        /// Too many wrong guesses; ``AccountError/retryAfter`` says when to try again.
        public static let tooManyGuesses = Kind(code: .tooManyGuesses)
        /// The session was ended, has expired, or never was: log in again.
        public static let sessionOver = Kind(code: .sessionOver)
        /// The server knows who asks, and does not let him.
        public static let notAllowed = Kind(code: .notAllowed)
        /// The name, the new password or something else that was sent is none that the server takes.
        public static let invalid = Kind(code: .invalid)
        /// There is no account of this name, or no device that waits with this code.
        public static let unknown = Kind(code: .unknown)
        /// The account's owner said no to the device.
        public static let deviceRefused = Kind(code: .deviceRefused)
        /// Nobody approved the device in time: begin again.
        public static let codeExpired = Kind(code: .codeExpired)
        /// The server cannot be reached now, or the connection broke.
        public static let unreachable = Kind(code: .unreachable)
        /// Whoever answered cannot prove to be the server.
        public static let untrusted = Kind(code: .untrusted)
        /// The server failed, or what answered is none of ours.
        public static let server = Kind(code: .server)
        /// The calling task was cancelled.
        public static let cancelled = Kind(code: .cancelled)

        /// The kind's name.
        public var description: String { code.rawValue }
    }

    /// What went wrong.
    public let kind: Kind
    /// One line for a person: what is wrong and what to do.
    public let message: String
    /// How long the server asked to be left alone; `nil` where it did not say.
    public let retryAfter: Duration?
    /// Whether the same call may succeed later.
    public let isTransient: Bool
    /// Whether what was asked for may have been done all the same: the answer was lost.
    public let mayHaveHappened: Bool
    /// The error's name in OAuth 2.0, where it has one.
    var name: String?

    /// An error of `kind`.
    ///
    /// - Parameters:
    ///   - kind: what went wrong.
    ///   - message: one line for a person.
    ///   - retryAfter: how long the server asked to be left alone.
    ///   - isTransient: whether the same call may succeed later; `nil` for what is usual for the kind.
    ///   - mayHaveHappened: whether it may have been done.
    public init(
        _ kind: Kind, _ message: String, retryAfter: Duration? = nil, isTransient: Bool? = nil,
        mayHaveHappened: Bool = false
    ) {
        (self.kind, self.message, self.retryAfter) = (kind, message, retryAfter)
        self.isTransient = isTransient ?? (kind == .unreachable || kind == .tooManyGuesses)
        self.mayHaveHappened = mayHaveHappened
    }

    /// The message.
    public var description: String { message }

    /// The same as an error of a store: of a request that could get no access token. Nothing was asked of the store.
    public var backendError: BackendError {
        let kind: BackendError.Kind =
            switch self.kind {
            case .unreachable, .server: isTransient ? .unavailable : .notAStore
            case .tooManyGuesses: .busy
            case .cancelled: .cancelled
            default: .permissionDenied
            }
        return BackendError(
            kind, disposition: isTransient ? .transient : .permanent, message: message, cause: self,
            retryAfter: retryAfter)
    }
}

extension AccountError {
    /// An exchange that brought no whole answer.
    init(_ error: TransportError, server: String) {
        let kind: Kind =
            switch error.kind {
            case .cancelled: .cancelled
            case .untrusted: .untrusted
            case .malformed, .tooLarge: .server
            case .unreachable, .interrupted, .timedOut, .other: .unreachable
            }
        self.init(kind, "\(server): \(error.message)", mayHaveHappened: error.mayHaveArrived)
    }

    /// What an answer says that is none of success.
    ///
    /// - Parameter invalidGrant: what `invalid_grant` means for what was asked.
    init(_ answer: TransportAnswer, invalidGrant: Kind, server: String) {
        let code = answer.response.status.code
        let retryAfter = RetryAfter.pause(of: answer.response)
        guard let problem = Problem(json: answer.body) else {
            // A proxy on the way says it is busy as well as any other.
            let isTransient = [429, 502, 503, 504].contains(code)
            self.init(
                .server, "\(server): the answer (\(code)) is none of ours; is this the right server?",
                retryAfter: retryAfter, isTransient: isTransient, mayHaveHappened: code >= 500)
            return
        }
        let kind: Kind =
            switch (code, problem.error) {
            case (_, "invalid_grant"?): invalidGrant
            case (_, "expired_token"?): .codeExpired
            case (_, "access_denied"?): .deviceRefused
            case (401, _): .sessionOver
            case (403, _): .notAllowed
            case (404, _): .unknown
            case (409, _): .nameTaken
            case (429, _): .tooManyGuesses
            case (400..<500, _): .invalid
            default: .server
            }
        let detail = problem.detail.isEmpty ? "the server answered \(code) \(problem.title)" : problem.detail
        self.init(
            kind, detail, retryAfter: retryAfter, isTransient: kind == .server ? code >= 500 : nil,
            mayHaveHappened: code >= 500 && code != 503)
        name = problem.error
    }
}
