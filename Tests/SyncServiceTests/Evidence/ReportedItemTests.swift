import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Synchronization
import Testing

@testable import SyncService

@Suite("Purchases that clients report as JSON")
struct ReportedItemTests {
    private static func bought(_ product: String, _ transaction: String) -> [String: any Sendable] {
        ReportingStage.bought(product, transaction)
    }

    private static func spend(_ id: String) -> [String: any Sendable] { ReportingStage.spend(id) }

    private let day = EvidenceStage.day

    @Test("Each kind of item is recorded as the library records it, and counts for the account")
    func kinds() async throws {
        let stage = try await ReportingStage()
        #expect(await stage.report(Self.bought("owl", "1")) == ["purchase, recording"])
        #expect(await stage.access(to: "owl") == "granted")
        #expect(await stage.report(["kind": "refunded", "transaction": "1", "reason": "asked"]) == ["revocation"])
        #expect(await stage.access(to: "owl") == "revoked")
        #expect(await stage.report(["kind": "reinstated", "transaction": "1"]) == ["reinstatement"])
        #expect(await stage.access(to: "owl") == "granted")
        #expect(await stage.report(["kind": "refunded", "transaction": "1"]) == ["revocation"])
        #expect(await stage.report(["kind": "flag", "product": "owl", "set": true]) == ["flag set"])
        #expect(await stage.access(to: "owl") == "granted")
        #expect(await stage.report(["kind": "flag", "product": "owl", "set": false]) == ["flag cleared"])
        #expect(await stage.report(["kind": "pending", "product": "coins"]) == ["pending"])
        #expect(await stage.access(to: "coin") == "pendingApproval")
        #expect(await stage.report(["kind": "withdrawn", "product": "coins"]) == ["withdrawn"])
        #expect(await stage.access(to: "coin") == "notPurchased")
        #expect(
            await stage.report(Self.bought("coins", "2"), Self.spend("a")) == ["purchase, recording", "spend, 2 left"])
    }

    @Test("A reported purchase keeps its date, quantity, end, line, store and environment")
    func members() async throws {
        let stage = try await ReportingStage()
        let date = Timestamp(milliseconds: stage.stage.now - 10 * day)
        let end = Timestamp(milliseconds: stage.stage.now + 20 * day)
        let month: [String: any Sendable] = [
            "kind": "reported", "product": "month", "transaction": "m2", "original": "m1", "date": "\(date)",
            "expires": "\(end)", "store": "shop",
        ]
        let two: [String: any Sendable] = [
            "kind": "reported", "product": "three", "transaction": "n1", "quantity": 2, "environment": "sandbox",
        ]
        #expect(await stage.report(month, two) == ["purchase, recording", "purchase, recording"])
        let ledger = try LedgerDocument(decoding: await stage.alice.get().body).ledger
        let facts = Facts(account: ledger)
        let purchase = try #require(facts[TransactionReference(store: "shop", id: "m2")])
        #expect(purchase.date == date && purchase.storeExpiry == end && purchase.originalID == "m1")
        #expect(facts[TransactionReference(environment: "sandbox", id: "n1")]?.quantity == 2)
        #expect(await stage.stage.rights(of: stage.alice) == ["owls"])
        #expect(await stage.stage.rights(of: stage.alice, environment: "sandbox") == ["nights", "coin"])
    }

    @Test("A transaction id that is a JSON number is the id with its digits")
    func numbers() async throws {
        let stage = try await ReportingStage()
        let bought: [String: any Sendable] = [
            "kind": "reported", "product": "month", "transaction": 2_000_000_123, "original": 2_000_000_001,
            "expires": "\(Timestamp(milliseconds: stage.stage.now + 20 * day))",
        ]
        #expect(await stage.report(bought) == ["purchase, recording"])
        let facts = Facts(account: try LedgerDocument(decoding: await stage.alice.get().body).ledger)
        #expect(facts[TransactionReference(store: .reported, id: "2000000123")]?.originalID == "2000000001")
        var text = bought
        (text["transaction"], text["original"]) = ("2000000123", "2000000001")
        #expect(await stage.report(text) == [""])
        #expect(await stage.report(["kind": "refunded", "transaction": 2_000_000_123]) == ["revocation"])
        let rounded = await stage.send([["kind": "refunded", "transaction": 9_007_199_254_740_992]])
        #expect(rounded.reported == ["invalid"])
        #expect(rounded.details[0].contains("transaction: an id is a text, or a whole number below 2^53"))
    }

    @Test("The same request again writes nothing and returns no facts, after a restart and at another server too")
    func idempotent() async throws {
        let stage = try await ReportingStage()
        let items: [[String: any Sendable]] = [
            Self.bought("owl", "1"), Self.bought("coins", "2"), ["kind": "refunded", "transaction": "1"],
            Self.spend("a"),
            ["kind": "flag", "product": "owl", "set": true], ["kind": "pending", "product": "three"],
        ]
        let first = await stage.send(items).reported
        #expect(
            first == [
                "purchase, recording", "purchase, recording", "revocation", "spend, 2 left", "flag set", "pending",
            ])
        let version = try await stage.version(of: stage.alice)
        stage.stage.clock.advance(seconds: 60)
        let writes = Mutex(0)
        stage.stage.store.before { key, _ in
            if key.text.hasSuffix("/ledger") || key.text.hasPrefix("tx/") { writes.withLock { $0 += 1 } }
        }
        #expect(await stage.send(items).reported == ["", "", "", "2 left", "", ""])
        let other = try await EvidenceStage.open(
            stage.stage.store, stage.stage.clock, .trusted, .keepWithFirst, catalog: ReportingStage.catalog)
        #expect(await stage.send(items, as: stage.alice.at(other)).reported == ["", "", "", "2 left", "", ""])
        #expect(writes.withLock { $0 } == 0)
        #expect(try await stage.version(of: stage.alice) == version)
    }

    @Test("Items take effect in their order, also about one transaction")
    func order() async throws {
        let stage = try await ReportingStage()
        let items: [[String: any Sendable]] = [
            Self.spend("early"), Self.bought("coins", "1"), Self.spend("a"), Self.spend("a"), Self.spend("b"),
            Self.spend("c"), Self.spend("d"), ["kind": "refunded", "transaction": "1"],
            ["kind": "reinstated", "transaction": "1"], Self.bought("owl", "2"), Self.bought("owl", "2"),
        ]
        #expect(
            await stage.send(items).reported == [
                "none-left", "purchase, recording", "spend, 2 left", "2 left", "spend, 1 left", "spend, 0 left",
                "none-left", "revocation", "reinstatement", "purchase, recording", "",
            ])
        #expect(await stage.access(to: "coin") == "usedUp")
        #expect(await stage.stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("A period covers a spend, which then takes no unit")
    func covered() async throws {
        let stage = try await ReportingStage()
        #expect(
            await stage.report(Self.bought("coins", "1"), Self.bought("three", "2"), Self.spend("a")) == [
                "purchase, recording", "purchase, recording", "",
            ])
        stage.stage.clock.advance(seconds: 100 * 86_400)
        #expect(await stage.report(Self.spend("a"), as: stage.alice.at(stage.stage.service)) == ["spend, 2 left"])
    }

    @Test("A problem concerns one item, has its code, and says what is wrong")
    func problems() async throws {
        let stage = try await ReportingStage()
        #expect(await stage.report(Self.bought("owl", "1")) == ["purchase, recording"])
        let cases: [([String: any Sendable], code: String, text: String)] = [
            (Self.bought("nothing", "2"), "unknown-product", "no product \"nothing\""),
            (["kind": "pending", "product": "nothing"], "unknown-product", "no product"),
            (["kind": "flag", "product": "nothing", "set": true], "unknown-product", "no product"),
            (
                ["kind": "spend", "entitlement": "nothing", "id": "a"], "unknown-entitlement",
                "no entitlement \"nothing\""
            ),
            (["kind": "flag", "product": "three", "set": true], "invalid", "only a nonConsumable has a flag"),
            (["kind": "reported", "product": "owl", "transaction": "3", "quantity": 0], "invalid", "1 to 10,000"),
            (["kind": "reported", "product": "owl", "transaction": "3", "quantity": "1"], "invalid", "quantity"),
            (["kind": "reported", "product": "owl", "transaction": "3", "date": "today"], "invalid", "date"),
            (["kind": "reported", "product": "owl"], "invalid", "transaction: this is missing"),
            (["kind": "reported", "transaction": "3"], "invalid", "product: this is missing"),
            (["kind": "reported", "product": 1, "transaction": "3"], "invalid", "product: a string is expected"),
            (["kind": "reported", "product": "owl", "transaction": ""], "invalid", "transaction"),
            (["kind": "refunded"], "invalid", "transaction: this is missing"),
            (["kind": "flag", "product": "owl"], "invalid", "set: this is missing"),
            (["kind": "spend", "entitlement": "coin"], "invalid", "id: this is missing"),
            (["kind": "spend", "entitlement": "coin", "id": "\u{1}"], "invalid", "spend id"),
            (Self.bought("three", "1"), "contradiction", "already recorded differently"),
            (Self.spend("a"), "none-left", "no unit of \"coin\" is left"),
            (["kind": "borrowed"], "evidence-refused", "reported"),
        ]
        let reply = await stage.send(cases.map(\.0) + [Self.bought("three", "9")])
        #expect(reply.status == 200)
        for ((item, code, text), (got, detail)) in zip(cases, zip(reply.reported, reply.details)) {
            #expect(got == code && detail.contains(text), "\(item): \(got): \(detail)")
        }
        #expect(reply.reported.last == "purchase, recording", "one bad item spoils no other")
        #expect(await stage.stage.rights(of: stage.alice) == ["owl", "nights", "coin"])
    }

    @Test("Units that stay on a device cannot be reported to a server, and the refusal names the policy")
    func deviceLocal() async throws {
        let stage = try await ReportingStage(
            catalog: ReportingStage.catalog.replacing("\"shared\"", with: "\"deviceLocal\""))
        let reply = await stage.send([Self.bought("coins", "1"), Self.spend("a"), Self.bought("owl", "2")])
        #expect(reply.reported == ["invalid", "none-left", "purchase, recording"])
        #expect(reply.details[0].contains("\"consumables\": \"shared\""))
    }

    @Test("Under the policy verified, what could grant asks for evidence, and what takes away is recorded")
    func verified() async throws {
        let stage = try await ReportingStage(.verified)
        let reply = await stage.send([
            Self.bought("owl", "1"), ["kind": "reinstated", "transaction": "1"],
            ["kind": "flag", "product": "owl", "set": true], ["kind": "refunded", "transaction": "1"],
            ["kind": "flag", "product": "owl", "set": false], ["kind": "pending", "product": "three"], Self.spend("a"),
        ])
        #expect(
            reply.reported == [
                "evidence-required", "evidence-required", "evidence-required", "revocation", "", "pending", "none-left",
            ])
        #expect(reply.details[0].contains("send the store's evidence"))
        #expect(await stage.stage.rights(of: stage.alice).isEmpty)
        #expect(await stage.access(to: "nights") == "pendingApproval")
    }

    @Test("Evidence and reports in one request are recorded together, the evidence first")
    func mixed() async throws {
        let stage = try await ReportingStage(.verified)
        var sale = Sale("1", at: stage.stage.now)
        sale.product = "coins"
        let signed: [String: any Sendable] = ["kind": "app-store-transaction", "jws": try StoreMint.jws(sale)]
        #expect(await stage.report(Self.spend("a"), signed) == ["spend, 2 left", "purchase, reinstatement"])
    }

    @Test("A client's refund of a purchase that its store has signed is a contradiction")
    func signedRefund() async throws {
        let stage = try await ReportingStage()
        #expect(try await stage.stage.send([Sale("1", at: stage.stage.now)], as: stage.alice).results == ["2"])
        #expect(
            await stage.report(["kind": "refunded", "transaction": "1", "store": "app-store"]) == ["contradiction"])
        #expect(await stage.stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("A purchase dated in the future counts from the server's time")
    func future() async throws {
        let stage = try await ReportingStage()
        let date = Timestamp(milliseconds: stage.stage.now + 300 * day)
        let item: [String: any Sendable] = [
            "kind": "reported", "product": "three", "transaction": "1", "date": "\(date)",
        ]
        #expect(await stage.report(item) == ["purchase, recording"])
        #expect(await stage.stage.rights(of: stage.alice) == ["nights", "coin"])
        #expect(await stage.report(item) == [""])
    }

    @Test("A server without a catalogue names what is missing")
    func noCatalog() async throws {
        let service = try await EntitlementService.open(MemoryBackend())
        let account = await LedgerAccount(service, "alice")
        let reply = await service.ask(
            .post, "/v1/transactions", token: account.token, json: ["evidence": [["kind": "pending", "product": "x"]]])
        #expect(reply.reported == ["not-configured"] && reply.details[0].contains("--catalog"))
    }

    @Test("A request has at most 100 items, and all of them are written at once")
    func counts() async throws {
        let stage = try await ReportingStage()
        let writes = Mutex(0)
        stage.stage.store.before { key, _ in if key.text.hasSuffix("/ledger") { writes.withLock { $0 += 1 } } }
        let items = (0..<100).map { Self.bought("owl", "\($0)") }
        #expect(await stage.send(items).reported == Array(repeating: "purchase, recording", count: 100))
        #expect(writes.withLock { $0 } == 1)
        let long = await stage.send(items + [Self.bought("owl", "100")])
        #expect(long.status == 400 && long.problem?.detail.contains("1 to 100 items, not 101") == true)
        #expect(await stage.send([]).status == 400)
    }

    @Test("A ledger that is full refuses each purchase and keeps what it has")
    func full() async throws {
        let stage = try await ReportingStage()
        #expect(await stage.report(Self.bought("owl", "1")) == ["purchase, recording"])
        var ledger = try LedgerDocument(decoding: await stage.alice.get().body).ledger
        // Leaves room for one purchase.
        for (number, room) in [900, 0, 0, 0].enumerated().reversed() {
            let count = min(
                LedgerLimits.maximumPartByteCount, LedgerLimits.standard.byteCount - ledger.byteCount - room)
            let payload = [UInt8](repeating: 7, count: count)
            ledger = ledger.joined(
                with: Ledger([Record(key: [0xA2, 0x01, 1, UInt8(number)], order: [], payload: payload)]))
        }
        let bytes = LedgerDocument(ledger: ledger).encoded()
        _ = try await stage.stage.store.write(bytes, to: stage.alice.ledger, if: .any)
        let many = (0..<3).map { Self.bought("owl", "\($0)-" + String(repeating: "x", count: 240)) }
        #expect(await stage.send(many).reported == ["purchase, recording", "ledger-full", "ledger-full"])
        stage.stage.clock.advance(seconds: 600)
        #expect(await stage.stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("A long ledger takes fewer items at once, and a refused request records nothing")
    func tooLong() async throws {
        let stage = try await ReportingStage()
        let payload = [UInt8](repeating: 7, count: LedgerLimits.maximumPartByteCount - 1_000)
        let records = (0..<3).map { Record(key: [0xA2, 0x01, 1, UInt8($0)], order: [], payload: payload) }
        let bytes = LedgerDocument(ledger: Ledger(records)).encoded()
        _ = try await stage.stage.store.write(bytes, to: stage.alice.ledger, if: .any)
        let version = try await stage.version(of: stage.alice)
        let items = (0..<11).map { Self.bought("owl", "\($0)") }
        let long = await stage.send(items)
        #expect(long.status == 413 && long.problem?.detail.contains("send fewer") == true)
        #expect(try await stage.version(of: stage.alice) == version)
        stage.stage.clock.advance(seconds: 60)
        #expect(await stage.send(Array(items.prefix(10))).reported.last == "purchase, recording")
    }
}
