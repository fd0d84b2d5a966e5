import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import TestSupport

@testable import SyncService

/// The store of a server of version 0.9, with one record of owners for clients and another for evidence.
///
/// Each line of the fixture is a key, the version of its entry and its value in base64. An unfinished transfer names
/// the version of a line's record, so it gets the version that the record has in the new store.
enum EarlierStore {
    /// The time at which the store was written, in milliseconds since 1970 UTC.
    static let time: Int64 = EvidenceStage.start + 4_000_000
    static let names = ["alice", "bob", "carol", "dave", "erin"]
    /// The transactions with an owner: the id, the line, and the store.
    static let sales: [Sale] = {
        let date = EvidenceStage.start
        var sales = ["c1", "c2", "a/b%c", "p1", "d1", "a1", "t1", "s1", "s2", "e1", "e2", "f1", "f2", "g1"].map {
            Sale($0, at: date)
        }
        sales += [Sale.month("10", of: "10", at: date), Sale.month("11", of: "10", at: date)]
        sales += [Sale.month("30", of: "30", at: date), Sale.month("31", of: "30", at: date)]
        var stripe = Sale.month("i1", of: "s9", at: date)
        stripe.store = "stripe"
        return sales + [stripe]
    }()

    private static let file = "Tests/EarlierStores/owners.txt"
    static let answersFile = Repository.file("Tests/EarlierStores/owners-answers.txt")

    static func load(_ text: String? = nil) async throws -> HookedBackend {
        let store = HookedBackend()
        let text = try text ?? String(contentsOf: Repository.file(file), encoding: .utf8)
        var versions: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: " ").map(String.init)
            guard parts.count == 3, let value = Data(base64Encoded: parts[2]) else { throw CancellationError() }
            var words = String(decoding: value, as: UTF8.self)
            let isJournal = parts[0].hasPrefix("server/transfers/")
            for (former, new) in versions where isJournal { words = words.replacing(former, with: new) }
            let bytes = isJournal ? Array(words.utf8) : Array(value)
            let outcome = try await store.write(bytes, to: try EntryKey(parts[0]), if: .any).outcome
            guard case .written(let version) = outcome else { throw CancellationError() }
            versions[parts[1]] = "\(version)"
        }
        return store
    }

    /// Opens a server on the store and describes the owners, and the answers to a newcomer who claims, proves and
    /// restores everything.
    static func answers(_ load: () async throws -> HookedBackend) async throws -> [String] {
        var words: [String] = []
        for act in ["claims", "proves", "restores"] {
            let store = try await load()
            let clock = TestClock(time)
            let service = try await EvidenceStage.open(store, clock, .trusted, .transfer)
            if act == "claims" {
                for name in names { words.append(try await state(of: name, service)) }
                let audit = try await AuditLog(store: store).entries()
                words += audit.map { "audit \($0.act) \($0.account) \($0.line) \($0.detail)" }
            }
            let zoe = await LedgerAccount(service, "zoe")
            if act == "claims" {
                let facts = sales.map { sale in
                    Fact.purchase(
                        Purchase(
                            transaction: sale.reference, product: "owl", terms: nil,
                            date: Timestamp(milliseconds: EvidenceStage.start),
                            stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
                }
                words.append("claims \(await zoe.put(facts).status)")
                words.append(try await state(of: "zoe", service))
                for _ in 0..<8 {
                    clock.advance(seconds: 61)
                    _ = await zoe.get()
                }
            } else {
                for sale in sales {
                    let items = [["kind": "app-store-transaction", "jws": try StoreMint.jws(sale.signed(at: time))]]
                    let reply = await service.ask(
                        .post, "/v1/transactions", token: zoe.token,
                        json: ["evidence": items, "restore": act == "restores"])
                    words.append("\(act) \(sale.id) \(reply.status) \(reply.results)")
                }
            }
            for name in names + ["zoe"] { words.append(try await state(of: name, service)) }
        }
        return words
    }

    private static func state(of name: String, _ service: EntitlementService) async throws -> String {
        let session = await AccountOwner(service, name).logIn()
        guard let token = session["access_token"], let incarnation = session["incarnation"] else {
            return "\(name): \(session.status)"
        }
        let export = await service.ask(.get, "/v1/accounts/self/export", token: token)
        let lines = (export.members["lines"] as? [[String: Any]] ?? []).map { line in
            "\(line["transactionID"] ?? "?")@\(line["since"] ?? "?")"
        }
        let reply = await service.ask(.get, "/v1/kv/accounts/\(name)/\(incarnation)/decisions", token: token)
        let ledger = reply.status == 200 ? try LedgerDocument(decoding: reply.body).ledger : Ledger()
        let facts = ServerLedger(ledger).facts.compactMap { fact -> String? in
            switch fact {
            case .purchase(let purchase): "purchase \(purchase.transaction) of \(purchase.line)"
            case .acceptance(let acceptance): "\(acceptance.transaction) \(acceptance.decision)"
            default: nil
            }
        }
        return "\(name): \(lines) \(facts.sorted().joined(separator: "; "))"
    }
}
