import Entitlements

/// The owner of a ledger: a named account, or the anonymous one.
///
/// An account has an *incarnation*. An account that was erased and created again under the same name has a new
/// incarnation, and no data of the old one reaches the new one. The incarnation is part of every key.
public struct Account: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The name, 1 to 255 bytes without control characters; `nil` for the anonymous account.
    ///
    /// A server accepts new names without surrounding spaces or invisible characters, and stores them in composed form
    /// (NFC). The server treats names that differ by case, or by the form of the same letters, as one account. Use the
    /// name in its answer.
    public let name: String?
    /// The incarnation, which distinguishes successive accounts of the same name.
    public let incarnation: String

    /// The anonymous account. Its purchases stay in a ledger on this device, which is never synced.
    public static let anonymous = Account(unchecked: nil, incarnation: "")

    /// The incarnation of an account to which no server has assigned one.
    public static let initialIncarnation = "initial"

    /// Creates an account value. This does not create the account itself, see ``EntitlementStore/createAccount(_:)``.
    ///
    /// - Parameters:
    ///   - name: The name, 1 to 255 bytes without control characters.
    ///   - incarnation: The incarnation, 1 to 255 bytes without control characters.
    /// - Throws: ``EntitlementError`` of kind ``EntitlementError/Kind/invalid`` if the name or the incarnation is
    ///   empty, too long, or has control characters, or if the name is `anonymous`.
    public init(_ name: String, incarnation: String = Account.initialIncarnation) throws(EntitlementError) {
        do {
            try Identifier<Account>(name).validate()
            try Identifier<Account>(incarnation).validate()
        } catch {
            let isLong = name.utf8.count > maximumIdentifierByteCount
            throw EntitlementError(
                .invalid,
                isLong ? "the account name is too long; choose a shorter one" : "account name: \(error)")
        }
        guard name != "anonymous" else {
            throw EntitlementError(.invalid, "an account cannot be named \"anonymous\": the name is reserved")
        }
        self.init(unchecked: name, incarnation: incarnation)
    }

    private init(unchecked name: String?, incarnation: String) {
        self.name = name
        self.incarnation = incarnation
    }

    /// True for the anonymous account.
    public var isAnonymous: Bool { name == nil }

    /// The name, or `anonymous`.
    public var description: String { name ?? "anonymous" }

    /// Compares the bytes of name and incarnation.
    public static func == (left: Account, right: Account) -> Bool {
        left.identity == right.identity
    }

    /// Orders the anonymous account first, then by name, then by incarnation, byte by byte.
    public static func < (left: Account, right: Account) -> Bool {
        left.identity.lexicographicallyPrecedes(right.identity)
    }

    /// Hashes the bytes of name and incarnation.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(identity)
    }

    private var identity: [Identifier<Account>] {
        [Identifier(name ?? ""), Identifier(incarnation)]
    }
}
