public import EntitlementSync
public import EntitlementSyncStoreKit
import Entitlements
public import Foundation
import HTTPStorage
public import Observation
import SyncCore

/// The purchases of an app's user, on every device.
///
/// ```swift
/// @State private var shop = Shop(catalog: catalogURL, server: "https://purchases.example.com")
/// // …
/// .task(id: phase == .background) { if phase != .background { await shop.run() } }  // keeps purchases current
/// try await shop.logIn(name, password: password, earlierPurchases: .adopt)    // once
/// try await shop.buy("owls.3months")
/// if try await shop.access(to: "night-owls").isGranted { … }                  // asks, also offline
/// try await shop.use("random-owls")                                           // spends a unit, if units grant it
/// List(shop.rows) { row in … }                                                // observes, as shop.access does
/// ```
///
/// `phase` is SwiftUI's `scenePhase`. Creating a shop reads nothing, throws nothing and returns at once. The first call
/// that needs the purchases opens them. The parts of the shop are public too, for an app that outgrows it: see
/// ``store()``.
@MainActor
@Observable
public final class Shop {
    /// The environments of the App Store.
    public enum Environment: String, Sendable {
        /// Purchases with money.
        case production
        /// Purchases of testers.
        case sandbox
        /// Purchases that Xcode simulates.
        case xcode
    }

    /// The rows of a shop page: one for each product that is for sale, owned or pending, in the order of the catalogue.
    /// Empty until ``run()`` or ``refresh()`` has read the purchases.
    public var rows: [Row] {
        opened?.model.rows.map { Row($0, offers[$0.id.rawValue], language: settings.language) } ?? []
    }

    /// The name of the account that is logged in; `nil` for none, and until the purchases are open.
    public internal(set) var account: String?

    /// The most serious failure in the background that no later success of the same activity has settled; `nil` for
    /// none. Each ``run()`` starts without failures of purchases.
    public var failure: ShopError? { failures.min { $0.key.rawValue < $1.key.rawValue }?.value }

    /// The products that are for sale in the catalogue, and that the App Store does not offer to this user. Their rows
    /// have no price. Empty without StoreKit, and until ``run()`` or ``refresh()`` has asked the App Store.
    public private(set) var missingProducts: [String] = []

    /// True while ``run()`` runs.
    public private(set) var isRunning = false

    let settings: ShopSettings
    /// The offers of the App Store.
    private(set) var offers: [String: StoreKitOffer] = [:]
    private(set) var opened: OpenedShop?
    private var failures: [Activity: ShopError] = [:]
    @ObservationIgnored private let opening = Turns()
    /// Log-ins, log-outs and deletions happen one after another.
    @ObservationIgnored let accountChanges = Turns()
    @ObservationIgnored private var successors: [AsyncStream<Never>.Continuation] = []
    /// The tokens of the app's own issuer.
    @ObservationIgnored var tokenSource: IssuedToken.Source?
    /// The token of an account for the App Store.
    @ObservationIgnored var accountToken: (account: Account, token: UUID)?

    /// The activities that may fail in the background, the most serious failure first.
    enum Activity: Int {
        case opening, catalogue, purchases, account, sync, serverCatalogue, catalogueCopy, offers
    }

    /// Creates a shop.
    ///
    /// - Parameters:
    ///   - catalog: The file with the products: the format of this package, or Xcode's `.storekit`. If the server has a
    ///     catalogue (`syncd serve --catalog`), it replaces the file: ``run()`` and ``refresh()`` fetch it when it has
    ///     changed, it takes effect at once, and a copy of it counts at the next start.
    ///   - server: The address of the server, `https://HOST[:PORT]`; `nil` for an app without a server.
    ///   - folder: The folder for the purchases and the session of this device; by default the platform's folder for
    ///     the data of this app.
    ///   - environment: The environment whose purchases count. Others are recorded, and grant nothing. `nil` for the
    ///     environment in which the App Store runs the app, which is the sandbox in TestFlight and in Apple's review.
    ///   - syncsBeforeLogIn: True to sync the purchases of a customer who has not logged in, so that the server has
    ///     them and can verify them. The shop creates an account with a random name and password, which stay on this
    ///     device; ``account`` is `nil` meanwhile. A log-in that adopts earlier purchases moves them to the user's
    ///     account, and erases the random one.
    ///   - trust: The authority that decides which purchases count. With `.signed(by:)` only what the server has signed
    ///     for this device grants access.
    public convenience init(
        catalog: URL, server: String? = nil, folder: URL? = nil, environment: Environment? = nil,
        syncsBeforeLogIn: Bool = false, trust: TrustSource = .ledger
    ) {
        var settings = ShopSettings(
            catalog: catalog, server: server, folder: folder,
            environment: environment.map { EnvironmentID($0.rawValue) })
        (settings.trust, settings.syncsBeforeLogIn) = (trust, syncsBeforeLogIn)
        self.init(settings)
    }

    init(_ settings: ShopSettings) { self.settings = settings }

    /// Keeps the purchases current until the task is cancelled: opens them, records what the App Store reports, syncs
    /// with the server, fetches the server's catalogue, and updates ``rows``, ``access`` and prices.
    ///
    /// Run it while the app shows something. Nothing happens in the background otherwise: no request is made, and no
    /// timer runs. A new run catches up at once. If several windows run the same shop, one of the runs works, and
    /// another takes over when it ends.
    public func run() async {
        while isRunning {
            let (end, continuation) = AsyncStream<Never>.makeStream()
            successors.append(continuation)
            for await _ in end {}
            if Task.isCancelled { return }
        }
        isRunning = true
        defer {
            isRunning = false
            for successor in successors { successor.finish() }
            successors = []
        }
        guard let opened = await untilSuccess(.opening, { () async throws(ShopError) in try await open() }) else {
            return
        }
        // Reported again if they persist.
        report(nil, in: .purchases)
        let (events, changes) = (opened.store.events, opened.store.events)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await opened.store.run { await self.report($0.failure.map { ShopError($0) }, in: .sync) } }
            group.addTask { await opened.model.run() }
            group.addTask { await self.follow(events) }
            group.addTask { await self.keepGuest(changes) }
            group.addTask {
                await self.untilSuccess(.offers) { () async throws(ShopError) in try await self.loadOffers() }
            }
            group.addTask {
                // A catalogue that cannot be used is reported, and asked for again by the next run or refresh.
                let isReplaced = await self.untilSuccess(.serverCatalogue, orPermanentFailure: true) {
                    () async throws(ShopError) in try await self.updateCatalog()
                }
                guard isReplaced == true else { return }
                await self.untilSuccess(.offers) { () async throws(ShopError) in try await self.loadOffers() }
            }
            if let feed = opened.feed {
                group.addTask { await feed.run() }
                group.addTask {
                    await self.untilSuccess(.account) { () async throws(ShopError) in try await self.appAccountToken() }
                }
            }
        }
    }

    /// Syncs with the server, if an account is logged in, and updates the catalogue, ``rows``, ``access`` and prices
    /// once. For a page that the user pulls down, or a program without ``run()``.
    ///
    /// - Throws: ``ShopError``, after everything that could be updated is. If only the catalogue could not be fetched
    ///   or used, or no account could be created before a log-in, the call succeeds: ``failure`` has the reason.
    public func refresh() async throws(ShopError) {
        let opened = try await open()
        var failure: ShopError?
        let isGuestReady = await attempt(.account) { try await self.syncAsGuest() } != nil
        let account = opened.store.account
        if opened.client != nil, account.isGuest ? isGuestReady : !account.isAnonymous {
            do { try await opened.store.sync() } catch { failure = ShopError(error) }
            report(failure, in: .sync)
        }
        self.account = opened.accountName
        await attempt(.serverCatalogue) { try await self.updateCatalog() }
        await opened.model.refresh()
        do { try await loadOffers() } catch { failure = failure ?? error }
        if let error = opened.model.failure { throw ShopError(error) }
        if let failure { throw failure }
    }

    /// The store behind this shop, for everything that a shop does not offer.
    ///
    /// - Throws: ``ShopError``.
    public func store() async throws(ShopError) -> EntitlementStore { try await open().store }

    /// The feed of purchases from the App Store; `nil` without StoreKit.
    ///
    /// - Throws: ``ShopError``.
    public func feed() async throws(ShopError) -> StoreKitFeed? { try await open().feed }
}

extension Shop {
    /// Opens the purchases, once for all callers.
    func open() async throws(ShopError) -> OpenedShop {
        try await opening.exclusively { () async throws(ShopError) in
            if let opened { return opened }
            let opened = try await settings.open { [weak self] event in await self?.handle(event) }
            await restoreCatalog(opened)
            self.opened = opened
            opened.tokens?.renewIssued(with: tokenSource)
            account = opened.accountName
            return opened
        }
    }

    /// Calls `body` with the opened shop, and translates its error.
    func whileOpen<Outcome: Sendable>(
        _ body: @MainActor (OpenedShop) async throws -> Outcome
    ) async throws(ShopError) -> Outcome {
        do { return try await body(try await open()) } catch { throw ShopError(error) }
    }

    /// Calls `body` until it succeeds, with pauses of 1 s to 60 s.
    ///
    /// - Parameters:
    ///   - activity: The activity whose failure is reported.
    ///   - endsWithFailure: True to end also after a failure that is not transient.
    ///   - body: The call.
    /// - Returns: `nil` if the task is cancelled, or after such a failure.
    @discardableResult
    func untilSuccess<Outcome: Sendable>(
        _ activity: Activity, orPermanentFailure endsWithFailure: Bool = false,
        _ body: @MainActor () async throws(ShopError) -> Outcome
    ) async -> Outcome? {
        var pause = Duration.seconds(1)
        while !Task.isCancelled {
            do throws(ShopError) {
                let outcome = try await body()
                report(nil, in: activity)
                return outcome
            } catch {
                report(error, in: activity)
                if endsWithFailure, !error.isTransient { return nil }
            }
            // The sleep throws only on cancellation, which the loop checks.
            do { try await settings.host.sleep(for: pause) } catch {}
            pause = min(pause * 2, .seconds(60))
        }
        return nil
    }

    /// Asks the App Store for its offers, and compares them with the catalogue.
    func loadOffers() async throws(ShopError) {
        guard let source = settings.source else { return }
        let store = try await open().store
        let products = store.catalog.products.filter(\.isForSale)
        let found: [StoreKitOffer]
        do { found = try await source.offers(of: products.map(\.id)) } catch { throw ShopError(error) }
        // If the server's catalogue has replaced this one meanwhile, its offers are asked for by another call.
        guard store.catalog.products.filter(\.isForSale).map(\.id) == products.map(\.id) else { return }
        offers = Dictionary(found.map { ($0.id.rawValue, $0) }) { $1 }
        missingProducts = products.map(\.id.rawValue).filter { offers[$0] == nil }
        report(products.lazy.compactMap { self.mismatch(of: $0) }.first, in: .catalogue)
    }

    /// The error for a product whose type differs between the catalogue and the App Store; `nil` if it does not.
    func mismatch(of product: Product) -> ShopError? {
        guard let offer = offers[product.id.rawValue], offer.type != product.kind.type else { return nil }
        return ShopError(
            .catalog,
            "\(product.id.rawValue.singleLine) is \(product.kind.type) in the catalogue and \(offer.type) in the App "
                + "Store: correct one of them")
    }

    private func follow(_ events: AsyncStream<EntitlementEvent>) async {
        for await event in events {
            switch event {
            case .accountChanged, .accountErased: account = opened?.accountName
            default: break
            }
        }
    }

    private func handle(_ event: StoreKitFeed.Event) {
        switch event {
        case .recorded: report(nil, in: .purchases)
        case .unverified(_, let reason): report(ShopError(StoreKitFeedError.unverified(reason: reason)), in: .purchases)
        case .failed(_, let error, _), .renewalFailed(_, let error), .withdrawalFailed(let error):
            report(ShopError(error), in: .purchases)
        }
    }

    /// Reports the failure of an activity that fails no call; `nil` after a success.
    func report(_ error: ShopError?, in activity: Activity) {
        // The end of a run is not a failure.
        if error?.kind != .cancelled, !Task.isCancelled { failures[activity] = error }
    }
}

extension ProductKind {
    /// The type of such a product in the App Store.
    fileprivate var type: StoreKitTransaction.ProductType {
        switch self {
        case .consumable: .consumable
        case .nonConsumable: .nonConsumable
        case .nonRenewing: .nonRenewing
        case .autoRenewable: .autoRenewable
        }
    }
}
