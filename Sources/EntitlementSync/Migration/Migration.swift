public import Entitlements

/// What an app that did it the tutorials' way knows about a buyer: a bare expiry, and which products are unlocked.
/// Hand it to ``EntitlementStore/migrate(_:group:)``.
///
/// Reading is pure and takes everything or nothing. A `Migration` can also be made by hand, for any other system.
public struct Migration: Hashable, Sendable {
    /// Something that was found and cannot be migrated.
    public struct Ignored: Hashable, Sendable {
        /// Its name in the source.
        public var key: String
        /// Why not.
        public var reason: String
    }

    /// Names the system: `userdefaults`, `parse`, …
    public var source: SourceID
    /// The dates until which the subscription is paid, by the source's word. Several add nothing to each other.
    public var expiries: [Timestamp]
    /// The non-consumables that the source has as bought.
    public var owned: [ProductID]
    /// As of when the source says so; `nil` when it does not tell.
    public var statedAt: Timestamp?
    /// What looks like a purchase and is left out.
    public var ignored: [Ignored]
    /// How much else there was, which has nothing to do with purchases.
    public var otherCount: Int

    /// What a system says about a buyer.
    public init(
        source: SourceID, expiries: [Timestamp] = [], owned: [ProductID] = [], statedAt: Timestamp? = nil
    ) {
        self.source = source
        self.expiries = expiries
        self.owned = owned
        self.statedAt = statedAt
        ignored = []
        otherCount = 0
    }
}

extension Migration {
    /// The key of the expiry, in user defaults and in Parse.
    static let expiryKey = "ExpirationDate"

    /// Reads the user defaults of an app: `ExpirationDate`, a date, and for each product a Bool whose key is the
    /// product's id.
    ///
    /// `true` means bought; `false` means nothing, it takes nothing back. A Bool that is no product of `catalog` is
    /// ``ignored``, and so is what user defaults say of units and subscriptions besides the date. Other keys are
    /// counted.
    ///
    /// An app reads its own like this:
    ///
    /// ```swift
    /// let bytes = try PropertyListSerialization.data(
    ///     fromPropertyList: UserDefaults.standard.dictionaryRepresentation(), format: .binary, options: 0)
    /// let migration = try Migration.userDefaults(propertyList: bytes, catalog: store.catalog)
    /// try await store.migrate(migration)
    /// ```
    ///
    /// - Parameters:
    ///   - propertyList: a property list, XML or binary, of at most 16 MiB.
    ///   - catalog: what is sold.
    /// - Throws: `InputError` with the place of what is no property list, or the key whose value is of a wrong type.
    public static func userDefaults(propertyList: some Collection<UInt8>, catalog: Catalog) throws(InputError)
        -> Migration
    {
        let values = try PropertyList(Array(propertyList)).values
        var migration = Migration(source: "userdefaults")
        for (key, value) in values.sorted(by: { $0.key < $1.key }) {
            if key == ProductID(expiryKey) {
                guard case .date(let date) = value else {
                    throw InputError(path: expiryKey, reason: "a date is expected, not \(value.typeName)")
                }
                migration.expiries.append(date)
            } else {
                try migration.add(key, value, catalog: catalog)
            }
        }
        return migration
    }

    private mutating func add(_ key: ProductID, _ value: PropertyList.Value, catalog: Catalog) throws(InputError) {
        let name = key.rawValue.singleLine
        switch catalog[product: key]?.kind {
        case .nonConsumable:
            guard case .bool(let isOwned) = value else {
                throw InputError(path: name, reason: "true or false is expected, not \(value.typeName)")
            }
            if isOwned { owned.append(key) }
        case .consumable:
            ignored.append(Ignored(key: name, reason: "units without a transaction are not migrated"))
        case .nonRenewing, .autoRenewable:
            ignored.append(Ignored(key: name, reason: "a subscription is migrated by its \(Self.expiryKey)"))
        case nil:
            guard case .bool = value else {
                otherCount += 1
                return
            }
            ignored.append(Ignored(key: name, reason: "the catalogue has no such product"))
        }
    }
}
