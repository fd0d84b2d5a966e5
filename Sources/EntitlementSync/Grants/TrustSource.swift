public import Entitlements

/// The authority that decides which facts on a device grant access.
public struct TrustSource: Sendable {
    let verifier: (any GrantVerifier)?
    /// The time after the expiry of a grant for which it still counts, in milliseconds.
    let grace: Int64

    /// The facts in the local store, as they are. The default: right for apps that trust their users' devices.
    public static let ledger = TrustSource(verifier: nil, grace: 0)

    /// The facts in the local store, as far as an unexpired grant that the account's server signed for this device
    /// confirms them.
    ///
    /// A sync fetches a grant when the facts have changed, and when half of the grant's life has passed. Without a
    /// connection access ends when the grant expires and the grace has passed. Without an account nothing is granted.
    ///
    /// The grant limits `Snapshot.access`, ``EntitlementStore/access(to:)`` and ``EntitlementStore/use(_:id:)``. The
    /// periods, products and balances of a `Snapshot` are those of the facts.
    ///
    /// - Parameters:
    ///   - verifier: The verifier with the app's pinned root keys, for example `GrantRoots`.
    ///   - grace: The time after the expiry of a grant for which a device without a connection keeps access. Whole
    ///     milliseconds, 0 to 366 days; others are clamped. The default is 3 days.
    public static func signed(by verifier: any GrantVerifier, grace: Duration = .seconds(259_200)) -> TrustSource {
        TrustSource(verifier: verifier, grace: min(max(0, grace.milliseconds), 366 * 86_400_000))
    }
}

extension TrustSource {
    /// Throws if the server cannot confirm what the catalogue grants.
    func check(_ catalog: Catalog) throws(EntitlementError) {
        let hasUnits = catalog.entitlements.contains { entitlement in
            entitlement.grantedBy.contains { if case .units = $0 { true } else { false } }
        }
        guard verifier != nil, hasUnits, catalog.policy.rules.consumables == .deviceLocal else { return }
        throw EntitlementError(
            .unsuitableStore,
            "trust: a server cannot confirm units that count on one device: put \"consumables\": \"shared\" into the "
                + "policy of the catalogue")
    }
}
