import HTTPTypes
public import SyncCore
import SyncProtocol

/// An error of an account operation.
public struct AccountError: Error, Sendable, CustomStringConvertible {
    /// The kind of an error. More kinds may be added, so switch with a default.
    public struct Kind: Hashable, Sendable, CustomStringConvertible {
        private enum Code: String {
            case invalidCredentials, nameTaken, tooManyGuesses, sessionOver, notAllowed, invalid, unknown
            case deviceRefused, codeExpired, unreachable, untrusted, server, cancelled, noToken
        }
        private let code: Code

        /// The name, password or recovery code is wrong. The server does not reveal which.
        public static let invalidCredentials = Kind(code: .invalidCredentials)
        /// The name is taken by another account.
        public static let nameTaken = Kind(code: .nameTaken)
        /// Too many wrong guesses. ``AccountError/retryAfter`` has the time to wait.
        public static let tooManyGuesses = Kind(code: .tooManyGuesses)
        /// The session has ended or expired, or never existed. Log in again.
        public static let sessionOver = Kind(code: .sessionOver)
        /// The caller is authenticated but not permitted.
        public static let notAllowed = Kind(code: .notAllowed)
        /// The name, the new password or another value is invalid.
        public static let invalid = Kind(code: .invalid)
        /// No account has this name, or no device waits for this code.
        public static let unknown = Kind(code: .unknown)
        /// The owner of the account denied the device.
        public static let deviceRefused = Kind(code: .deviceRefused)
        /// The code expired before the device was approved. Start again.
        public static let codeExpired = Kind(code: .codeExpired)
        /// The server is unreachable, or the connection broke.
        public static let unreachable = Kind(code: .unreachable)
        /// The certificate of the server is not trusted.
        public static let untrusted = Kind(code: .untrusted)
        /// The server failed, or the answer is not from an EntitlementSync server.
        public static let server = Kind(code: .server)
        /// The app's closure gave no token of its issuer that can be used.
        public static let noToken = Kind(code: .noToken)
        /// The calling task was cancelled.
        public static let cancelled = Kind(code: .cancelled)

        /// The name of the kind.
        public var description: String { code.rawValue }
    }

    /// The kind of the error.
    public let kind: Kind
    /// A description in one line: the problem and what to do.
    public let message: String
    /// The time that the server asks to wait before a retry; `nil` if it did not say.
    public let retryAfter: Duration?
    /// True if the same call may succeed later.
    public let isTransient: Bool
    /// True if the operation may have taken effect because its answer was lost.
    public let mayHaveHappened: Bool
    /// The error code of OAuth 2.0, if any.
    var name: String?

    /// Creates an error.
    ///
    /// - Parameters:
    ///   - kind: the kind of the error.
    ///   - message: a description in one line.
    ///   - retryAfter: the time to wait before a retry.
    ///   - isTransient: true if the same call may succeed later; `nil` for the default of the kind.
    ///   - mayHaveHappened: true if the operation may have taken effect.
    package init(
        _ kind: Kind, _ message: String, retryAfter: Duration? = nil, isTransient: Bool? = nil,
        mayHaveHappened: Bool = false
    ) {
        (self.kind, self.message, self.retryAfter) = (kind, message, retryAfter)
        self.isTransient = isTransient ?? [.unreachable, .tooManyGuesses, .noToken].contains(kind)
        self.mayHaveHappened = mayHaveHappened
    }

    /// The message.
    public var description: String { message }

    /// The error of a backend request that could not get an access token. The request was not sent.
    public var backendError: BackendError {
        let kind: BackendError.Kind =
            switch self.kind {
            case .unreachable, .server: isTransient ? .unavailable : .notAStore
            case .noToken: .unavailable
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
    /// Creates the error of an exchange without a complete answer.
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

    /// Creates the error of an unsuccessful answer.
    ///
    /// - Parameter invalidGrant: the meaning of `invalid_grant` for the operation.
    init(_ answer: TransportAnswer, invalidGrant: Kind, server: String) {
        let code = answer.response.status.code
        let retryAfter = RetryAfter.pause(of: answer.response)
        guard let problem = Problem(json: answer.body) else {
            // A proxy may also answer that it is busy.
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
