import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import HTTPStorage
import SyncCore
import SyncProtocol

/// An error of a ``Shop``. Its kind is for the app, and its description states the problem on one line.
public struct ShopError: Error, Sendable, CustomStringConvertible {
    /// The kinds of errors. New kinds may be added, so a `switch` needs a default case.
    public struct Kind: Hashable, Sendable {
        private let name: String

        /// The catalogue cannot be read, or lacks the product or the entitlement. A mistake of the app.
        public static let catalog = Kind(name: "catalog")
        /// The address of the server is missing or wrong, or it is no EntitlementSync server. A mistake of the app.
        public static let noServer = Kind(name: "noServer")
        /// The server cannot be reached. Purchases on this device are safe, and count.
        public static let offline = Kind(name: "offline")
        /// The name or the password is wrong.
        public static let wrongPassword = Kind(name: "wrongPassword")
        /// The name is taken by another account.
        public static let nameTaken = Kind(name: "nameTaken")
        /// No account is logged in, or its session has ended: log in.
        public static let logInNeeded = Kind(name: "logInNeeded")
        /// The account was erased.
        public static let accountErased = Kind(name: "accountErased")
        /// The purchases on this device cannot be read or written, for example because the disk is full.
        public static let storage = Kind(name: "storage")
        /// The purchases on this device are damaged. Nothing was changed.
        public static let damaged = Kind(name: "damaged")
        /// The App Store failed, or the user cancelled.
        public static let appStore = Kind(name: "appStore")
        /// Any other error.
        public static let other = Kind(name: "other")
    }

    /// The kind.
    public let kind: Kind
    /// The problem, and the remedy if there is one, on one line.
    public let description: String
    /// True if the same call may succeed later.
    public let isTransient: Bool

    init(_ kind: Kind, _ description: String, isTransient: Bool = false) {
        (self.kind, self.description, self.isTransient) = (kind, description, isTransient)
    }

    /// Translates an error of the parts.
    init(_ error: any Error) {
        switch error {
        case let error as ShopError: self = error
        case let error as InputError: self.init(.catalog, "the catalogue: \(error)")
        case let error as AccountError: self.init(Self.kind(of: error), error.message, isTransient: error.isTransient)
        case let error as EntitlementError:
            if let account = error.accountError {
                self.init(account)
            } else {
                self.init(Self.kind(of: error), error.message, isTransient: error.isTransient)
            }
        case let error as BackendError:
            if let account = error.cause as? AccountError {
                self.init(account)
            } else {
                self.init(
                    error.kind == .notAStore ? .noServer : .storage, error.message,
                    isTransient: error.disposition == .transient)
            }
        case let error as TransportError: self.init(.offline, error.message, isTransient: true)
        case let error as StoreKitFeedError: self.init(.appStore, error.description, isTransient: true)
        default: self.init(.appStore, "\(error)", isTransient: true)
        }
    }

    private static func kind(of error: AccountError) -> Kind {
        switch error.kind {
        case .invalidCredentials: .wrongPassword
        case .nameTaken: .nameTaken
        case .sessionOver: .logInNeeded
        case .unreachable, .tooManyGuesses: .offline
        case .server, .untrusted: .noServer
        default: .other
        }
    }

    private static func kind(of error: EntitlementError) -> Kind {
        switch error.kind {
        case .unknownProduct, .unknownEntitlement: .catalog
        case .signInNeeded: .logInNeeded
        case .noRemote: .noServer
        case .accountErased, .unknownAccount: .accountErased
        case .storage, .unsuitableStore, .ledgerFull: .storage
        case .damaged, .newerFormat: .damaged
        case .sync: .offline
        default: .other
        }
    }
}

extension EntitlementError {
    /// The error of the account that caused this one.
    fileprivate var accountError: AccountError? {
        if let error = backendError?.cause as? AccountError { return error }
        guard case .backend(let error)? = syncError?.reason else { return nil }
        return error.cause as? AccountError
    }
}
