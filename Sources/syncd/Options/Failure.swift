import ArgumentParser
import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
import StoreEvidence
import SyncAgent
import SyncCore
import SyncProtocol
import SyncService

/// The error of a command: one line for standard error, and an exit code for scripts.
struct Failure: Error, CustomStringConvertible {
    let code: Code
    let message: String
    /// The settings that cause it. The first one that has a value is the cause; the others contribute.
    private(set) var settings: [String] = []
    /// The index of the element that causes it, if the first setting is a list.
    private(set) var element: Int?

    enum Code: Int32 {
        case failed = 1
        case usage = 2
        case notFound = 3
        case refused = 4
        case conflict = 5
        case denied = 10
        case tryAgain = 75
    }

    init(_ code: Code, _ message: String, of settings: [String] = []) {
        (self.code, self.message, self.settings) = (code, message, settings)
    }

    /// The failure of a setting that has no effect without `others`.
    static func needs(_ setting: String, _ others: String...) -> Failure {
        let options = others.map { "--\($0)" }.joined(separator: " and ")
        return Failure(.usage, "--\(setting) needs \(options)", of: [setting] + others)
    }

    /// The failure of two settings of which only one may be set.
    static func exclude(_ setting: String, _ other: String) -> Failure {
        Failure(.usage, "--\(setting) and --\(other) exclude each other", of: [setting, other])
    }

    var description: String { message }

    /// Maps an error of the libraries to its exit code.
    init(_ error: any Error) {
        switch error {
        case let failure as Failure: self = failure
        case let error as AccountError: self.init(Self.code(for: error), error.message)
        case let error as EntitlementError where error.isMissingLogIn:
            self.init(.refused, error.cause?.message ?? error.message)
        case let error as EntitlementError: self.init(Self.code(for: error), error.message + Self.hint(for: error))
        case let error as BackendError: self.init(Self.code(for: error), "\(error)")
        case let error as AgentError: self.init(Self.code(for: error), "\(error)")
        case let error as EvidenceError: self.init(.refused, "\(error)")
        case let error as RequestError: self.init(Self.code(for: error), error.detail)
        case let error as SupportError: self.init(Self.code(for: error), "\(error)")
        case let error as InputError: self.init(.failed, "\(error)")
        case let error as TimestampError: self.init(.usage, "\(error)")
        default: self.init(.failed, "\(error)")
        }
    }

    /// The failure of a setting. A failure that names a setting already keeps its name.
    fileprivate init(_ error: any Error, of setting: String, element: Int?) {
        switch error {
        case is Failure, is AccountError, is BackendError, is InputError: self.init(error)
        case let error as TransportError: self.init(.failed, "--\(setting): \(error.message)")
        default: self.init(.usage, "--\(setting): \(error)")
        }
        if settings.isEmpty { settings = [setting] }
        if settings.first == setting, let element { self.element = element }
    }

    /// A hint that names the option which resolves the error; empty if there is none.
    private static func hint(for error: EntitlementError) -> String {
        switch error.kind {
        case .signInNeeded: " (pass --account)"
        case .noRemote: " (pass --remote)"
        case .sync where error.syncError?.isMissingStore == true: " (syncd sync --create-remote)"
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

    private static func code(for error: AgentError) -> Code {
        switch error.kind {
        case .alreadyRunning: .tryAgain
        case .unsafe: .usage
        case .failed: .failed
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

    private static func code(for error: RequestError) -> Code {
        switch error.status {
        case .notFound: .notFound
        case .conflict: .conflict
        case .badRequest: .usage
        default: .refused
        }
    }

    private static func code(for error: SupportError) -> Code {
        switch error.kind {
        case .unknownAccount, .unknownProduct: .notFound
        case .contradiction: .conflict
        case .invalid: .usage
        case .notAServer, .clockIsBehind, .erasedAccount, .ownedByAnother, .ledgerFull: .refused
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

/// Reads a setting. An error of `body` becomes a failure that names it.
///
/// - Parameter element: the index of the element that is read, if the setting is a list.
func reading<Value>(_ setting: String, element: Int? = nil, _ body: () throws -> Value) throws(Failure) -> Value {
    do { return try body() } catch { throw Failure(error, of: setting, element: element) }
}

/// Reads each element of a list. A failure names the element as well.
@discardableResult
func reading<Value>(
    _ setting: String, each texts: [String], _ body: (String) throws -> Value
) throws(Failure) -> [Value] {
    try texts.enumerated().map { (index, text) throws(Failure) in
        try reading(setting, element: index) { try body(text) }
    }
}

/// The values of settings that need each other; `nil` if none is set.
func together(_ settings: [(String, String?)]) throws(Failure) -> [String]? {
    let values = settings.compactMap(\.1)
    guard !values.isEmpty else { return nil }
    guard values.count == settings.count else {
        let names = settings.map(\.0)
        let options = names.map { "--\($0)" }
        let list = options.dropLast().joined(separator: ", ") + " and " + options[options.count - 1]
        throw Failure(.usage, "\(list) must be passed together", of: names)
    }
    return values
}

extension EntitlementError {
    /// The underlying error of a store, during a sync or outside of one.
    fileprivate var cause: BackendError? {
        if let backendError { return backendError }
        if case .backend(let error) = syncError?.reason { return error }
        return nil
    }

    /// `true` if no request was sent to the server because no account is logged in there.
    fileprivate var isMissingLogIn: Bool {
        kind == .sync && (cause?.cause as? AccountError)?.kind == .sessionOver
    }
}

extension SyncError {
    /// `true` if the remote's folder is missing on this machine, which may be a share that is not mounted.
    fileprivate var isMissingStore: Bool {
        if case .backend(let error) = reason { side == .remote && error.kind == .missing } else { false }
    }
}
