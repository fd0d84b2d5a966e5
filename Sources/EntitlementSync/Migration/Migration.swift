public import Entitlements

/// The purchase state of an app that stored a bare expiry date and ownership flags, or of another system without
/// transactions.
///
/// Pass it to ``EntitlementStore/migrate(_:group:)``. Read it with ``userDefaults(propertyList:catalog:)`` or
/// ``parse(json:user:)``, or create it for any other system. Reading is all or nothing and has no side effects.
public struct Migration: Hashable, Sendable {
    /// A value that was found and cannot be migrated.
    public struct Ignored: Hashable, Sendable {
        /// The value's name in the source.
        public var key: String
        /// The reason for leaving it out.
        public var reason: String
    }

    /// The name of the source system: `userdefaults`, `parse`, …
    public var source: SourceID
    /// The dates until which the subscription is paid, according to the source. Several dates do not add up.
    public var expiries: [Timestamp]
    /// The non-consumables that are owned, according to the source.
    public var owned: [ProductID]
    /// The date of the source's statement; `nil` if unknown.
    public var statedAt: Timestamp?
    /// Values that look like purchases and cannot be migrated.
    public var ignored: [Ignored]
    /// The number of other values, which are unrelated to purchases.
    public var otherCount: Int

    /// Creates a migration from a system's state.
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
    /// The key of the expiry date, in user defaults and in Parse.
    static let expiryKey = "ExpirationDate"

    /// Reads the user defaults of an app: the date `ExpirationDate`, and for each owned product a Boolean whose key is
    /// the product id.
    ///
    /// `true` means owned. `false` has no effect and revokes nothing. A Boolean whose key is not a product of `catalog`
    /// is ``ignored``, and so are values for consumables and subscriptions. Other keys are only counted.
    ///
    /// An app reads its own user defaults like this:
    ///
    /// ```swift
    /// let bytes = try PropertyListSerialization.data(
    ///     fromPropertyList: UserDefaults.standard.dictionaryRepresentation(), format: .binary, options: 0)
    /// let migration = try Migration.userDefaults(propertyList: bytes, catalog: store.catalog)
    /// try await store.migrate(migration)
    /// ```
    ///
    /// - Parameters:
    ///   - propertyList: An XML or binary property list of at most 16 MiB.
    ///   - catalog: The products for sale.
    /// - Throws: `InputError` with the position of a syntax error, or the key whose value has the wrong type.
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
