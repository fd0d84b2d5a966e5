public import Entitlements
#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// The purchase state of an app that stored a bare expiry date and ownership flags, or of another system without
/// transactions.
///
/// Pass it to ``EntitlementStore/migrate(_:group:)``. An app creates it from its own user defaults, see
/// ``init(expiry:owned:)``, or with ``parse(json:user:)``; any other system with
/// ``init(source:expiries:owned:statedAt:)``.
public struct Migration: Hashable, Sendable {
    /// The name of the source system: `userdefaults`, `parse`, …
    public var source: SourceID
    /// The dates until which the subscription is paid, according to the source. Several dates do not add up.
    public var expiries: [Timestamp]
    /// The non-consumables that are owned, according to the source.
    public var owned: [ProductID]
    /// The date of the source's statement; `nil` if unknown.
    public var statedAt: Timestamp?

    /// Creates a migration from a system's state.
    public init(
        source: SourceID, expiries: [Timestamp] = [], owned: [ProductID] = [], statedAt: Timestamp? = nil
    ) {
        self.source = source
        self.expiries = expiries
        self.owned = owned
        self.statedAt = statedAt
    }

    /// Creates a migration from the values that an app kept in its user defaults.
    ///
    /// ```swift
    /// let old = UserDefaults.standard
    /// let migration = Migration(
    ///     expiry: old.object(forKey: "ExpirationDate") as? Date,
    ///     owned: ["com.example.nightowl", "com.example.couchowl"].filter { old.bool(forKey: $0.rawValue) })
    /// try await store.migrate(migration)
    /// ```
    ///
    /// - Parameters:
    ///   - expiry: The date until which the subscription is paid, in the years 1 to 9999; `nil` for none.
    ///   - owned: The non-consumables that are owned. A product that is missing here is not revoked.
    public init(expiry: Date?, owned: [ProductID]) {
        self.init(source: "userdefaults", expiries: expiry.map { [Timestamp($0)] } ?? [], owned: owned)
    }
}
