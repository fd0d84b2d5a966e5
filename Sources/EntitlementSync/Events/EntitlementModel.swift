public import Entitlements
public import Observation
import SyncCore

/// An observable model for a shop page: one row per product with the offer to show, kept up to date.
///
/// ```swift
/// @State private var entitlements = EntitlementModel(store)
/// // …
/// List(entitlements.rows) { row in ProductRow(row) }.task { await entitlements.run() }
/// ```
@MainActor
@Observable
public final class EntitlementModel {
    /// A product and its current offer.
    public struct Row: Hashable, Sendable, Identifiable {
        /// The product.
        public var product: Product
        /// The offer for the product.
        public var offer: Offer

        /// The product's id.
        public var id: ProductID { product.id }
    }

    /// The offer to show for a product.
    public enum Offer: Hashable, Sendable {
        /// The product requires an account, and no account is logged in.
        case signIn
        /// The account's purchases have never been fetched to this device. Restore them first, to avoid a duplicate
        /// purchase.
        case restore
        /// A one-time purchase. For a consumable, `unitsLeft` is the current balance; otherwise it is `nil`.
        case buy(unitsLeft: Int64?)
        /// A first or renewed subscription: the product's group is not active.
        case subscribe
        /// An extension of an active group. A purchase now is appended to the current end.
        case renew(until: Timestamp, daysRemaining: Int)
        /// An active subscription that its store renews. `willRenew` is `nil` if the store did not report it.
        case subscribed(until: Timestamp, daysRemaining: Int, willRenew: Bool?)
        /// A switch from the active product of a group that a store renews: an upgrade or a downgrade.
        case change(from: ProductID)
        /// The product is owned permanently, or its group is active for good, so that a purchase would add nothing.
        case owned
        /// The purchase awaits approval.
        case pending
    }

    /// One row for each product that is for sale, owned or pending, in the catalogue's order.
    public private(set) var rows: [Row] = []
    /// The latest snapshot; `nil` until ``run()`` or ``refresh()`` has read the store.
    public private(set) var snapshot: Snapshot?
    /// The error of the last attempt to read the store; `nil` after a success.
    public private(set) var failure: EntitlementError?

    @ObservationIgnored private let store: EntitlementStore

    /// Creates a model of `store`. It is empty until ``run()`` or ``refresh()`` has read the store.
    public init(_ store: EntitlementStore) {
        self.store = store
    }

    /// Keeps the rows up to date until the task is cancelled. This does not sync; run
    /// ``EntitlementStore/run(pollingEvery:noticeBeforeExpiry:)`` as well.
    ///
    /// If the store cannot be read, ``failure`` is set and the read is retried with exponential back-off, from one
    /// second up to a minute.
    public func run() async {
        var failures = 0
        while !Task.isCancelled {
            do {
                for await snapshot in try await store.snapshots() {
                    failures = 0
                    show(snapshot)
                }
                return
            } catch {
                if Task.isCancelled { return }
                failure = error
                failures += 1
            }
            let pause = Duration.seconds(min(60, 1 << min(failures - 1, 6)))
            // The sleep throws only on cancellation, which the loop condition checks.
            do { try await store.host.sleep(for: pause) } catch {}
        }
    }

    /// Reads the store once. Sets ``failure`` if that fails.
    public func refresh() async {
        do { show(try await store.snapshot()) } catch { if !Task.isCancelled { failure = error } }
    }

    private func show(_ snapshot: Snapshot) {
        failure = nil
        self.snapshot = snapshot
        rows = store.catalog.products.compactMap { product in
            let offer = offer(for: product, in: snapshot)
            let isHeld = offer == .owned && Self.isHeld(product.id, in: snapshot)
            return product.isForSale || isHeld || offer == .pending ? Row(product: product, offer: offer) : nil
        }
    }

    /// Returns `true` if a purchase of the product itself is owned or never ends.
    private static func isHeld(_ product: ProductID, in snapshot: Snapshot) -> Bool {
        snapshot.owned.contains(product)
            || snapshot.subscriptions.contains { $0.periods.contains { $0.product == product && $0.end == .latest } }
    }

    private func offer(for product: Product, in snapshot: Snapshot) -> Offer {
        if snapshot.owned.contains(product.id) { return .owned }
        if snapshot.pending.contains(product.id) { return .pending }
        if product.requiresAccount, !snapshot.context.isSignedIn { return .signIn }
        let subscription = product.kind.group.flatMap { snapshot[group: $0] }
        if subscription?.isActiveForGood == true { return .owned }
        if let subscription, subscription.isActive, let end = subscription.expires {
            return offer(for: product, in: subscription, until: end, at: snapshot.at)
        }
        if !snapshot.context.hasRestored { return .restore }
        if product.kind.group != nil { return .subscribe }
        if case .consumable = product.kind { return .buy(unitsLeft: snapshot[balance: product.id]) }
        return .buy(unitsLeft: nil)
    }

    private func offer(
        for product: Product, in subscription: Snapshot.Subscription, until end: Timestamp, at now: Timestamp
    ) -> Offer {
        guard case .autoRenewable = product.kind else {
            return .renew(until: end, daysRemaining: subscription.daysRemaining)
        }
        if let current = subscription.product, current != product.id {
            // Time that support gave away is no subscription that could be changed.
            let isGift = subscription.periods.contains { period in
                period.product == current && period.contains(now) && period.transaction?.store == .support
            }
            return isGift ? .subscribe : .change(from: current)
        }
        return .subscribed(
            until: end, daysRemaining: subscription.daysRemaining, willRenew: subscription.renewal?.willRenew)
    }
}
