import EntitlementSync
import Entitlements
import EntitlementsTestSupport
import Foundation
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore

@testable import SyncService

/// A random history of three accounts that claim, prove, restore and lose purchases, and its outcome after each step.
struct OwnerHistory {
    private let stage: EvidenceStage
    private let ownership: ServiceConfiguration.Ownership
    /// True if clients also report transactions whose line is proved by other transactions, and if evidence may state
    /// another line for a known transaction.
    private let isWild: Bool
    private var random: SplitMix64
    private var accounts: [String: LedgerAccount] = [:]
    /// The facts in each account's ledger.
    private var reported: [String: [Fact]] = [:]
    private var auditCount = 0
    /// The steps, their answers, and the owners after each step.
    private(set) var trace: [String] = []

    private init(seed: UInt64, isWild: Bool) async throws {
        random = SplitMix64(seed: seed)
        ownership = random.pick([.keepWithFirst, .transfer, .share])
        self.isWild = isWild
        let policy: TrustPolicy = random.chance(3, in: 4) ? .trusted : .verified
        stage = try await EvidenceStage(policy, ownership)
        accounts = ["alice": stage.alice, "bob": stage.bob, "carol": await LedgerAccount(stage.service, "carol")]
        trace = ["\(policy) \(ownership)"]
    }

    /// Performs the history of `seed`.
    static func trace(seed: UInt64, isWild: Bool = false, stepCount: Int = 16) async throws -> [String] {
        var history = try await OwnerHistory(seed: seed, isWild: isWild)
        for _ in 0..<stepCount { try await history.step() }
        return history.trace
    }

    private var names: [String] { ["alice", "bob", "carol"] }

    private mutating func account() throws -> LedgerAccount {
        guard let account = accounts[random.pick(names)] else { throw CancellationError() }
        return account
    }

    private mutating func step() async throws {
        var words: String
        switch random.int(0...19) {
        case 0...4: words = try await report()
        case 5...8: words = try await send(isRestore: false)
        case 9...10: words = try await send(isRestore: true)
        case 11...13: words = try await notify()
        case 14: words = try await transferBySupport()
        case 15: words = try await erase()
        case 16...17: words = try await advance()
        default:
            let account = try account()
            words = "read \(account.name): \(await account.get().status)"
        }
        let entries = try await AuditLog(store: stage.store).entries(after: auditCount)
        auditCount += entries.count
        for entry in entries { words += "\n audit \(entry.act) \(entry.account) \(entry.line) \(entry.detail)" }
        for name in names { words += "\n \(name):" + (try await state(of: name)) }
        trace.append(words)
    }

    /// A sale whose line is the sale itself, a copy of one, or a period of a subscription.
    private mutating func sale() -> Sale {
        let date = EvidenceStage.start
        switch random.int(0...5) {
        case 0: return Sale("1", at: date, signed: stage.now)
        case 1: return Sale("2", at: date, signed: stage.now)
        case 2: return Sale("1", at: date).restored(as: "3", at: stage.now)
        case 3: return Sale.month("10", of: "10", at: date).signed(at: stage.now)
        case 4: return Sale.month("11", of: "10", at: date + 30 * EvidenceStage.day).signed(at: stage.now)
        default:
            var sale = Sale.month("12", of: "10", at: date + 60 * EvidenceStage.day).signed(at: stage.now)
            if isWild, random.chance(1, in: 2) { sale.original = "12" }
            return sale
        }
    }

    private mutating func report() async throws -> String {
        let account = try account()
        let ids = isWild ? ["1", "2", "3", "10", "11", "12"] : ["2", "3", "11", "12", "20", "21"]
        let id = random.pick(ids)
        let fact = Fact.purchase(
            Purchase(
                transaction: TransactionReference(store: .appStore, id: TransactionID(id)), product: "owl", terms: nil,
                date: Timestamp(milliseconds: stage.now), stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
        var facts = reported[account.name] ?? []
        let isFirst = facts.isEmpty
        if !facts.contains(where: { $0.transaction == fact.transaction }) { facts.append(fact) }
        reported[account.name] = facts
        let reply = await account.put(facts, isFirst ? [.ifNoneMatch: "*"] : [.ifMatch: "*"])
        return "report \(id) \(account.name): \(reply.status)"
    }

    private mutating func send(isRestore: Bool) async throws -> String {
        let account = try account()
        var sales = [sale()]
        if random.chance(1, in: 3) { sales.append(sale()) }
        // The first transaction of a line comes with the others, unless the history is wild.
        if !isWild {
            for sale in sales where sale.original == "10" && sale.id != "10" {
                sales.append(Sale.month("10", of: "10", at: EvidenceStage.start).signed(at: stage.now))
            }
            for sale in sales where sale.original == "1" {
                sales.append(Sale("1", at: EvidenceStage.start, signed: stage.now))
            }
        }
        if random.chance(1, in: 3) {
            let token = await stage.token(of: try self.account())
            for index in sales.indices { sales[index].token = token }
        }
        let reply = try await stage.send(sales, as: account, isRestore: isRestore)
        let ids = sales.map(\.id).joined(separator: ",")
        return "\(isRestore ? "restore" : "send") \(ids) \(account.name): \(reply.status) \(reply.results)"
    }

    private mutating func notify() async throws -> String {
        var sale = sale()
        if !isWild, sale.original == "1" { sale = Sale("1", at: EvidenceStage.start, signed: stage.now) }
        if random.chance(1, in: 4) { sale = sale.refunded(at: stage.now) }
        var named = "-"
        if random.chance(1, in: 2) {
            let account = try account()
            (sale.token, named) = (await stage.token(of: account), account.name)
        }
        return "notify \(sale.id) \(named): \(try await stage.notify(sale).status)"
    }

    private mutating func transferBySupport() async throws -> String {
        let account = try account()
        let id = random.pick(["1", "2", "20"])
        let evidence = Evidence.reported(
            "owl", transaction: TransactionID(id), date: Timestamp(milliseconds: EvidenceStage.start), store: .appStore)
        let order = SupportActs.Order(
            account: account.name, act: "record", summary: "purchase", operatorName: "olga", reason: "ticket",
            isTransfer: random.chance(2, in: 3))
        let words = "support \(id) \(account.name) \(order.isTransfer)"
        do {
            let outcome = try await stage.supportActs(ownership).record(evidence, order)
            return words + ": from \(outcome.formerOwners.map { $0.name ?? "" })"
        } catch {
            return words + ": \(error)"
        }
    }

    private mutating func erase() async throws -> String {
        let account = try account()
        let status = await AccountOwner(stage.service, account.name).erase(token: account.token).status
        accounts[account.name] = await LedgerAccount(stage.service, account.name)
        reported[account.name] = nil
        return "erase \(account.name): \(status)"
    }

    private mutating func advance() async throws -> String {
        let seconds: Int64 = random.pick([1, 61, 600, 3_700, 90_000])
        stage.clock.advance(seconds: seconds)
        for name in names { accounts[name] = await accounts[name]?.at(stage.service) }
        return "advance \(seconds)"
    }

    /// The lines of an account, and the content of its server ledger without logical times.
    private func state(of name: String) async throws -> String {
        guard let account = accounts[name] else { throw CancellationError() }
        let export = await stage.service.ask(.get, "/v1/accounts/self/export", token: account.token)
        let lines = (export.members["lines"] as? [[String: Any]] ?? []).map { line in
            "\(line["transactionID"] ?? "?")@\(line["since"] ?? "?")"
        }
        let facts = try await stage.serverLedger(of: account).facts.compactMap { fact -> String? in
            switch fact {
            case .purchase(let purchase): "purchase \(purchase.transaction) of \(purchase.line)"
            case .revocation(let revocation):
                "revocation \(revocation.transaction) \(revocation.revokedAt.map { "\($0)" } ?? "-")"
            case .acceptance(let acceptance): "\(acceptance.transaction) \(acceptance.decision)"
            default: nil
            }
        }
        let rights = await stage.rights(of: account).sorted()
        return "\(lines) \(rights) \(facts.sorted().joined(separator: "; "))"
    }
}
