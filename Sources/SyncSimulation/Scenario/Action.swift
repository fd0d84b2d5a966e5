/// What can happen in a run.
public enum Action: Codable, Hashable, Sendable {
    // What shoppers do, in a process of a device.

    /// Something is bought, or the same purchase is seen on another device.
    case buy(Sale)
    /// A purchase is taken back; in a store's signed words, or the app's.
    case refund(String, isSigned: Bool)
    /// A refund is reversed.
    case reinstate(String, isSigned: Bool)
    /// An entitlement is used, and a unit spent if nothing better grants it.
    case use(String, id: String)
    /// A product is marked as owned, or no longer so, without a transaction.
    case flag(String, isSet: Bool)
    /// An older system says until when a group is paid, in milliseconds since the beginning.
    case assert(group: String, until: Int64, source: String)
    /// An older system on the remote echoes the expiry that the device itself shows.
    case echo(group: String, source: String)
    /// A purchase waits for somebody's approval, or no longer.
    case `defer`(String, isWithdrawn: Bool)
    /// A later version of the software leaves records of kinds that nobody here knows.
    case writeUnknown(id: String)
    /// The device syncs.
    case sync
    /// The device restores.
    case restore
    /// Access to everything is asked for.
    case look

    // Accounts.

    /// An account is made.
    case createAccount(String)
    /// An account logs in on the device.
    case logIn(String, adoptsAnonymous: Bool)
    /// Whoever is logged in logs out.
    case logOut
    /// An account is erased, on the remote and everywhere.
    case erase(String)

    // What happens to devices.

    /// A process begins, unless it runs.
    case start
    /// A process ends before its next so manieth operation; at once for 0.
    case crash(afterOperations: Int)
    /// The device's store is copied.
    case backUp
    /// The device stops, and what was copied last takes the place of its store.
    case putBack
    /// The device stops, and its store is emptied, as by a new installation.
    case wipe
    /// The device is lost for good.
    case lose
    /// The device's own store has no room for so many milliseconds.
    case fill(Int64)
    /// The device's wall clock is moved by so many milliseconds.
    case moveClock(Int64)
    /// Messages of the device get lost for so many milliseconds: requests, answers or both.
    case cut(requests: Bool, answers: Bool, Int64)

    // What happens to the remote (a step without a device).

    /// The remote is copied.
    case backUpRemote
    /// What was copied last takes its place.
    case putBackRemote
    /// It is emptied.
    case wipeRemote
    /// Its clock is wrong by so many milliseconds, for so many.
    case moveRemoteClock(Int64, for: Int64)
    /// It has no room for so many milliseconds.
    case fillRemote(Int64)
    /// A client that lies writes to it.
    case lie(MaliciousWrite)
}

/// One purchase, as whoever saw it reports it.
public struct Sale: Codable, Hashable, Sendable {
    /// The store's id of it.
    public var transaction: String
    /// The product's id.
    public var product: String
    /// How many, 1 to 10,000.
    public var quantity: Int64
    /// When it was bought, in milliseconds since the beginning; `nil` for the device's now.
    public var date: Int64?
    /// Whether a store has signed it.
    public var isSigned: Bool

    /// A purchase.
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

/// What a client that lies does to the remote.
public enum MaliciousWrite: Codable, Hashable, Sendable {
    /// It puts an earlier content of every ledger in its place.
    case oldContent
    /// It deletes every ledger.
    case deletion
    /// It puts bytes that are no ledger in the place of every ledger for so many milliseconds.
    case garbage(Int64)
    /// It puts a document of a later format in the place of every ledger for so many milliseconds.
    case laterFormat(Int64)
    /// It says, unsigned, that every purchase that a store has signed was taken back.
    case forgedRefunds
}
