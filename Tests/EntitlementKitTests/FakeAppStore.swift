import EntitlementSyncStoreKit
import Entitlements
import SyncCore
import Synchronization

/// The App Store for one user. All devices of the user share its transactions.
final class FakeAppStore: TransactionSource {
    struct Failure: Error {}

    /// The outcome of the next purchases.
    enum Answer: Sendable {
        case sells
        /// The purchase awaits approval.
        case asks
        case cancels
        case fails
        /// The transaction arrives with a signature that StoreKit does not accept.
        case forges
    }

    private struct State {
        var transactions: [StoreKitTransaction]
        var offers: [StoreKitOffer] = []
        var answer = Answer.sells
        var environment: EnvironmentID?
        var finished: [UInt64] = []
        var tokens: [String?] = []
        var listeners: [AsyncStream<StoreKitTransaction>.Continuation] = []
    }
    private let state: Mutex<State>
    private let host: HostServices

    /// Creates a store that sells the products of ``ShopStage/catalogue``.
    init(_ transactions: [StoreKitTransaction] = [], host: HostServices = .system) {
        self.host = host
        state = Mutex(State(transactions: transactions))
        set([
            StoreKitOffer(id: "owls.3months", type: .nonRenewing, name: "Owls", price: "€ 9.99"),
            StoreKitOffer(id: "owls.lifetime", type: .nonConsumable, name: "All owls", price: "€ 49.99"),
        ])
    }

    /// The transactions that the app has finished, in that order.
    var finished: [UInt64] { state.withLock { $0.finished } }
    /// The account tokens of all purchases.
    var tokens: [String?] { state.withLock { $0.tokens } }

    func set(_ offers: [StoreKitOffer]) { state.withLock { $0.offers = offers } }
    func set(_ environment: EnvironmentID) { state.withLock { $0.environment = environment } }
    func set(_ answer: Answer) { state.withLock { $0.answer = answer } }

    /// Sells a product, and reports it to all devices that listen.
    @discardableResult
    func sell(_ product: ProductID, isGenuine: Bool = true) -> StoreKitTransaction {
        let now = Timestamp(milliseconds: host.now())
        let (transaction, listeners) = state.withLock { state in
            let id = UInt64(state.transactions.count + 1)
            let type = state.offers.first { $0.id == product }?.type ?? .nonConsumable
            let transaction = StoreKitTransaction(
                id: id, product: product, productType: type, purchaseDate: now,
                environment: state.environment ?? .production, signedDate: now,
                jws: "header.\(id).signature", verificationFailure: isGenuine ? nil : "the chain ends elsewhere")
            state.transactions.append(transaction)
            return (transaction, state.listeners)
        }
        for listener in listeners { listener.yield(transaction) }
        return transaction
    }

    func offers(of products: [ProductID]) async throws -> [StoreKitOffer] {
        try state.withLock { state in
            if case .fails = state.answer { throw Failure() }
            return state.offers.filter { products.contains($0.id) }
        }
    }

    func purchase(_ product: ProductID, accountToken: String?) async throws -> StoreKitFeed.Outcome {
        let answer = state.withLock { $0.answer }
        guard try await !offers(of: [product]).isEmpty else { throw StoreKitFeedError.notOffered(product) }
        state.withLock { $0.tokens.append(accountToken) }
        return switch answer {
        case .sells: .purchased(sell(product))
        case .asks: .pending
        case .cancels: .cancelled
        case .forges: .purchased(sell(product, isGenuine: false))
        case .fails: throw Failure()
        }
    }

    func environment() async -> EnvironmentID? { state.withLock { $0.environment } }
    func renewals() async -> [StoreKitRenewal] { [] }
    func renewalUpdates(_ receive: @Sendable (StoreKitRenewal) async -> Void) async {}

    func updates(_ receive: @Sendable (StoreKitTransaction) async -> Void) async {
        let (updates, listener) = AsyncStream<StoreKitTransaction>.makeStream()
        state.withLock { $0.listeners.append(listener) }
        for await transaction in updates { await receive(transaction) }
    }

    func unfinished() async -> [StoreKitTransaction] {
        state.withLock { state in state.transactions.filter { !state.finished.contains($0.id) } }
    }

    func history() async -> [StoreKitTransaction] { state.withLock { $0.transactions } }
    func finish(_ transaction: StoreKitTransaction) async { state.withLock { $0.finished.append(transaction.id) } }
    func refresh() async throws { if case .fails = state.withLock({ $0.answer }) { throw Failure() } }
}
