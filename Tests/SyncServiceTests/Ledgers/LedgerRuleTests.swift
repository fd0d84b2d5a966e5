import EntitlementSync
import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import TestSupport
import Testing

/// Encoded ledgers.
enum LedgerDocumentBytes {
    static let erased = LedgerDocument(ledger: .erased).encoded()

    static func of(_ facts: [Fact]) -> [UInt8] { LedgerDocument(ledger: Ledger(facts.map(\.record))).encoded() }
}

@Suite("The server's rules for ledgers")
struct LedgerRuleTests {
    private static let now: Int64 = 1_800_000_000_000
    private let store = MemoryBackend()
    private let clock = TestClock(Self.now)
    private let service: EntitlementService
    private let session: Reply
    private let path: String

    init() async throws {
        let catalog = try Catalog(
            json: Array(
                """
                {"products":[{"id":"three","type":"nonRenewing","group":"owls","duration":"P3M"},
                  {"id":"owl","type":"nonConsumable"}],
                 "entitlements":[{"id":"owls","grantedBy":["group:owls"]}]}
                """.utf8))
        service = try await .open(
            store, clock: clock,
            configure: { configuration in
                configuration.catalog = catalog
                configuration.catalogJSON = Array("{}".utf8)
            })
        session = await service.ask(.post, "/v1/accounts", json: ["name": "alice", "password": "correct horse"])
        path = "/v1/kv/accounts/alice/\(session["incarnation"] ?? "")/"
    }

    private func purchase(
        _ id: String, _ product: String = "three", daysFromNow days: Int64 = 0, quantity: Int64 = 1, time: UInt64 = 1
    ) -> Fact {
        .purchase(
            Purchase(
                transaction: TransactionReference(id: TransactionID(id)), product: ProductID(product), terms: nil,
                date: Timestamp(milliseconds: Self.now + days * 86_400_000), quantity: quantity,
                stamp: Stamp(logicalTime: LogicalTime(rawValue: time))))
    }

    private func put(
        _ bytes: [UInt8], _ fields: HTTPFields = [.ifNoneMatch: "*"], as session: Reply? = nil, _ key: String = "ledger"
    ) async -> Reply {
        let session = session ?? self.session
        let path = "/v1/kv/accounts/\(session["account"] ?? "")/\(session["incarnation"] ?? "")/\(key)"
        return await service.ask(.put, path, token: session["access_token"], fields, body: bytes)
    }

    private func get(_ key: String = "ledger", as session: Reply? = nil) async -> Reply {
        let session = session ?? self.session
        let path = "/v1/kv/accounts/\(session["account"] ?? "")/\(session["incarnation"] ?? "")/\(key)"
        return await service.ask(.get, path, token: session["access_token"])
    }

    private func matching(_ reply: Reply) -> HTTPFields {
        reply.fields[.eTag].map { [.ifMatch: $0] } ?? [:]
    }

    @Test("A ledger grows, and is stored byte for byte as it was sent")
    func growing() async throws {
        let first = LedgerDocumentBytes.of([purchase("1")])
        let written = await put(first)
        #expect(written.status == 200)
        #expect(await get().body == first)
        let second = LedgerDocumentBytes.of([purchase("1"), purchase("2")])
        #expect(await put(second, matching(written)).status == 200)
        #expect(await put(second, [.ifMatch: "*"]).status == 200, "the same ledger again")
    }

    @Test("Records cannot be removed or replaced by lesser ones, and a ledger cannot be deleted or overwritten blindly")
    func takingBack() async throws {
        let full = LedgerDocumentBytes.of([purchase("1"), purchase("2", time: 9)])
        let written = await put(full)
        for poorer in [
            LedgerDocumentBytes.of([]), LedgerDocumentBytes.of([purchase("1")]),
            LedgerDocumentBytes.of([purchase("1"), purchase("2", time: 8)]),
            LedgerDocumentBytes.of([purchase("1"), purchase("3")]),
        ] {
            for fields in [matching(written), [.ifMatch: "*"]] {
                let reply = await put(poorer, fields)
                #expect(reply.status == 412 && reply.body == full && reply.fields[.eTag] == written.fields[.eTag])
            }
            let blind = await service.ask(
                .put, path + "ledger?if=any", token: session["access_token"], body: poorer)
            #expect(blind.status == 412 && blind.body == full)
        }
        for fields in [matching(written), [.ifMatch: "*"]] {
            let reply = await service.ask(.delete, path + "ledger", token: session["access_token"], fields)
            #expect(reply.status == 422 && reply.problem?.kind == "refused")
        }
        #expect(await get().body == full)
    }

    @Test("Records that only the server may write, and malformed ledgers, are refused")
    func forging() async throws {
        let transaction = TransactionReference(id: "1")
        let acceptance = Fact.acceptance(
            Acceptance(
                transaction: transaction, decision: .accepted, date: Timestamp(milliseconds: Self.now),
                logicalTime: LogicalTime(rawValue: 1)))
        var section = LedgerDocument(ledger: Ledger([purchase("1").record]))
        section.localSection = [1]
        let good = LedgerDocumentBytes.of([purchase("1")])
        for bytes in [
            LedgerDocumentBytes.erased, LedgerDocumentBytes.of([purchase("1"), acceptance]), section.encoded(), [],
            Array("hello".utf8), Array(good.dropLast()), good + [0],
        ] {
            let reply = await put(bytes)
            #expect(reply.status == 422 && reply.problem?.kind == "refused", "\(reply.status)")
        }
        let decisions = LedgerDocumentBytes.of([acceptance])
        #expect(await put(decisions, [.ifNoneMatch: "*"], as: nil, "decisions").status == 403)
        #expect(await get().status == 404, "nothing was stored")
        let account = await service.ask(
            .put, "/v1/kv/accounts/alice/account", token: session["access_token"], [.ifMatch: "*"], body: [1])
        #expect(account.status == 403)
    }

    @Test("A purchase dated in the future counts from the server's time, permanently")
    func future() async throws {
        let ledger = LedgerDocumentBytes.of([purchase("1", daysFromNow: 400), purchase("2", daysFromNow: 0)])
        let written = await put(ledger)
        #expect(written.status == 200)
        let tag = try #require(written.fields[HTTPField.Name(WireFields.decisions)!])
        #expect(await get().body == ledger, "the client's bytes are unchanged")
        #expect(await get().fields[HTTPField.Name(WireFields.decisions)!] == tag)
        let decisions = await get("decisions")
        #expect(decisions.status == 200 && decisions.fields[.eTag] == tag)
        let facts = Facts(account: Ledger(), server: try LedgerDocument(decoding: decisions.body).ledger)
        #expect(facts.acceptances.count == 1)
        #expect(
            facts.acceptances[TransactionReference(id: "1")]?.decision
                == .countsAsOf(Timestamp(milliseconds: Self.now)))
        let more = LedgerDocumentBytes.of([
            purchase("1", daysFromNow: 800, time: 2), purchase("2", daysFromNow: 0),
        ])
        #expect(await put(more, matching(written)).status == 200)
        #expect(await get("decisions").fields[.eTag] == tag, "a decision is final")
        let status = await service.ask(.get, "/v1/entitlements", token: session["access_token"])
        #expect(status.status == 200)
        #expect(String(decoding: status.body, as: UTF8.self).contains("\"active\": true"))
    }

    @Test("Another account's transaction is refused, and free again once that account is erased")
    func ownership() async throws {
        #expect(await put(LedgerDocumentBytes.of([purchase("1")])).status == 200)
        let mallory = await service.ask(.post, "/v1/accounts", json: ["name": "mallory", "password": "battery staple"])
        #expect(await put(LedgerDocumentBytes.of([purchase("1"), purchase("2")]), as: mallory).status == 200)
        let decisions = await get("decisions", as: mallory)
        let facts = Facts(account: Ledger(), server: try LedgerDocument(decoding: decisions.body).ledger)
        #expect(facts.acceptances.keys.map(\.id.rawValue) == ["1"])
        #expect(await get("decisions").status == 404, "the owner's purchases are not affected")
        let status = await service.ask(.get, "/v1/entitlements", token: mallory["access_token"])
        let periods = String(decoding: status.body, as: UTF8.self).components("transactionID")
        #expect(periods == 1, "only mallory's own transaction counts")
        let password: [String: any Sendable] = ["password": "correct horse"]
        #expect(
            await service.ask(
                .post, "/v1/accounts/self/erasure", token: session["access_token"], json: password
            ).status == 204)
        // An account that was refused in favour of an erased account gets the transaction that it recorded.
        #expect(await get(as: mallory).fields[HTTPField.Name(WireFields.decisions)!] != decisions.fields[.eTag])
        let later = try LedgerDocument(decoding: await get("decisions", as: mallory).body).ledger
        #expect(
            Facts(account: Ledger(), server: later).acceptances[TransactionReference(id: "1")]?.decision == .accepted)
        let restored = await service.ask(.get, "/v1/entitlements", token: mallory["access_token"])
        #expect(String(decoding: restored.body, as: UTF8.self).components("transactionID") == 2)
        #expect(await get(as: mallory).fields[.eTag] == get(as: mallory).fields[.eTag])
        let carol = await service.ask(.post, "/v1/accounts", json: ["name": "carol", "password": "correct horse"])
        #expect(await put(LedgerDocumentBytes.of([purchase("1")]), as: carol).status == 200)
        let refusal = try LedgerDocument(decoding: await get("decisions", as: carol).body).ledger
        #expect(
            Facts(account: Ledger(), server: refusal).acceptances.keys.map(\.id.rawValue) == ["1"],
            "the transaction belongs to mallory now")
    }

    @Test("A refusal ends once the transaction is free, although a restored copy represents the purchase")
    func freeCopy() async throws {
        func copy(_ id: String, signed minute: Int64) -> Fact {
            .purchase(
                Purchase(
                    transaction: TransactionReference(store: .appStore, id: TransactionID(id)), product: "owl",
                    terms: nil, date: Timestamp(milliseconds: Self.now), originalID: id == "100" ? nil : "100",
                    stamp: .signed(at: Timestamp(milliseconds: Self.now + minute * 60_000))))
        }
        #expect(await put(LedgerDocumentBytes.of([copy("100", signed: 0)])).status == 200)
        let mallory = await service.ask(.post, "/v1/accounts", json: ["name": "mallory", "password": "battery staple"])
        let both = [copy("100", signed: 0), copy("177", signed: 1)]
        #expect(await put(LedgerDocumentBytes.of(both), as: mallory).status == 200)
        func decision() async throws -> Acceptance.Decision? {
            let ledger = try LedgerDocument(decoding: await get("decisions", as: mallory).body).ledger
            let first = TransactionReference(store: .appStore, id: "100")
            return Facts(account: Ledger(), server: ledger).acceptances[first]?.decision
        }
        #expect(try await decision() == .refused("another account recorded this transaction first"))
        let password: [String: any Sendable] = ["password": "correct horse"]
        let erasure = await service.ask(
            .post, "/v1/accounts/self/erasure", token: session["access_token"], json: password)
        #expect(erasure.status == 204)
        _ = await get(as: mallory)
        #expect(try await decision() == .accepted)
    }

    @Test("Of many transactions at once, exactly those of another account are refused")
    func manyTransactions() async throws {
        let mine = (0..<700).map { purchase("\($0)", "owl") }
        #expect(await put(LedgerDocumentBytes.of(mine)).status == 200)
        let mallory = await service.ask(.post, "/v1/accounts", json: ["name": "mallory", "password": "battery staple"])
        let claimed = (400..<1_000).map { purchase("\($0)", "owl") }
        #expect(await put(LedgerDocumentBytes.of(claimed), as: mallory).status == 200)
        let decisions = try LedgerDocument(decoding: await get("decisions", as: mallory).body).ledger
        let refused = Facts(account: Ledger(), server: decisions).acceptances.keys.compactMap { Int($0.id.rawValue) }
        #expect(refused.sorted() == Array(400..<700))
    }

    @Test("A clock that was set back decides nothing and is not sent; one that was ahead can be accepted")
    func clockSetBack() async throws {
        let time = try #require(HTTPField.Name(WireFields.serverTime))
        let written = await put(LedgerDocumentBytes.of([purchase("1")]))
        let more = LedgerDocumentBytes.of([purchase("1"), purchase("2")])
        clock.advance(seconds: -86_400 * 400)
        let refused = await put(more, matching(written))
        #expect(refused.status == 503 && refused.problem?.disposition == "transient")
        let read = await get()
        #expect(read.status == 200 && read.fields[.eTag] == written.fields[.eTag] && read.fields[time] == nil)
        await expectKind(.unavailable) { try await service.checkReadiness() }
        // A restart does not help, unless the operator accepts the clock.
        let restarted = try await EntitlementService.open(store, clock: clock)
        await expectKind(.unavailable) { try await restarted.checkReadiness() }
        clock.advance(seconds: 86_400 * 400)
        try await service.checkReadiness()
        let accepted = await put(more, matching(written))
        #expect(accepted.status == 200 && accepted.fields[time] != nil)
        #expect(await get("decisions").status == 404, "nothing was dated")
        clock.advance(seconds: -86_400)
        let corrected = try await EntitlementService.open(store, clock: clock, configure: { $0.isClockAccepted = true })
        try await corrected.checkReadiness()
        try await EntitlementService.open(store, clock: clock).checkReadiness()
    }

    @Test("Hostile numbers cause no crash and have no effect")
    func hostileNumbers() async throws {
        var facts: [Fact] = []
        for (index, quantity) in [Int64.max, .min, 0, -1, 10_001, 10_000].enumerated() {
            var fact = purchase("q\(index)", quantity: quantity)
            if case .purchase(var purchase) = fact {
                purchase.terms = Terms(
                    kind: .nonRenewing(
                        group: "owls", duration: CalendarDuration(months: .max, days: .max, seconds: .max)))
                fact = .purchase(purchase)
            }
            facts.append(fact)
        }
        facts.append(
            .purchase(
                Purchase(
                    transaction: TransactionReference(id: "dates"), product: "three", terms: nil,
                    date: Timestamp(milliseconds: .max), quantity: 10_000, stamp: Stamp(logicalTime: .zero))))
        let reply = await put(LedgerDocumentBytes.of(facts))
        #expect([200, 422].contains(reply.status))
        for at in ["", "?at=9999-12-31T23:59:59Z", "?at=0001-01-01", "?at=soon"] {
            let status = await service.ask(.get, "/v1/entitlements" + at, token: session["access_token"])
            #expect(status.status == (at == "?at=soon" ? 400 : 200), "\(at)")
        }
    }

    @Test("A client with the current catalogue gets 304, and a malformed condition is refused")
    func catalogue() async throws {
        let tag = try #require(await service.ask(.get, "/v1/catalog").fields[.eTag])
        for (condition, status) in [
            (tag, 304), ("W/" + tag, 304), ("\"0f\", " + tag, 304), ("*", 304), ("\"0f\"", 200), ("0f", 400), ("", 400),
        ] {
            let answer = await service.ask(.get, "/v1/catalog", [.ifNoneMatch: condition])
            #expect(answer.status == status, "\(condition)")
        }
    }

    @Test("A ledger beyond the limits is refused by size")
    func limits() async throws {
        let records = (0..<100_001).map { Record(key: Array("k\($0)".utf8), order: [], payload: []) }
        let reply = await put(LedgerDocument(ledger: Ledger(records)).encoded())
        #expect(reply.status == 413)
    }
}

extension String {
    /// The number of occurrences of `part`.
    fileprivate func components(_ part: String) -> Int { ranges(of: part).count }
}
