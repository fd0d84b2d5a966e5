package import Entitlements
public import SyncCore

/// An error that an ``EntitlementStore`` throws.
///
/// Invalid input changes nothing. An interrupted sync may have completed in part; repeating it is safe.
public struct EntitlementError: Error, Sendable, CustomStringConvertible {
    /// The category of an ``EntitlementError``. New kinds may be added, so a `switch` needs a default case.
    public struct Kind: Hashable, Sendable, CustomStringConvertible {
        private enum Code: String {
            case unknownProduct, unknownEntitlement, invalid, contradiction, ledgerFull, signInNeeded, noRemote
            case unknownAccount, accountErased, refused
            case unsuitableStore, storage, damaged, newerFormat, sync
        }
        private let code: Code

        /// The catalogue has no product or group with this id.
        public static let unknownProduct = Kind(code: .unknownProduct)
        /// The catalogue has no entitlement with this id.
        public static let unknownEntitlement = Kind(code: .unknownEntitlement)
        /// An argument is out of range or malformed.
        public static let invalid = Kind(code: .invalid)
        /// The transaction is already recorded with different contents.
        public static let contradiction = Kind(code: .contradiction)
        /// The ledger has reached `LedgerLimits.standard`.
        public static let ledgerFull = Kind(code: .ledgerFull)
        /// Syncing needs an account, and no account is logged in.
        public static let signInNeeded = Kind(code: .signInNeeded)
        /// The store has no remote.
        public static let noRemote = Kind(code: .noRemote)
        /// No account with this name is known.
        public static let unknownAccount = Kind(code: .unknownAccount)
        /// The account was erased. None of its data is left, and nothing can be recorded for it.
        public static let accountErased = Kind(code: .accountErased)
        /// The remote does not permit devices to do this. The message names the alternative.
        public static let refused = Kind(code: .refused)
        /// A backend lacks a capability that the store needs.
        public static let unsuitableStore = Kind(code: .unsuitableStore)
        /// The local store failed.
        public static let storage = Kind(code: .storage)
        /// A document in the local store cannot be decoded. It was left unchanged.
        public static let damaged = Kind(code: .damaged)
        /// A document in the local store was written by a later version of this software. It was left unchanged.
        public static let newerFormat = Kind(code: .newerFormat)
        /// A sync did not finish, or another request to the remote failed. All recorded facts are safe on this device.
        public static let sync = Kind(code: .sync)

        /// The kind's name.
        public var description: String { code.rawValue }
    }

    /// The category of the error.
    public let kind: Kind
    /// One line for a person: the problem and its remedy.
    public let message: String
    /// The backend's error that caused this one, if any.
    public let backendError: BackendError?
    /// The sync engine's error that caused this one, for ``Kind/sync``.
    public let syncError: SyncError?

    private init(_ kind: Kind, _ message: String, _ backendError: BackendError?, _ syncError: SyncError? = nil) {
        (self.kind, self.message, self.backendError, self.syncError) = (kind, message, backendError, syncError)
    }

    package init(_ kind: Kind, _ message: String) { self.init(kind, message, nil) }

    package init(_ error: BackendError) {
        let kind: Kind =
            switch error.kind {
            case .damaged: .damaged
            case .newerFormat: .newerFormat
            case .invalidKey: .invalid
            default: .storage
            }
        self.init(kind, "local store: \(error)", error)
    }

    package init(_ error: RecordingError) {
        let kind: Kind =
            switch error.kind {
            case .unknownProduct: .unknownProduct
            case .unknownEntitlement: .unknownEntitlement
            case .invalid: .invalid
            case .contradiction: .contradiction
            case .ledgerFull: .ledgerFull
            }
        self.init(kind, error.message)
    }

    init(_ error: SyncError) { self.init(.sync, "\(error)", nil, error) }

    /// Creates an error of kind ``Kind/refused``: `remote` manages its accounts itself and does not permit `what`.
    init(refusedBy remote: String, _ what: String, _ error: BackendError) {
        self.init(.refused, "\(remote) \(what) (\(error.message))", error)
    }

    /// Creates an error for a request to the remote that was not part of a sync.
    init(remote error: BackendError) { self.init(.sync, "remote store: \(error)", error) }

    /// Translates the error of an act on the remote that was not part of a sync.
    init(remoteAct error: any Error) {
        switch error {
        case let error as EntitlementError: self = error
        case let error as SyncError: self.init(error)
        case let error as BackendError: self.init(remote: error)
        default: self.init(.sync, "remote store: \(error)")
        }
    }

    /// True if the same call may succeed later.
    public var isTransient: Bool {
        syncError?.isTransient ?? (backendError.map { $0.disposition != .permanent } ?? false)
    }

    /// The time after which the remote asks to be called again; `nil` if it asks for none.
    package var retryAfter: Duration? {
        if case .backend(let error) = syncError?.reason { return error.retryAfter }
        return backendError?.retryAfter
    }

    /// The error's message.
    public var description: String { message }
}

extension EntitlementError: BackendFailure {}

/// Calls `request`, an access to the local store, and translates its error.
func inLocalStore<Value>(
    _ request: @autoclosure () async throws(BackendError) -> Value
) async throws(EntitlementError) -> Value {
    do { return try await request() } catch { throw EntitlementError(error) }
}

/// Evaluates `value`, a key or a result of the local store, and translates its error.
func ofLocalStore<Value>(_ value: @autoclosure () throws(BackendError) -> Value) throws(EntitlementError) -> Value {
    do { return try value() } catch { throw EntitlementError(error) }
}
