import EntitlementSync
import Entitlements

extension Shop {
    /// The access to every entitlement of the catalogue, for views. Empty until ``run()`` or ``refresh()`` has read the
    /// purchases, and updated by both. While ``run()`` runs, it also changes when time passes.
    ///
    /// ```swift
    /// if shop.access["night-owls"]?.isGranted == true { … }
    /// ```
    ///
    /// After a failure the last values stay.
    public var access: [String: ShopAccess] { opened?.model.snapshot.map { ShopAccess.all(in: $0) } ?? [:] }

    /// Returns the access to an entitlement, now and without a network.
    ///
    /// A thrown error is not a denial: an app that cannot read the purchases keeps its last answer.
    ///
    /// - Throws: ``ShopError``. Its kind is `catalog` if the catalogue lacks the entitlement.
    public func access(to entitlement: String) async throws(ShopError) -> ShopAccess {
        try await whileOpen { ShopAccess(try await $0.store.entitlementAccess(to: EntitlementID(entitlement))) }
    }

    /// Returns the access to every entitlement of the catalogue, now and without a network.
    ///
    /// - Throws: ``ShopError``.
    public func allAccess() async throws(ShopError) -> [String: ShopAccess] {
        try await whileOpen { ShopAccess.all(in: try await $0.store.snapshot()) }
    }

    /// Uses an entitlement once. A subscription or an ownership covers the use; without one, the use spends a unit.
    ///
    /// The spend is durable on this device when this returns, and needs no network.
    ///
    /// - Parameters:
    ///   - entitlement: The entitlement to use.
    ///   - id: The id of this use, at most 255 bytes. One id spends at most one unit, so an interrupted call can be
    ///     repeated. `nil` for a random id.
    /// - Returns: The access after the use, with the ``ShopAccess/units`` that are left. After the last unit it is
    ///   denied as `usedUp`, with 0 units.
    /// - Throws: ``ShopError``. Its kinds:
    ///   - `denied`: Nothing covers the use, and nothing was spent. ``ShopError/denial`` has the reason, for example
    ///     `usedUp`.
    ///   - `catalog`: The catalogue lacks the entitlement.
    ///   - `invalid`: The id is malformed, or has spent a unit of another entitlement.
    ///   - `full` or `storage`: The spend could not be saved.
    @discardableResult
    public func use(_ entitlement: String, id: String? = nil) async throws(ShopError) -> ShopAccess {
        try await whileOpen { opened in
            let name = EntitlementID(entitlement)
            let outcome = try await opened.store.use(name, id: id.map { SpendID($0) })
            if case .denied(let reason) = outcome { throw ShopError(ShopAccess.Denial(reason), of: entitlement) }
            await opened.model.refresh()
            return ShopAccess(try await opened.store.entitlementAccess(to: name))
        }
    }
}
