/// An event that a scenario can schedule.
public enum Action: Codable, Hashable, Sendable {
    // Actions of shoppers, in a process of a device.

    /// A purchase is made, or the same purchase is seen on another device.
    case buy(Sale)
    /// A purchase is refunded, as stated by a store's signature or by the app.
    case refund(String, isSigned: Bool)
    /// A refund is reversed.
    case reinstate(String, isSigned: Bool)
    /// An entitlement is used, spending a unit if nothing else grants it.
    case use(String, id: String)
    /// The flag of a product is set or cleared, without a transaction.
    case flag(String, isSet: Bool)
    /// An older system asserts the date until which a group is paid, in milliseconds since the start of the run.
    case assert(group: String, until: Int64, source: String)
    /// An older system on the remote echoes the expiry that the device itself shows.
    case echo(group: String, source: String)
    /// A purchase starts to wait for approval, or no longer does.
    case `defer`(String, isWithdrawn: Bool)
    /// A later version of the software writes a record of a kind that this version does not know.
    case writeUnknown(id: String)
    /// The device records evidence that the store signed, or restores and presents it.
    case present(StoreStatement, isRestore: Bool)
    /// The device records evidence that it takes for genuine, although the store did not sign it.
    case forge(StoreStatement)
    /// The device syncs.
    case sync
    /// The device restores.
    case restore
    /// Access to all entitlements is read.
    case look

    // Accounts.

    /// An account is created.
    case createAccount(String)
    /// An account logs in on the device.
    case logIn(String, adoptsAnonymous: Bool)
    /// The current account logs out.
    case logOut
    /// An account is erased, on the remote and everywhere.
    case erase(String)

    // Faults of devices.

    /// A process starts, unless it is running.
    case start
    /// A process crashes before the operation with this number; immediately for 0.
    case crash(afterOperations: Int)
    /// The device's store is copied.
    case backUp
    /// The device stops, and its last backup replaces its store.
    case putBack
    /// The device stops, and its store is emptied, as after a new installation.
    case wipe
    /// The device is lost permanently.
    case lose
    /// The device's own store is full for this many milliseconds.
    case fill(Int64)
    /// The device's wall clock is moved by this many milliseconds.
    case moveClock(Int64)
    /// The device is partitioned for this many milliseconds: its requests, its answers or both are lost.
    case cut(requests: Bool, answers: Bool, Int64)

    // Faults of the remote (steps without a device).

    /// The remote is copied.
    case backUpRemote
    /// The last backup replaces its contents.
    case putBackRemote
    /// It is emptied.
    case wipeRemote
    /// Its clock is wrong by this many milliseconds, for a duration in milliseconds.
    case moveRemoteClock(Int64, for: Int64)
    /// It is full for this many milliseconds.
    case fillRemote(Int64)
    /// The primary of its cluster is killed: at once for 0, otherwise while the write with this number is under way.
    /// The promotion of the standby takes this many milliseconds. Nothing happens without a cluster.
    case failOver(afterWrites: Int, promotion: Int64)
    /// The primary of its cluster becomes read-only with its connections open, and the standby takes over. The
    /// promotion takes this many milliseconds. Nothing happens without a cluster.
    case switchOver(promotion: Int64)
    /// A malicious client writes to it.
    case lie(MaliciousWrite)
    /// The store notifies the server of a statement that it signed.
    case notify(StoreStatement)
    /// A client of an account states something false.
    case claim(ClientClaim, account: String)
}

/// One purchase, as its shopper reports it.
public struct Sale: Codable, Hashable, Sendable {
    /// The store's id of the transaction.
    public var transaction: String
    /// The product's id.
    public var product: String
    /// The quantity, 1 to 10,000.
    public var quantity: Int64
    /// The date of purchase in milliseconds since the start of the run; `nil` for the device's present time.
    public var date: Int64?
    /// True if a store signed the purchase.
    public var isSigned: Bool

    /// Creates a purchase.
    public init(
        _ transaction: String, of product: String, quantity: Int64 = 1, date: Int64? = nil, isSigned: Bool = false
    ) {
        self.transaction = transaction
        self.product = product
        self.quantity = quantity
        self.date = date
        self.isSigned = isSigned
    }
}

/// An attack of a malicious client on the remote.
public enum MaliciousWrite: Codable, Hashable, Sendable {
    /// Replaces every ledger with an earlier version of it.
    case oldContent
    /// Deletes every ledger.
    case deletion
    /// Replaces every ledger with bytes that are not a ledger, for this many milliseconds.
    case garbage(Int64)
    /// Replaces every ledger with a document of a later format, for this many milliseconds.
    case laterFormat(Int64)
    /// States, without a signature, that every signed purchase was refunded.
    case forgedRefunds
}
