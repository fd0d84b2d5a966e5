import ArgumentParser
import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore

/// A command failed: one line for standard error, and the exit code that tells a script what to do.
struct Failure: Error, CustomStringConvertible {
    let code: Code
    let message: String

    enum Code: Int32 {
        case failed = 1
        case usage = 2
        case notFound = 3
        case refused = 4
        case conflict = 5
        case denied = 10
        case tryAgain = 75
    }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    var description: String { message }

    /// Finds the code for an error of the libraries.
    init(_ error: any Error) {
        switch error {
        case let failure as Failure: self = failure
        case let error as AccountError: self.init(Self.code(for: error), error.message)
        case let error as EntitlementError where error.isMissingLogIn:
            self.init(.refused, error.cause?.message ?? error.message)
        case let error as EntitlementError: self.init(Self.code(for: error), error.message + Self.hint(for: error))
        case let error as BackendError: self.init(Self.code(for: error), "\(error)")
        case let error as InputError: self.init(.failed, "\(error)")
        case let error as TimestampError: self.init(.usage, "\(error)")
        default: self.init(.failed, "\(error)")
        }
    }

    /// The option that is missing.
    private static func hint(for error: EntitlementError) -> String {
        switch error.kind {
        case .signInNeeded: " (name an account with --account)"
        case .noRemote: " (name one with --remote)"
        case .sync where error.syncError?.isMissingStore == true: " (with sync --create-remote)"
        default: ""
        }
    }

    private static func code(for error: EntitlementError) -> Code {
        if error.cause?.kind == .missing { return .notFound }
        if error.isTransient { return .tryAgain }
        if let backend = error.backendError { return code(for: backend) }
        switch error.syncError?.reason {
        case .backend(let backend): return code(for: backend)
        case .document(let document) where document.isNewer: return .refused
        default: break
        }
        return switch error.kind {
        case .unknownProduct, .unknownEntitlement, .unknownAccount: .notFound
        case .invalid, .noRemote: .usage
        case .contradiction: .conflict
        case .signInNeeded, .refused, .ledgerFull, .unsuitableStore, .newerFormat, .accountErased: .refused
        default: .failed
        }
    }

    private static func code(for error: AccountError) -> Code {
        if error.isTransient { return .tryAgain }
        return switch error.kind {
        case .invalidCredentials, .sessionOver, .notAllowed, .deviceRefused, .untrusted: .refused
        case .nameTaken: .conflict
        case .invalid: .usage
        case .unknown: .notFound
        case .codeExpired: .tryAgain
        default: .failed
        }
    }

    private static func code(for error: BackendError) -> Code {
        if error.kind == .missing { return .notFound }
        if error.disposition == .transient { return .tryAgain }
        return switch error.kind {
        case .permissionDenied, .refused, .notAStore, .newerFormat, .tooLarge, .unsupported: .refused
        case .invalidKey: .usage
        default: .failed
        }
    }
}

extension EntitlementError {
    /// The store's error underneath, in a sync or outside of one.
    fileprivate var cause: BackendError? {
        if let backendError { return backendError }
        if case .backend(let error) = syncError?.reason { return error }
        return nil
    }

    /// Whether a server was not even asked, because nobody is logged in there.
    fileprivate var isMissingLogIn: Bool {
        kind == .sync && (cause?.cause as? AccountError)?.kind == .sessionOver
    }
}

extension SyncError {
    /// Whether the folder of the remote is missing, as far as this machine can see.
    fileprivate var isMissingStore: Bool {
        if case .backend(let error) = reason { side == .remote && error.kind == .missing } else { false }
    }
}
