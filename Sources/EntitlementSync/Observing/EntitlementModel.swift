public import Entitlements
public import Observation

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
        /// Something to own, or units of which so many are left.
        case buy(unitsLeft: Int64?)
        /// Time in a group in which nothing is active.
        case subscribe
        /// Time in a group that is active until then; buying now is appended.
        case renew(until: Timestamp, daysRemaining: Int)
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
    public func run() async {
        do {
            for await snapshot in try await store.snapshots() { show(snapshot) }
        } catch {
            failure = error
        }
    }

    /// Reads the store once.
    public func refresh() async {
        do { show(try await store.snapshot()) } catch { failure = error }
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
        if product.requiresAccount, store.account.isAnonymous { return .signIn }
        guard let group = product.kind.group else {
            if case .consumable = product.kind { return .buy(unitsLeft: snapshot[balance: product.id]) }
            return .buy(unitsLeft: nil)
        }
        guard let subscription = snapshot[group: group], subscription.isActive, let end = subscription.expires else {
            return .subscribe
        }
        return .renew(until: end, daysRemaining: subscription.daysRemaining)
    }
}
