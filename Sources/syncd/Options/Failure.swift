import ArgumentParser
import EntitlementSync
import Entitlements
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
        case let error as EntitlementError: self.init(Self.code(for: error), error.message)
        case let error as BackendError: self.init(Self.code(for: error), "\(error)")
        case let error as InputError: self.init(.failed, "\(error)")
        case let error as TimestampError: self.init(.usage, "\(error)")
        default: self.init(.failed, "\(error)")
        }
    }

    private static func code(for error: EntitlementError) -> Code {
        if error.isTransient { return .tryAgain }
        if let backend = error.backendError { return code(for: backend) }
        if case .backend(let backend) = error.syncError?.reason { return code(for: backend) }
        return switch error.kind {
        case .unknownProduct, .unknownEntitlement: .notFound
        case .invalid, .noRemote: .usage
        case .contradiction: .conflict
        case .signInNeeded, .ledgerFull, .unsuitableStore: .refused
        default: .failed
        }
    }

    private static func code(for error: BackendError) -> Code {
        if error.disposition == .transient { return .tryAgain }
        return switch error.kind {
        case .permissionDenied, .notAStore, .newerFormat, .tooLarge, .unsupported: .refused
        case .invalidKey: .usage
        default: .failed
        }
    }
}
