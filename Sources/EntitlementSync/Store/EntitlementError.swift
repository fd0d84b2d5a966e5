public import SyncCore

/// The store could not do what it was asked. Bad input changed nothing; an interrupted sync may have got half way.
public struct EntitlementError: Error, Sendable, CustomStringConvertible {
    /// What went wrong. More kinds may come; switch with a default.
    public struct Kind: Hashable, Sendable, CustomStringConvertible {
        private enum Code: String {
            case unknownProduct, unknownEntitlement, invalid, contradiction, ledgerFull, signInNeeded, noRemote
            case unknownAccount, accountErased, refused
            case unsuitableStore, storage, damaged, newerFormat, sync
        }
        private let code: Code

        /// The catalogue has no product of this id.
        public static let unknownProduct = Kind(code: .unknownProduct)
        /// The catalogue has no entitlement of this id.
        public static let unknownEntitlement = Kind(code: .unknownEntitlement)
        /// An argument is out of range or malformed.
        public static let invalid = Kind(code: .invalid)
        /// The transaction is already recorded, with other contents.
        public static let contradiction = Kind(code: .contradiction)
        /// The ledger has reached `LedgerLimits.standard`.
        public static let ledgerFull = Kind(code: .ledgerFull)
        /// Syncing is for accounts, and nobody is signed in.
        public static let signInNeeded = Kind(code: .signInNeeded)
        /// The store was made without a remote.
        public static let noRemote = Kind(code: .noRemote)
        /// There is no account of this name, as far as can be known now.
        public static let unknownAccount = Kind(code: .unknownAccount)
        /// The account was erased. Nothing of it is left, and nothing can be recorded for it.
        public static let accountErased = Kind(code: .accountErased)
        /// The remote does not let a device do this; the message says who can.
        public static let refused = Kind(code: .refused)
        /// A backend lacks what a ledger needs of it.
        public static let unsuitableStore = Kind(code: .unsuitableStore)
        /// The local store failed.
        public static let storage = Kind(code: .storage)
        /// A document in the local store cannot be read. It was left as it is.
        public static let damaged = Kind(code: .damaged)
        /// A document in the local store was written by a later version of this software. It was left as it is.
        public static let newerFormat = Kind(code: .newerFormat)
        /// A sync could not be finished; what was recorded is safe on this device.
        public static let sync = Kind(code: .sync)

        /// The kind's name.
        public var description: String { code.rawValue }
    }

    /// What went wrong.
    public let kind: Kind
    /// One line for a person: what is wrong and what to do.
    public let message: String
    /// The backend's error, when one is behind this.
    public let backendError: BackendError?
    /// The engine's error, for kind ``Kind/sync``.
    public let syncError: SyncError?

    init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
        backendError = nil
        syncError = nil
    }

    init(_ error: BackendError) {
        kind =
            switch error.kind {
            case .damaged: .damaged
            case .newerFormat: .newerFormat
            case .invalidKey: .invalid
            default: .storage
            }
        message = "local store: \(error)"
        backendError = error
        syncError = nil
    }

    /// The remote keeps its accounts itself, and does not let a device do `what`.
    init(refusedBy remote: String, _ what: String, _ error: BackendError) {
        kind = .refused
        message = "\(remote) \(what) (\(error.message))"
        backendError = error
        syncError = nil
    }

    /// The remote failed outside of a sync.
    init(remote error: BackendError) {
        kind = .sync
        message = "remote store: \(error)"
        backendError = error
        syncError = nil
    }

    init(_ error: SyncError) {
        kind = .sync
        message = "\(error)"
        backendError = nil
        syncError = error
    }

    /// Whether the same call may succeed later.
    public var isTransient: Bool {
        syncError?.isTransient ?? (backendError.map { $0.disposition != .permanent } ?? false)
    }

    /// The message.
    public var description: String { message }
}
