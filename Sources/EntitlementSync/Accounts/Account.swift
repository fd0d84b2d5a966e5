import Entitlements

/// Whose ledger a store keeps.
///
/// An account has an *incarnation*: an account that was erased and made anew under its old name is another one, and
/// nothing of the first may reach the second. The incarnation is part of every key.
public struct Account: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The name, 1 to 255 bytes without control characters; `nil` for nobody. A server takes fewer names for new ones:
    /// those without spaces at their ends or characters that are not seen, composed (NFC).
    public let name: String?
    /// Which life of the account this is.
    public let incarnation: String

    /// Nobody: purchases stay in a ledger of this device, which is never synced, until somebody signs in.
    public static let anonymous = Account(unchecked: nil, incarnation: "")

    /// The incarnation of an account that no server has given one.
    public static let initialIncarnation = "initial"

    /// The account called `name`.
    ///
    /// - Throws: ``EntitlementError`` of kind ``EntitlementError/Kind/invalid`` when the name or the incarnation is
    ///   empty, longer than 255 bytes, or has control characters, and when the name is `anonymous`.
    public init(_ name: String, incarnation: String = Account.initialIncarnation) throws(EntitlementError) {
        do {
            try Identifier<Account>(name).validate()
            try Identifier<Account>(incarnation).validate()
        } catch {
            throw EntitlementError(.invalid, "an account's name is like an id: \(error)")
        }
        guard name != "anonymous" else {
            throw EntitlementError(.invalid, "no account is called \"anonymous\": that is the ledger of nobody")
        }
        self.init(unchecked: name, incarnation: incarnation)
    }

    private init(unchecked name: String?, incarnation: String) {
        self.name = name
        self.incarnation = incarnation
    }

    /// Whether this is nobody.
    public var isAnonymous: Bool { name == nil }

    /// The name, or `anonymous`.
    public var description: String { name ?? "anonymous" }

    /// Whether both are the same account, byte by byte.
    public static func == (left: Account, right: Account) -> Bool {
        left.identity == right.identity
    }

    /// Whether `left` comes first: nobody, then by name, then by incarnation, byte by byte.
    public static func < (left: Account, right: Account) -> Bool {
        left.identity.lexicographicallyPrecedes(right.identity)
    }

    /// Hashes the name's bytes.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(identity)
    }

    private var identity: [Identifier<Account>] {
        [Identifier(name ?? ""), Identifier(incarnation)]
    }
}
