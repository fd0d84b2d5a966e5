import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import SyncCore
import Synchronization

/// A stand-in for StoreKit on one device. It keeps what the app has finished across restarts.
final class FakeStoreKit: TransactionSource {
    struct RefreshCancelled: Error {}

    private struct State {
        var transactions: [StoreKitTransaction]
        var finished: [UInt64] = []
        var updates: [StoreKitTransaction] = []
        var failsToRefresh = false
        var renewals: [StoreKitRenewal] = []
        var renewalUpdates: [StoreKitRenewal] = []
    }
    private let state: Mutex<State>

    /// - Parameter transactions: The user's transactions, in the order in which StoreKit lists them.
    init(_ transactions: [StoreKitTransaction] = []) { state = Mutex(State(transactions: transactions)) }

    /// The transactions that the app has finished, in that order; one that was finished twice is listed twice.
    var finished: [UInt64] { state.withLock { $0.finished } }

    /// Delivers transactions as updates to the next run of the feed, which then ends.
    func deliver(_ transactions: [StoreKitTransaction]) { state.withLock { $0.updates = transactions } }

    /// Replaces what StoreKit knows of a transaction, for example after a refund.
    func set(_ transaction: StoreKitTransaction) {
        state.withLock { state in
            state.transactions.removeAll { $0.id == transaction.id }
            state.transactions.append(transaction)
        }
    }

    /// Sets the renewal states at the next start.
    func set(_ renewals: [StoreKitRenewal]) { state.withLock { $0.renewals = renewals } }

    /// Delivers renewal states as updates to the next run of the feed.
    func deliver(_ renewals: [StoreKitRenewal]) { state.withLock { $0.renewalUpdates = renewals } }

    func failToRefresh() { state.withLock { $0.failsToRefresh = true } }

    func offers(of products: [ProductID]) async throws -> [StoreKitOffer] { [] }

    func purchase(_ product: ProductID, accountToken: String?) async throws -> StoreKitFeed.Outcome {
        throw StoreKitFeedError.notOffered(product)
    }

    func environment() async -> EnvironmentID? { nil }
    func renewals() async -> [StoreKitRenewal] { state.withLock { $0.renewals } }

    func renewalUpdates(_ receive: @Sendable (StoreKitRenewal) async -> Void) async {
        let updates = state.withLock { state in
            defer { state.renewalUpdates = [] }
            return state.renewalUpdates
        }
        for update in updates { await receive(update) }
    }

    func updates(_ receive: @Sendable (StoreKitTransaction) async -> Void) async {
        let updates = state.withLock { state in
            defer { state.updates = [] }
            return state.updates
        }
        for update in updates { await receive(update) }
    }

    func unfinished() async -> [StoreKitTransaction] {
        state.withLock { state in state.transactions.filter { !state.finished.contains($0.id) } }
    }

    func history() async -> [StoreKitTransaction] { state.withLock { $0.transactions } }

    func finish(_ transaction: StoreKitTransaction) async {
        state.withLock { $0.finished.append(transaction.id) }
    }

    func refresh() async throws {
        if state.withLock({ $0.failsToRefresh }) { throw RefreshCancelled() }
    }
}

/// The events of a feed.
final class FeedEvents: Sendable {
    private let events = Mutex<[String]>([])
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// One line for each event.
    var lines: [String] { events.withLock { $0 } }

    func note(_ event: StoreKitFeed.Event) {
        let line =
            switch event {
            case .recorded(let transaction, let facts): "\(transaction.id) recorded, \(facts.isEmpty ? "known" : "new")"
            case .unverified(let transaction, let reason): "\(transaction.id) unverified: \(reason)"
            case .failed(let transaction, let error, let isRetried):
                "\(transaction.id) failed: \(error.kind)\(isRetried ? ", again" : "")"
            case .renewalFailed(let renewal, let error): "\(renewal.originalID) renewal failed: \(error.kind)"
            case .withdrawalFailed(let error): "withdrawal failed: \(error.kind)"
            }
        events.withLock { $0.append(line) }
        if case .failed(_, _, isRetried: true) = event { task.withLock { $0?.cancel() } }
    }

    /// Runs the feed until its source ends. With `endsAtFailure`, it is cancelled at the first failure that it would
    /// retry, as if the process had ended.
    func run(_ feed: StoreKitFeed, endsAtFailure: Bool = false) async {
        let task = Task { await feed.run() }
        if endsAtFailure { self.task.withLock { $0 = task } }
        await task.value
    }
}
