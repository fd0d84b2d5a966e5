public import EntitlementSync
public import EntitlementSyncStoreKit
public import Entitlements
public import Foundation
import HTTPStorage
public import Observation
import SyncCore

/// The purchases of an app's user, on every device.
///
/// ```swift
/// @State private var shop = Shop(catalog: catalogURL, server: "https://purchases.example.com")
/// // …
/// .task { await shop.run() }                                                  // keeps purchases current
/// try await shop.logIn(name, password: password, earlierPurchases: .adopt)    // once
/// if try await shop.access(to: "night-owls").isGranted { … }                  // asks, also offline
/// List(shop.rows) { row in … }                                                // observes
/// ```
///
/// Creating a shop reads nothing, throws nothing and returns at once. The first call that needs the purchases opens
/// them. The parts of the shop are available to an app that outgrows it: see ``store()``.
@MainActor
@Observable
public final class Shop {
    /// The use of purchases that were made on this device before a log-in.
    public enum EarlierPurchases: Sendable {
        /// They move to the account, permanently. Right for a personal device. On a device that several people share,
        /// ask first: the account also gets what the others have bought before they signed in.
        case adopt
        /// They stay on this device, and are hidden while the account is logged in.
        case leaveOnDevice
    }

    /// The rows of a shop page: one for each product that is for sale, owned or pending. Empty until ``run()`` has read
    /// the purchases.
    public var rows: [Row] { opened?.model.rows.map { Row($0, language: settings.language) } ?? [] }

    /// The name of the account that is logged in; `nil` for none, and until the purchases are open.
    public private(set) var account: String?

    /// The last failure in the background, in words for the user; `nil` after the next change.
    public private(set) var failure: ShopError?

    let settings: ShopSettings
    private var opened: OpenedShop?
    @ObservationIgnored private var isOpening = false
    @ObservationIgnored private var waiters: [CheckedContinuation<Void, Never>] = []

    /// Creates a shop.
    ///
    /// - Parameters:
    ///   - catalog: The file with the products: the format of this package, or Xcode's `.storekit`.
    ///   - server: The address of the server, `https://HOST[:PORT]`; `nil` for an app without a server.
    ///   - folder: The folder for the purchases and the session of this device; by default the platform's folder for
    ///     the data of this app.
    ///   - environment: The environment whose purchases count. Apps that test with StoreKit pass `sandbox` or `xcode`.
    public convenience init(
        catalog: URL, server: String? = nil, folder: URL? = nil, environment: EnvironmentID = .production
    ) {
        self.init(ShopSettings(catalog: catalog, server: server, folder: folder, environment: environment))
    }

    init(_ settings: ShopSettings) { self.settings = settings }

    /// Keeps the purchases current until the task is cancelled: opens them, records what StoreKit reports, syncs with
    /// the server, and updates ``rows``.
    ///
    /// Run it while the app shows something, for example in a `task` of the root view. It does nothing else, so an app
    /// in the background polls nothing.
    public func run() async {
        guard let opened = await openUntilCancelled() else { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await opened.store.run() }
            group.addTask { await opened.model.run() }
            group.addTask { await self.follow(opened.store.events) }
            if let feed = opened.feed { group.addTask { await feed.run() } }
        }
    }

    /// Syncs with the server, if an account is logged in, and updates ``rows`` once. For a page that the user pulls
    /// down, or a program without ``run()``.
    ///
    /// - Throws: ``ShopError``. The rows are current then as far as this device knows.
    public func refresh() async throws(ShopError) {
        let opened = try await open()
        var failure: ShopError?
        if opened.client != nil, account != nil {
            do { try await opened.store.sync() } catch { failure = ShopError(error) }
        }
        await opened.model.refresh()
        if let error = opened.model.failure { throw ShopError(error) }
        if let failure { throw failure }
    }

    /// Creates an account at the server, and logs it in.
    ///
    /// - Returns: The recovery codes. Show them to the user once: they replace a lost password.
    /// - Throws: ``ShopError``.
    @discardableResult
    public func signUp(
        _ name: String, password: String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) -> [String] {
        let opened = try await open()
        let (client, tokens) = try opened.accounts()
        do {
            let new = try await client.signUp(name, password: password)
            try await tokens.begin(new.session)
            try await enter(name, earlierPurchases, opened)
            return new.recoveryCodes ?? []
        } catch {
            throw ShopError(error)
        }
    }

    /// Logs an account in, on the server and on this device, and restores its purchases.
    ///
    /// - Throws: ``ShopError``. If only the restore failed, the account is logged in, and ``run()`` tries again.
    public func logIn(
        _ name: String, password: String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) {
        let opened = try await open()
        let (client, tokens) = try opened.accounts()
        do {
            try await tokens.begin(try await client.logIn(name, password: password))
            try await enter(name, earlierPurchases, opened)
        } catch {
            throw ShopError(error)
        }
    }

    /// Logs out. Purchases that could not be sent stay on this device, and are sent after the next log-in.
    ///
    /// - Throws: ``ShopError``.
    public func logOut() async throws(ShopError) {
        let opened = try await open()
        do {
            try await opened.store.logOut()
            account = nil
            guard let (client, tokens) = try? opened.accounts() else { return }
            do { try await client.logOut(token: tokens.token(refused:)) } catch {
                // Without a network the session ends at the server when it expires.
                failure = ShopError(error)
            }
            try await tokens.forget()
        } catch {
            throw ShopError(error)
        }
    }

    /// Returns the access to an entitlement, now and without a network.
    ///
    /// A thrown error is not a denial: an app that cannot read the purchases keeps its last answer.
    ///
    /// - Throws: ``ShopError``.
    public func access(to entitlement: EntitlementID) async throws(ShopError) -> ShopAccess {
        let opened = try await open()
        do { return ShopAccess(try await opened.store.access(to: entitlement)) } catch { throw ShopError(error) }
    }

    /// Restores purchases after the user has asked for it: from the App Store, and from the server.
    ///
    /// - Returns: The number of purchases that this device did not have.
    /// - Throws: ``ShopError``.
    @discardableResult
    public func restore() async throws(ShopError) -> Int {
        let opened = try await open()
        do {
            let known = try await opened.store.purchaseCount()
            if let feed = opened.feed {
                try await feed.restore()
            } else {
                try await opened.store.restore()
            }
            return try await opened.store.purchaseCount() - known
        } catch {
            throw ShopError(error)
        }
    }

    /// Records a purchase that was not made through StoreKit, for example one that the app's own server has confirmed.
    ///
    /// - Parameters:
    ///   - product: A product of the catalogue.
    ///   - transaction: The seller's ID of the purchase, which ensures that it counts once.
    ///   - date: The date of the purchase; by default now.
    /// - Throws: ``ShopError``.
    public func record(
        _ product: ProductID, transaction: String, date: Date? = nil
    ) async throws(ShopError) {
        let opened = try await open()
        do {
            try await opened.store.record(
                .reported(product, transaction: TransactionID(transaction), date: date.map { Timestamp($0) }))
        } catch {
            throw ShopError(error)
        }
    }

    /// Returns the new end of the group if a non-renewing subscription were bought now.
    ///
    /// - Throws: ``ShopError``.
    public func end(afterBuying product: ProductID) async throws(ShopError) -> Date {
        let opened = try await open()
        do { return Date(try await opened.store.preview(buying: product)) } catch { throw ShopError(error) }
    }

    /// The store behind this shop, for everything that a shop does not offer.
    ///
    /// - Throws: ``ShopError``.
    public func store() async throws(ShopError) -> EntitlementStore { try await open().store }

    /// The feed of purchases from the App Store; `nil` without StoreKit. Pass it the result of each purchase.
    ///
    /// - Throws: ``ShopError``.
    public func feed() async throws(ShopError) -> StoreKitFeed? { try await open().feed }
}

extension Shop {
    /// Opens the purchases, once for all callers.
    func open() async throws(ShopError) -> OpenedShop {
        while isOpening { await withCheckedContinuation { waiters.append($0) } }
        if let opened { return opened }
        isOpening = true
        defer {
            isOpening = false
            for waiter in waiters { waiter.resume() }
            waiters = []
        }
        let opened = try await settings.open { [weak self] error in await self?.note(error) }
        self.opened = opened
        account = opened.store.account.name
        return opened
    }

    /// Opens the purchases. After a failure, tries again until the task is cancelled.
    private func openUntilCancelled() async -> OpenedShop? {
        var pause = Duration.seconds(1)
        while !Task.isCancelled {
            do {
                let opened = try await open()
                failure = nil
                return opened
            } catch {
                failure = error
            }
            // The sleep throws only on cancellation, which the loop checks.
            do { try await settings.host.sleep(for: pause) } catch {}
            pause = min(pause * 2, .seconds(60))
        }
        return nil
    }

    private func enter(_ name: String, _ earlier: EarlierPurchases, _ opened: OpenedShop) async throws {
        try await opened.store.logIn(name, adoptAnonymous: earlier == .adopt)
        account = opened.store.account.name
        try await opened.store.restore()
        await opened.model.refresh()
    }

    private func follow(_ events: AsyncStream<EntitlementEvent>) async {
        for await event in events {
            switch event {
            case .failed(let error): failure = ShopError(error)
            case .accountChanged(_, let new): account = new.name
            case .accountErased: account = opened?.store.account.name
            default: failure = nil
            }
        }
    }

    private func note(_ error: ShopError) { failure = error }
}
