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
    /// A sync fetches a grant when it is the first of a store object, when the facts have changed or grant more than
    /// the server has confirmed, and when half of the grant's life has passed. Without a connection access ends when
    /// the grant expires and the grace has passed, although `Access.Grant.until` is the end of the purchase. Without an
    /// account nothing is granted. A purchase that no grant confirms is denied as `unverified`.
    ///
    /// The grant limits `Snapshot.access`, ``EntitlementStore/access(to:)`` and ``EntitlementStore/use(_:id:)``. The
    /// periods, products and balances of a `Snapshot`, and the rows of an ``EntitlementModel``, are those of the facts.
    ///
    /// The server must run with the policy `verified`; otherwise it signs what devices claim. Catalogues in which units
    /// grant access are refused, and so is ``ClockSource/host``.
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
    /// Throws if no grant can confirm what the catalogue grants, or if the clock could be set back.
    func check(_ catalog: Catalog, _ clock: ClockSource) throws(EntitlementError) {
        guard verifier != nil else { return }
        guard clock == .trusted else {
            throw EntitlementError(.invalid, "trust: signed grants need the trusted clock")
        }
        let hasUnits = catalog.entitlements.contains { entitlement in
            entitlement.grantedBy.contains { if case .units = $0 { true } else { false } }
        }
        guard hasUnits else { return }
        throw EntitlementError(
            .unsuitableStore,
            "trust: a grant cannot confirm units, which devices spend: use a catalogue in which no units grant access")
    }
}
