public import Entitlements
public import Observation
import SyncCore

/// The purchases of a store as rows for a shop page: what to offer for each product, kept current.
///
/// ```swift
/// @State private var entitlements = EntitlementModel(store)
/// // …
/// List(entitlements.rows) { row in ProductRow(row) }.task { await entitlements.run() }
/// ```
@MainActor
@Observable
public final class EntitlementModel {
    /// What to offer for one product.
    public struct Row: Hashable, Sendable, Identifiable {
        /// The product.
        public var product: Product
        /// What to offer.
        public var offer: Offer

        /// The product's id.
        public var id: ProductID { product.id }
    }

    /// What to offer for a product.
    public enum Offer: Hashable, Sendable {
        /// It is sold to accounts, and nobody is signed in.
        case signIn
        /// The account's purchases have never been fetched to this device: whoever buys now may buy twice.
        case restore
        /// Something to own, or units of which so many are left.
        case buy(unitsLeft: Int64?)
        /// Time in a group in which nothing is active.
        case subscribe
        /// Time in a group that is active until then; buying now is appended.
        case renew(until: Timestamp, daysRemaining: Int)
        /// A subscription that its store renews, active until then; `willRenew` is `nil` when the store did not say.
        case subscribed(until: Timestamp, daysRemaining: Int, willRenew: Bool?)
        /// Another product of a group that a store renews is active: buying this one is an upgrade or a downgrade.
        case change(from: ProductID)
        /// Owned for good.
        case owned
        /// Asked for, and waiting for somebody's approval.
        case pending
    }

    /// A row for each product that is for sale, owned or pending, in the catalogue's order.
    public private(set) var rows: [Row] = []
    /// All that holds; `nil` until ``run()`` has read it.
    public private(set) var snapshot: Snapshot?
    /// Why reading failed, when it did.
    public private(set) var failure: EntitlementError?

    @ObservationIgnored private let store: EntitlementStore

    /// A model of `store`. Empty until ``run()`` runs.
    public init(_ store: EntitlementStore) {
        self.store = store
    }

    /// Keeps the rows current until the task is cancelled. The store's own `run` syncs; this only shows.
    ///
    /// When the store cannot be read, ``failure`` says why, and it is tried again: at first after a second, then after
    /// twice as long each time up to a minute.
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
            // Sleeping ends early only by cancellation, which the loop looks at.
            do { try await store.host.sleep(for: pause) } catch {}
        }
    }

    /// Reads the store once.
    public func refresh() async {
        do { show(try await store.snapshot()) } catch { if !Task.isCancelled { failure = error } }
    }

    private func show(_ snapshot: Snapshot) {
        failure = nil
        self.snapshot = snapshot
        rows = store.catalog.products.compactMap { product in
            let offer = offer(for: product, in: snapshot)
            let isWorthShowing = product.isForSale || offer == .owned || offer == .pending
            return isWorthShowing ? Row(product: product, offer: offer) : nil
        }
    }

    private func offer(for product: Product, in snapshot: Snapshot) -> Offer {
        if snapshot.owned.contains(product.id) { return .owned }
        if snapshot.pending.contains(product.id) { return .pending }
        if product.requiresAccount, !snapshot.context.isSignedIn { return .signIn }
        let subscription = product.kind.group.flatMap { snapshot[group: $0] }
        if let subscription, subscription.isActive, let end = subscription.expires {
            return offer(for: product, in: subscription, until: end)
        }
        if !snapshot.context.hasRestored { return .restore }
        if product.kind.group != nil { return .subscribe }
        if case .consumable = product.kind { return .buy(unitsLeft: snapshot[balance: product.id]) }
        return .buy(unitsLeft: nil)
    }

    private func offer(for product: Product, in subscription: Snapshot.Subscription, until end: Timestamp) -> Offer {
        guard case .autoRenewable = product.kind else {
            return .renew(until: end, daysRemaining: subscription.daysRemaining)
        }
        if let current = subscription.product, current != product.id { return .change(from: current) }
        return .subscribed(
            until: end, daysRemaining: subscription.daysRemaining, willRenew: subscription.renewal?.willRenew)
    }
}
