import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import Synchronization
import TestSupport

@testable import EntitlementKit

/// A device of a scenario: a shop with a folder, a clock and a link of its own.
@MainActor
final class ScenarioDevice {
    private let settings: ShopSettings
    private let link: FaultyLink
    private let clock: SkewedClock
    private var opened: Shop?

    /// Creates a device whose clock is `skew` milliseconds ahead of the real one.
    init(catalog: URL, server: String, folder: URL, trust: TrustSource, skew: Int64) throws {
        link = try FaultyLink()
        clock = SkewedClock(skew)
        var settings = ShopSettings(catalog: catalog, server: server, folder: folder, environment: .production)
        settings.source = nil
        settings.transport = link
        settings.trust = trust
        settings.host.now = { [clock] in clock.now }
        settings.host.timer = clock.timer
        self.settings = settings
    }

    func setClock(_ time: Timestamp) { clock.set(time) }

    /// Ends the use of the shop, as the end of a process does.
    func close() { opened = nil }

    func setLink(_ change: String, path: String?) throws {
        switch change {
        case "down", "up": link.setDown(change == "down")
        case "unknown-fields": link.addUnknownFields()
        default:
            guard let fault = FaultyLink.Fault(rawValue: change), let path else {
                throw InputError(path: "link", reason: "unknown fault \(change), or no path")
            }
            // The kit reports by writing its ledger.
            link.fail(fault, path: path == "/v1/transactions" ? "/v1/kv/accounts/" : path)
        }
    }

    /// Performs a call, and returns its result.
    func call(_ call: String, _ step: JSONObjectReader) async throws -> [String: JSON] {
        let shop = opened ?? Shop(settings)
        opened = shop
        switch call {
        case "signUp", "logIn":
            let (name, password) = (try step.required("name").string(), try step.required("password").string())
            let earlier: Shop.EarlierPurchases = try step["adopt"]?.bool() ?? false ? .adopt : .leaveOnDevice
            if call == "signUp" {
                try await shop.signUp(name, password: password, earlierPurchases: earlier)
            } else {
                try await shop.logIn(name, password: password, earlierPurchases: earlier)
            }
        case "logOut": try await shop.logOut(everywhere: try step["everywhere"]?.bool() ?? false)
        case "deleteAccount": try await shop.deleteAccount(password: try step.required("password").string())
        case "account":
            let store = try await shop.store()
            return ["name": JSON(store.account.name)]
        case "report":
            let isRecorded = try await report(try step.required("item").object(), shop)
            return ["recorded": .bool(isRecorded)]
        case "refresh": try await shop.refresh()
        case "restore": try await shop.restore()
        case "access": return try await access(to: try step.required("entitlement").string(), shop)
        case "use":
            return try await use(try step.required("entitlement").string(), id: try step["id"]?.string(), shop)
        default: throw InputError(path: "call", reason: "unknown call \(call)")
        }
        return [:]
    }

    /// Records an item and syncs. Returns whether the server has it.
    private func report(_ item: JSONObjectReader, _ shop: Shop) async throws -> Bool {
        func text(_ name: String) throws -> String { try item.required(name).string() }
        let date = try item["date"]?.timestamp()
        let kind = try text("kind")
        if kind == "reported", try item["quantity"]?.integer() ?? 1 == 1 {
            try await shop.record(
                text("product"), transaction: text("transaction"), date: date.map { Date($0) })
        } else {
            let evidence: Evidence =
                switch kind {
                case "refunded":
                    .refunded(
                        TransactionReference(store: .reported, id: TransactionID(try text("transaction"))), at: date)
                case "reinstated":
                    .reinstated(TransactionReference(store: .reported, id: TransactionID(try text("transaction"))))
                case "pending": .deferred(ProductID(try text("product")))
                case "withdrawn": .withdrawn(ProductID(try text("product")))
                default: throw InputError(path: "kind", reason: "unknown kind \(kind)")
                }
            try await shop.store().record(evidence)
        }
        return try await sync(shop)
    }

    /// Sends what this device has recorded, as ``Shop/run()`` does. Returns `false` if the server does not get it.
    private func sync(_ shop: Shop) async throws -> Bool {
        let store = try await shop.store()
        do { try await store.sync() } catch {
            guard error.kind == .sync || error.kind == .accountErased else { throw error }
            return false
        }
        return true
    }

    private func access(to entitlement: String, _ shop: Shop) async throws -> [String: JSON] {
        let access = try await shop.access(to: entitlement)
        var result: [String: JSON] = [
            "granted": .bool(access.isGranted), "until": JSON(access.until.map { "\(Timestamp($0))" }),
        ]
        if let denial = access.denial { result["reason"] = .string(denial.name) }
        if let units = access.units { result["units"] = .number(units) }
        return result
    }

    private func use(_ entitlement: String, id: String?, _ shop: Shop) async throws -> [String: JSON] {
        let before = try await shop.access(to: entitlement)
        let after: ShopAccess
        do { after = try await shop.use(entitlement, id: id) } catch {
            guard let denial = error.denial else { throw error }
            return ["granted": .bool(false), "reason": .string(denial.name)]
        }
        _ = try await sync(shop)
        let spent = before.units.map { $0 - (after.units ?? 0) } ?? 0
        return ["granted": .bool(true), "spent": .number(spent)]
    }
}

/// A clock that runs on from a time that a test sets. Time that is set forward passes for the timer, too.
private final class SkewedClock: Sendable {
    private struct State {
        var skew: Int64
        var passed = Duration.zero
    }

    private let state: Mutex<State>
    private let start = ContinuousClock.now

    init(_ skew: Int64) { state = Mutex(State(skew: skew)) }

    var now: Int64 { HostServices.system.now() + state.withLock { $0.skew } }

    func set(_ time: Timestamp) {
        let step = time.milliseconds - now
        state.withLock { state in
            state.skew += step
            state.passed += .milliseconds(max(0, step))
        }
    }

    var timer: any Clock<Duration> {
        TestTimer(
            elapsed: { ContinuousClock.now - self.start + self.state.withLock { $0.passed } },
            pause: { [start] deadline in
                try await ContinuousClock().sleep(until: start + deadline - self.state.withLock { $0.passed })
            })
    }
}
