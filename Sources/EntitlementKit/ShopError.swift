import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
public import Foundation
import HTTPStorage
import SyncCore
import SyncProtocol

/// An error of a ``Shop``.
///
/// ``kind`` is for the app, ``message`` for the user, and ``description`` for a log.
public struct ShopError: Error, Sendable, CustomStringConvertible, LocalizedError {
    /// The kinds of errors. New kinds may be added, so a `switch` needs a default case.
    public struct Kind: Hashable, Sendable, CustomStringConvertible {
        private let name: String

        /// The name of the kind, for example `offline`.
        public var description: String { name }

        /// The catalogue cannot be read, lacks the product or the entitlement, or differs from the App Store. A mistake
        /// of the app.
        public static let catalog = Kind(name: "catalog")
        /// The address of the server is missing or wrong, or another kind of server answers there. A mistake of the
        /// app.
        public static let noServer = Kind(name: "noServer")
        /// ``Shop/buy(_:)`` was called while ``Shop/run()`` does not run. A mistake of the app.
        public static let notRunning = Kind(name: "notRunning")
        /// The server cannot be reached. Purchases on this device are safe, and count.
        public static let offline = Kind(name: "offline")
        /// The name, the password or the recovery code is wrong.
        public static let wrongPassword = Kind(name: "wrongPassword")
        /// The server has counted too many attempts. Wait before the next one.
        public static let tooManyAttempts = Kind(name: "tooManyAttempts")
        /// The name is taken by another account.
        public static let nameTaken = Kind(name: "nameTaken")
        /// The name, the new password or another value is not allowed.
        public static let invalid = Kind(name: "invalid")
        /// The server does not allow this to the user, for example because it has closed its sign-up.
        public static let notAllowed = Kind(name: "notAllowed")
        /// The certificate of the server is not trusted: the device's date is wrong, or the network intercepts.
        public static let untrusted = Kind(name: "untrusted")
        /// No account is logged in, or its session has ended: log in.
        public static let logInNeeded = Kind(name: "logInNeeded")
        /// The closure for the tokens of the app's own issuer threw an error, or gave a text that is no token.
        public static let noToken = Kind(name: "noToken")
        /// The account was deleted.
        public static let accountDeleted = Kind(name: "accountDeleted")
        /// The disk is full. Nothing that was confirmed is lost.
        public static let full = Kind(name: "full")
        /// The purchases on this device cannot be read or written.
        public static let storage = Kind(name: "storage")
        /// The purchases on this device are damaged. Nothing was changed.
        public static let damaged = Kind(name: "damaged")
        /// A later version of the app wrote the purchases on this device. Nothing was changed.
        public static let newerVersion = Kind(name: "newerVersion")
        /// The App Store failed, or does not offer the product.
        public static let appStore = Kind(name: "appStore")
        /// The purchase belongs to another environment of the App Store than the shop counts. A mistake of the app.
        public static let otherEnvironment = Kind(name: "otherEnvironment")
        /// Access is denied, so nothing was used. ``ShopError/denial`` has the reason.
        public static let denied = Kind(name: "denied")
        /// The calling task was cancelled, or the user cancelled. Show nothing.
        public static let cancelled = Kind(name: "cancelled")
        /// Any other error.
        public static let other = Kind(name: "other")
    }

    /// The kind.
    public let kind: Kind
    /// The problem and its technical cause, on one line.
    public let description: String
    /// True if the same call may succeed later.
    public let isTransient: Bool
    /// The reason for which access is denied, for ``Kind/denied``; otherwise `nil`.
    public let denial: ShopAccess.Denial?

    init(_ kind: Kind, _ description: String, isTransient: Bool = false) {
        (self.kind, self.description, self.isTransient, denial) = (kind, description, isTransient, nil)
    }

    /// The error of a use that `denial` prevents.
    init(_ denial: ShopAccess.Denial, of entitlement: String) {
        (kind, isTransient, self.denial) = (.denied, false, denial)
        description = "\(entitlement.singleLine) cannot be used: \(denial)"
    }

    /// The same text as ``message``, for `localizedDescription`.
    public var errorDescription: String? { message }

    /// The problem and the next step for the user, in English. An app in another language words it by ``kind``.
    public var message: String {
        if let denial { return denial.message }
        return switch kind {
        case .catalog, .noServer, .notRunning, .otherEnvironment:
            "The shop of this app does not work. Please look for an update of the app."
        case .offline: "There is no connection to the server. Purchases on this device are safe. Try again later."
        case .wrongPassword: "The name or the password is wrong. Check both, and try again."
        case .tooManyAttempts: "There were too many attempts. Wait a few minutes, and try again."
        case .nameTaken: "This name is taken. Choose another name, or log in if the account is yours."
        case .invalid: "This is not allowed: \(description). Change it, and try again."
        case .notAllowed: "The server does not allow this. Ask the app's support."
        case .untrusted: "The connection to the server is not secure. Check the date of this device, and the network."
        case .cancelled: "This was cancelled."
        case .logInNeeded: "You are not logged in. Log in, and try again."
        case .noToken: "Your log-in could not be checked. Try again later, or log in again."
        case .accountDeleted: "This account was deleted. Log in to another account, or create one."
        case .full: "This device has no free space. Free some space, and try again. Nothing was lost."
        case .storage where isTransient: "This device is busy with your purchases. Try again in a moment."
        case .storage: "This device cannot read or save your purchases. Restart the app, or ask the app's support."
        case .damaged: "The purchases on this device are damaged. Install the app again, then restore your purchases."
        case .newerVersion: "A newer version of this app has saved your purchases. Update the app."
        case .appStore where isTransient: "The App Store could not do this. Try again later."
        case .appStore: "This cannot be bought here. Use a device with the App Store, or ask the app's support."
        case _ where isTransient: "This did not work. Try again later."
        default: "This did not work. Please look for an update of the app, or ask the app's support."
        }
    }
}

extension ShopAccess.Denial {
    /// The reason and the next step for the user, in English.
    fileprivate var message: String {
        switch self {
        case .notPurchased: "You have not bought this yet. Buy it, and try again."
        case .usedUp: "You have used all of them. Buy more, and try again."
        case .logInNeeded: "You are not logged in. Log in, and try again."
        case .restoreNeeded: "This device does not know your purchases yet. Restore them, and try again."
        case .pendingApproval: "Your purchase awaits approval. Try again when it is approved."
        case .expired: "The time that you bought has ended. Buy more time, and try again."
        case .revoked: "Your purchase was refunded. Buy it again, or ask the app's support."
        case .unverified: "Your purchase is not confirmed yet. Connect to the internet, and restore your purchases."
        case .ownedByAnotherAccount: "Your purchase belongs to another account. Log in to that account."
        case .refusedByServer: "Your purchase could not be confirmed. Ask the app's support."
        }
    }
}

extension ShopError {
    /// Translates an error of the parts.
    init(_ error: any Error) {
        switch error {
        case let error as ShopError: self = error
        case let error as InputError: self.init(.catalog, "the catalogue: \(error)")
        case let error as AccountError: self.init(Self.kind(of: error), error.message, isTransient: error.isTransient)
        case let error as EntitlementError: self.init(entitlement: error)
        case let error as BackendError: self.init(Self.kind(ofLocal: error), error)
        case let error as TransportError: self.init(.offline, error.message, isTransient: true)
        case StoreKitFeedError.notRecorded(let cause): self.init(entitlement: cause)
        case StoreKitFeedError.appStore(let cause) where cause is CancellationError: self.init(cause)
        case let error as StoreKitFeedError: self.init(.appStore, error.description, isTransient: true)
        case is CancellationError: self.init(.cancelled, "cancelled", isTransient: true)
        default: self.init(.appStore, "the App Store: \("\(error)".singleLine)", isTransient: true)
        }
    }

    /// An account's error may be the cause of a backend's.
    private init(_ kind: Kind, _ error: BackendError) {
        if let account = error.cause as? AccountError {
            self.init(account)
        } else {
            self.init(kind, error.message, isTransient: error.disposition == .transient)
        }
    }

    private init(entitlement error: EntitlementError) {
        if let sync = error.syncError, case .backend(let cause) = sync.reason {
            self.init(sync.side == .local ? Self.kind(ofLocal: cause) : Self.kind(ofRemote: cause), cause)
        } else if let cause = error.backendError {
            let isRemote = error.kind == .sync
            self.init(isRemote ? Self.kind(ofRemote: cause) : Self.kind(ofLocal: cause), cause)
        } else {
            self.init(Self.kind(of: error), error.message, isTransient: error.isTransient)
        }
    }

    private static func kind(of error: AccountError) -> Kind {
        switch error.kind {
        case .invalidCredentials: .wrongPassword
        case .tooManyGuesses: .tooManyAttempts
        case .nameTaken: .nameTaken
        case .invalid: .invalid
        case .notAllowed: .notAllowed
        case .sessionOver: .logInNeeded
        case .unreachable: .offline
        case .server: error.isTransient ? .offline : .noServer
        case .untrusted: .untrusted
        case .cancelled: .cancelled
        case .noToken: .noToken
        default: .other
        }
    }

    private static func kind(of error: EntitlementError) -> Kind {
        switch error.kind {
        // The store on this device is suitable: only units under signed trust make a catalogue unsuitable.
        case .unknownProduct, .unknownEntitlement, .unsuitableStore: .catalog
        case .invalid, .contradiction: .invalid
        case .signInNeeded: .logInNeeded
        case .noRemote: .noServer
        case .accountErased, .unknownAccount: .accountDeleted
        case .storage: .storage
        case .damaged: .damaged
        case .newerFormat: .newerVersion
        case .sync: error.isTransient ? .offline : .other
        default: .other
        }
    }

    private static func kind(ofLocal error: BackendError) -> Kind {
        switch error.kind {
        case .full: .full
        case .damaged: .damaged
        case .newerFormat: .newerVersion
        case .cancelled: .cancelled
        default: .storage
        }
    }

    private static func kind(ofRemote error: BackendError) -> Kind {
        switch error.kind {
        case .notAStore: .noServer
        case .permissionDenied, .refused: .notAllowed
        case .newerFormat: .newerVersion
        case .cancelled: .cancelled
        default: error.disposition == .permanent ? .other : .offline
        }
    }
}
