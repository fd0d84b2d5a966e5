public import EntitlementSync
public import Entitlements
public import SyncCore

/// Feeds an `EntitlementStore` with the transactions of the App Store.
///
/// A transaction is finished only after its purchase is durable in the store. One that cannot be recorded stays
/// unfinished, so StoreKit delivers it again at the next start. Recording a transaction again changes nothing.
///
/// A purchase that this device already holds for another account, or for no account while one is logged in, stays
/// there, together with its renewals and refunds. The exceptions are what the user asks for: ``restore()`` and a new
/// purchase are always recorded for the account that is logged in.
///
/// ```swift
/// let feed = StoreKitFeed(store, source: StoreKitSource())
/// await feed.run()  // in a task that lives as long as the app
/// ```
public struct StoreKitFeed: Sendable {
    /// An event of the feed, for a log or a message to the user.
    public enum Event: Sendable {
        /// A transaction is durable, and finished unless it was before. `facts` are new to this device; they are empty
        /// if it knew them.
        case recorded(StoreKitTransaction, facts: [Fact])
        /// StoreKit does not accept the signature. Nothing was recorded, and the transaction is not finished.
        case unverified(StoreKitTransaction, reason: String)
        /// The store could not record the transaction. It is not finished. With `isRetried`, the feed tries again.
        case failed(StoreKitTransaction, EntitlementError, isRetried: Bool)
        /// A renewal state could not be recorded. It is read again at the next start.
        case renewalFailed(StoreKitRenewal, EntitlementError)
        /// Requests for approval that Apple has deleted could not be withdrawn.
        case withdrawalFailed(EntitlementError)
    }

    /// The result of a purchase.
    public enum Outcome: Sendable {
        /// The purchase is complete.
        case purchased(StoreKitTransaction)
        /// The purchase awaits approval ("Ask to Buy") or a payment. It is not bought yet.
        case pending
        /// The user cancelled the purchase.
        case cancelled
    }

    /// The time after which a request for approval is withdrawn, in milliseconds. Apple deletes a request that was not
    /// approved within 24 hours, and does not report a declined one.
    static let requestLifetime: Int64 = 24 * 3_600_000

    private let store: EntitlementStore
    private let source: any TransactionSource
    private let host: HostServices
    private let onEvent: @Sendable (Event) async -> Void

    /// Creates a feed. It does nothing until ``run()``.
    ///
    /// - Parameters:
    ///   - store: The store that records the purchases.
    ///   - source: StoreKit, or a fake.
    ///   - host: The timer for pauses between attempts.
    ///   - onEvent: Receives the events. The feed waits until it returns.
    public init(
        _ store: EntitlementStore, source: any TransactionSource, host: HostServices = .system,
        onEvent: @escaping @Sendable (Event) async -> Void = { _ in }
    ) {
        (self.store, self.source, self.host, self.onEvent) = (store, source, host, onEvent)
    }

    /// Records what StoreKit reports until the task is cancelled: unfinished transactions, the history, and updates.
    ///
    /// Start it once, as early as the app starts. It listens for updates while it reads the rest.
    public func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await source.updates { await process($0) } }
            group.addTask { await source.renewalUpdates { await process($0) } }
            group.addTask { await readPast() }
        }
    }

    /// Buys a product in the App Store, and records the result.
    ///
    /// - Parameters:
    ///   - product: The product.
    ///   - accountToken: The UUID by which the server knows the account, from `AccountClient.accountToken(token:)`;
    ///     `nil` for none. With it, the server recognizes the account in Apple's notifications, even if this device
    ///     never reports the purchase.
    /// - Throws: ``StoreKitFeedError``. A transaction that could not be recorded is not finished, so it is not lost.
    public func buy(
        _ product: ProductID, accountToken: String? = nil
    ) async throws(StoreKitFeedError) -> Outcome {
        let outcome: Outcome
        do { outcome = try await source.purchase(product, accountToken: accountToken) } catch {
            throw error as? StoreKitFeedError ?? .appStore(error)
        }
        try await take(outcome, of: product)
        return outcome
    }

    /// Records the result of a purchase of `product` that was made elsewhere, for example by a view of StoreKit.
    ///
    /// - Returns: The new facts; empty unless the purchase is complete.
    /// - Throws: ``StoreKitFeedError``. The transaction is not finished then, so it is not lost.
    @discardableResult
    public func take(_ outcome: Outcome, of product: ProductID) async throws(StoreKitFeedError) -> [Fact] {
        switch outcome {
        case .purchased(let transaction):
            if let reason = transaction.verificationFailure { throw .unverified(reason: reason) }
            do {
                let facts = try await store.record(transaction.evidence).newFacts
                await source.finish(transaction)
                return facts
            } catch {
                throw .notRecorded(error)
            }
        case .pending:
            do { return try await store.record(.deferred(product)).newFacts } catch { throw .notRecorded(error) }
        // An earlier request may still be waiting for approval.
        case .cancelled: return []
        }
    }

    /// Restores purchases after the user has asked for it: reads them from the App Store again, and syncs with the
    /// server.
    ///
    /// A transaction that cannot be recorded does not keep the others out.
    ///
    /// - Returns: The report of the sync; `nil` if the store has no remote, or if no account is logged in.
    /// - Throws: The error of StoreKit; or the first `EntitlementError`, after everything else was recorded and synced.
    @discardableResult
    public func restore() async throws -> RestoreReport? {
        try await source.refresh()
        let transactions = await source.history().filter { $0.verificationFailure == nil }
        do { return try await restore(transactions) } catch {
            guard error.concernsStatement else { throw error }
            _ = try await restore(try await recordEach(of: transactions))
            throw error
        }
    }

    /// Records transactions one after another, and returns those that could be recorded.
    private func recordEach(
        of transactions: [StoreKitTransaction]
    ) async throws(EntitlementError) -> [StoreKitTransaction] {
        var recorded: [StoreKitTransaction] = []
        for transaction in transactions {
            do {
                try await store.record(transaction.evidence)
                recorded.append(transaction)
            } catch {
                guard error.concernsStatement else { throw error }
            }
        }
        return recorded
    }

    private func restore(_ transactions: [StoreKitTransaction]) async throws(EntitlementError) -> RestoreReport? {
        do { return try await store.restore(presenting: transactions.flatMap(\.evidence)) } catch {
            guard [.noRemote, .signInNeeded].contains(error.kind) else { throw error }
            return nil
        }
    }

    private func readPast() async {
        for transaction in await source.unfinished() { await process(transaction) }
        await recordHistory()
        for renewal in await source.renewals() { await process(renewal) }
        do {
            try await store.withdrawRequests(before: Timestamp(milliseconds: host.now() - Self.requestLifetime))
        } catch {
            await onEvent(.withdrawalFailed(error))
        }
    }

    /// Records the history in batches. Its transactions were finished before, or are among the unfinished ones.
    private func recordHistory() async {
        let history = await source.history()
        for start in stride(from: 0, to: history.count, by: Self.batchCount) {
            let batch = history[start..<min(start + Self.batchCount, history.count)]
            do {
                try await store.record(
                    byHolder: batch.filter { $0.verificationFailure == nil }.map { ($0.line, $0.evidence) })
            } catch {
                // One transaction must not keep the others out.
                for transaction in batch where !Task.isCancelled { await process(transaction, finishes: false) }
            }
        }
    }

    private static let batchCount = 100
    private static let longestPause = Duration.seconds(60)

    /// Records a transaction and finishes it. After a failure that may pass, tries again until the task is cancelled.
    private func process(_ transaction: StoreKitTransaction, finishes: Bool = true) async {
        if let reason = transaction.verificationFailure {
            return await onEvent(.unverified(transaction, reason: reason))
        }
        var pause = Duration.seconds(1)
        while !Task.isCancelled {
            do {
                let facts = try await store.record(byHolder: [(transaction.line, transaction.evidence)])
                if finishes { await source.finish(transaction) }
                return await onEvent(.recorded(transaction, facts: facts))
            } catch {
                let isRetried = error.isTransient || error.kind == .storage
                await onEvent(.failed(transaction, error, isRetried: isRetried))
                guard isRetried else { return }
            }
            // The sleep throws only on cancellation, which the loop checks.
            do { try await host.sleep(for: pause) } catch {}
            pause = min(pause * 2, Self.longestPause)
        }
    }

    /// Records a renewal state, unless it is known.
    private func process(_ renewal: StoreKitRenewal) async {
        guard renewal.verificationFailure == nil else { return }
        do {
            if let known = try await store.facts().renewalStates[renewal.line], renewal.agrees(with: known) { return }
            try await store.record(byHolder: [(renewal.line, [renewal.evidence])])
        } catch {
            await onEvent(.renewalFailed(renewal, error))
        }
    }
}

extension EntitlementError {
    /// True if a statement is the cause, and not the store or the server.
    fileprivate var concernsStatement: Bool {
        [.unknownProduct, .invalid, .contradiction, .ledgerFull].contains(kind)
    }
}

/// A purchase that was not made, or that the feed could not record. The transaction is not finished.
public enum StoreKitFeedError: Error, Sendable, CustomStringConvertible {
    /// The App Store does not offer the product.
    case notOffered(ProductID)
    /// StoreKit failed before the purchase was complete.
    case appStore(any Error)
    /// StoreKit does not accept the signature of the transaction.
    case unverified(reason: String)
    /// The store could not record the purchase. The feed tries again, at the latest at the next start of the app.
    case notRecorded(EntitlementError)

    /// One line for the user.
    public var description: String {
        switch self {
        case .notOffered(let product):
            "the App Store does not offer \(product.rawValue.singleLine): check its ID and its state in App Store "
                + "Connect, and the agreements there"
        case .appStore(let error): "the App Store: \("\(error)".singleLine)"
        case .unverified(let reason):
            "the App Store's signature of this purchase is not valid (\(reason.singleLine)); restart the app, and "
                + "restore purchases"
        case .notRecorded(let error): "the purchase could not be saved on this device, and is not lost: \(error)"
        }
    }
}
