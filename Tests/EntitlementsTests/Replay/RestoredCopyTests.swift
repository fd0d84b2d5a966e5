import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("The App Store names a purchase anew on each device, and it stays one purchase")
struct RestoredCopyTests {
    private let catalog: Catalog
    private let start = Timestamp(milliseconds: 1_767_225_600_000)  // 2026-01-01

    init() throws { catalog = try RandomLife.catalog() }

    /// A statement about a yearly period, or about the non-consumable if it has no end.
    private func purchase(
        _ id: TransactionID, of original: TransactionID? = "100", _ product: ProductID = "yearly", signed: Int64? = 1,
        _ change: (inout Purchase) -> Void = { _ in }
    ) -> Fact {
        let isYear = product == "yearly"
        var purchase = Purchase(
            transaction: TransactionReference(store: .appStore, id: id), product: product,
            terms: catalog.terms(of: product), date: start, originalID: original == id ? nil : original,
            storeExpiry: isYear ? start.moved(365 * RandomLife.day) : nil,
            stamp: Stamp(signedDate: signed.map(at), logicalTime: LogicalTime(rawValue: 1)))
        change(&purchase)
        return .purchase(purchase)
    }

    private func at(_ hour: Int64) -> Timestamp { start.moved(hour * 3_600_000) }

    private func status(_ id: TransactionID, revoked: Int64?, signed: Int64?, upgraded: Int64? = nil) -> Fact {
        .revocation(
            Revocation(
                transaction: TransactionReference(store: .appStore, id: id), revokedAt: revoked.map(at),
                upgradedAt: upgraded.map(at),
                stamp: Stamp(signedDate: signed.map(at), logicalTime: LogicalTime(rawValue: 2))))
    }

    /// The access in hour 100 as each side knows it: a server that verified the facts, and a device that did.
    private func rights(_ facts: [Fact], reported: [Fact] = [], _ policy: TrustPolicy = .trusted) -> [Set<
        EntitlementID
    >] {
        var server = ServerLedger()
        _ = server.set(policy, at: start)
        for fact in facts { _ = server.add([fact], catalog: catalog, at: start) }
        let own = Ledger(reported.map(\.record))
        var sides = [Facts(account: own, server: server.ledger)]
        if policy == .trusted { sides.append(Facts(account: Ledger((facts + reported).map(\.record)))) }
        return sides.map { side in
            let snapshot = Replay(side, catalog: catalog).snapshot(at: at(100))
            return Set(snapshot.access.filter(\.access.isGranted).map(\.entitlement))
        }
    }

    @Test("A refund of the first transaction ends the access of its restored copies", arguments: ["yearly", "owl"])
    func refundOfFirst(product: ProductID) {
        let entitlement = EntitlementID(product.rawValue)
        let facts = [
            purchase("100", product), status("100", revoked: nil, signed: 1), purchase("177", product, signed: 2),
        ]
        #expect(rights(facts) == [[entitlement], [entitlement]])
        #expect(rights(facts + [status("100", revoked: 50, signed: 51)]) == [[], []])
        #expect(rights([status("100", revoked: 50, signed: 51)] + facts) == [[], []])
        // An older statement about the copy revives nothing; a later one is the reversal of the refund.
        let refunded = facts + [status("100", revoked: 50, signed: 51)]
        #expect(rights(refunded + [status("177", revoked: nil, signed: 40)]) == [[], []])
        #expect(rights(refunded + [status("177", revoked: nil, signed: 60)]) == [[entitlement], [entitlement]])
    }

    @Test("A refund of a copy reaches what a client reported as the first transaction")
    func refundOfCopy() {
        let facts = [purchase("177"), status("177", revoked: 50, signed: 51)]
        #expect(rights(facts, reported: [purchase("100", signed: nil)]) == [[], []])
        #expect(rights(facts, reported: [purchase("188", signed: nil)], .verified) == [[]])
        // A client cannot reinstate what the server knows to be refunded.
        let claim = [purchase("188", signed: 9_000), status("188", revoked: nil, signed: 9_000)]
        #expect(rights(facts, reported: claim)[0] == [])
    }

    @Test("Old facts, receipts without fractions of seconds, and line items name the same period")
    func names() {
        let copies = [
            purchase("100", signed: 2) { $0.lineItemID = "7" },
            purchase("177", signed: 3) { $0.date = start.moved(999) },
            // Apple may name another start for the same line item.
            purchase("188", signed: 1) { ($0.lineItemID, $0.date) = ("7", start.moved(60_000)) },
            purchase("900", of: "900", signed: 4) { ($0.lineItemID, $0.terms) = ("7", nil) },
        ]
        let facts = Facts(account: Ledger(copies.map(\.record)))
        #expect(facts.purchases.map(\.transaction.id) == ["900"])
        #expect(facts.purchases.map(\.terms) == [catalog.terms(of: "yearly")])
        #expect(facts.purchases.map(\.date) == [start])
        #expect(facts.transactions(of: facts.purchases[0]).map(\.id) == ["100", "177", "188", "900"])
        #expect(facts[TransactionReference(store: .appStore, id: "188")]?.date == start.moved(60_000))
        let replay = Replay(facts, catalog: catalog)
        #expect(replay.explanation(of: "yearly", at: at(1))?.sections.flatMap(\.lines).count == 1)
        #expect(replay.timelines["years"]?.periods.count == 1)
    }

    @Test("The next period, another product and another environment are other purchases")
    func others() {
        let facts = [
            purchase("100"), purchase("101") { $0.date = start.moved(1_000) }, purchase("102", "owl"),
            purchase("103") { $0.transaction.environment = .sandbox }, purchase("104", of: "200"),
            purchase("105") { $0.transaction.store = .googlePlay },
        ]
        #expect(Facts(account: Ledger(facts.map(\.record))).purchases.count == 6)
    }

    @Test("Units and time that is not renewed stay one purchase a transaction, unless the store says otherwise")
    func onePerTransaction() {
        for product: ProductID in ["coins", "month"] {
            let facts = [purchase("100", product), purchase("101", of: "101", product), purchase("102", product)]
            #expect(Facts(account: Ledger(facts.map(\.record))).purchases.count == 3)
            let named = [
                purchase("200", product) { $0.lineItemID = "7" }, purchase("201", product) { $0.lineItemID = "7" },
            ]
            #expect(Facts(account: Ledger((facts + named).map(\.record))).purchases.count == 4)
            let owned = [purchase("100", product), purchase("177", product)].map { fact -> Fact in
                guard case .purchase(var purchase) = fact else { return fact }
                purchase.isNonConsumable = true
                return .purchase(purchase)
            }
            #expect(Facts(account: Ledger(owned.map(\.record))).purchases.count == 1)
        }
    }

    @Test("A client's statement cannot make two verified purchases one")
    func forgedLink() {
        let first = [purchase("100", signed: 30) { $0.lineItemID = "7" }, status("100", revoked: 20, signed: 25)]
        let second = [
            purchase("200", of: "200", signed: 10) { $0.storeExpiry = at(30) }, status("200", revoked: nil, signed: 40),
        ]
        let link = purchase("300", of: "200", signed: 50) { $0.lineItemID = "7" }
        for policy in TrustPolicy.allCases {
            #expect(rights(first + second, reported: [link], policy)[0] == [])
        }
        // Two statements that the server has verified can.
        #expect(rights(first + second + [link])[0] == ["yearly"])
    }

    @Test("A decision of the server about one transaction holds for its copies", arguments: ["yearly", "owl"])
    func decisions(product: ProductID) throws {
        var server = ServerLedger()
        let first = TransactionReference(store: .appStore, id: "100")
        let own = Ledger([purchase("100", product, signed: nil), purchase("177", product, signed: nil)].map(\.record))
        func isGranted() -> Bool {
            let replay = Replay(Facts(account: own, server: server.ledger), catalog: catalog)
            return replay.access(to: EntitlementID(product.rawValue), at: at(100))?.isGranted ?? false
        }
        #expect(isGranted())
        server.decide(.refused("another account has proved this purchase"), about: [first], at: start)
        #expect(!isGranted())
        let conflicts = Replay(Facts(account: own, server: server.ledger), catalog: catalog).conflicts(at: at(100))
        #expect(conflicts.count == 1)
        server.decide(.accepted, about: [first], at: at(1))
        #expect(isGranted())
        // Once the server has verified the purchase, a refusal of a client's copy has no effect.
        _ = server.add([purchase("100", product)], catalog: catalog, at: start)
        server.decide(
            .refused("another account recorded it first"),
            about: [TransactionReference(store: .appStore, id: "177")], at: at(2))
        #expect(isGranted())
        server.decide(.transferred(to: ""), about: [first], at: at(3))
        #expect(!isGranted())
    }

    @Test("An upgraded period ends when the store states it, or where its successor starts")
    func upgrade() {
        let old = purchase("100")
        let upgraded = status("100", revoked: nil, signed: 50, upgraded: 50)
        func timeline(_ facts: [Fact]) -> [Timestamp]? {
            Replay(Facts(account: Ledger(facts.map(\.record))), catalog: catalog).timelines["years"]?.chains.map(\.end)
        }
        #expect(timeline([old]) == [start.moved(365 * RandomLife.day)])
        #expect(timeline([old, upgraded]) == [at(50)])
        #expect(
            timeline([old, purchase("177", signed: 2), status("177", revoked: nil, signed: 50, upgraded: 50)]) == [
                at(50)
            ])
        let successor = purchase("101", "plus") { ($0.date, $0.storeExpiry) = (at(48), at(9_000)) }
        #expect(timeline([old, upgraded, successor]) == [at(9_000)])
        let facts = Facts(account: Ledger([old, upgraded, successor].map(\.record)))
        let periods = Replay(facts, catalog: catalog).timelines["years"]?.periods
        #expect(periods?.map(\.end) == [at(48), at(9_000)])
        #expect(periods?.compactMap(\.revokedAt) == [])
        // A purchase after the old end is not the successor.
        let later = purchase("102", "plus") { ($0.date, $0.storeExpiry) = (at(9_000), at(9_100)) }
        #expect(timeline([old, upgraded, later]) == [at(50), at(9_100)])
    }

    @Test(
        "A claim that says it is signed does not overrule a refund that the server has recorded",
        arguments: ["yearly", "owl"])
    func claimedSignature(product: ProductID) {
        let facts = [purchase("100", product, signed: nil), status("100", revoked: 50, signed: nil)]
        let claim = purchase("177", product, signed: 9_000)
        for policy in TrustPolicy.allCases {
            #expect(rights(facts, reported: [claim], policy)[0] == [])
        }
    }

    @Test("A decision about a client's copy holds for the purchase unless the server has verified it")
    func decisionAboutCopy() {
        let (own, copy) = (purchase("100", signed: nil), purchase("177", signed: nil))
        for isVerified in [false, true] {
            var server = ServerLedger()
            if isVerified { _ = server.add([own], catalog: catalog, at: start) }
            let other = TransactionReference(store: .appStore, id: isVerified ? "177" : "100")
            server.decide(.refused("another account recorded it first"), about: [other], at: start)
            let facts = Facts(account: Ledger([own, copy].map(\.record)), server: server.ledger)
            #expect(Replay(facts, catalog: catalog).access(to: "yearly", at: at(100))?.isGranted == isVerified)
        }
    }

    @Test("Each transaction keeps its own statement, while the purchase begins with the earliest")
    func ownStatements() throws {
        let june = at(24 * 150)
        let copies = [purchase("100", "owl", signed: 1), purchase("177", "owl", signed: 2) { $0.date = june }]
        let facts = Facts(account: Ledger(copies.map(\.record)))
        #expect(facts.purchases.map(\.transaction.id) == ["177"])
        #expect(facts.purchases.map(\.date) == [start])
        let restored = try #require(facts[TransactionReference(store: .appStore, id: "177")])
        #expect(restored.date == june)
        #expect(facts.statedDate(of: restored) == june)
    }

    @Test("A copy that arrives later unites through any statement, as if all were read at once")
    func laterCopy() {
        func period(_ id: TransactionID, seconds: Int64, signed: Int64?, lineItem: TransactionID?) -> Fact {
            purchase(id, of: "10", signed: signed) { period in
                (period.date, period.lineItemID) = (start.moved(seconds), lineItem)
            }
        }
        let first = [
            period("10", seconds: 200, signed: 1, lineItem: "7"),
            period("20", seconds: 1_200, signed: 2, lineItem: "7"),
        ]
        let third = period("30", seconds: 1_500, signed: nil, lineItem: nil)
        let known = Ledger(first.map(\.record))
        let all = known.joined(with: Ledger([third.record]))
        let advanced = Facts(account: known).advanced(account: all)
        #expect(advanced.purchases == Facts(account: all).purchases)
        #expect(advanced.purchases.map(\.transaction.id) == ["20"])
    }

    @Test("A copy from whose start the end is out of bounds takes no time")
    func earlyCopy() throws {
        let real = purchase("177", signed: 2) { $0.lineItemID = "7" }
        let forged = purchase("188", signed: nil) { copy in
            (copy.lineItemID, copy.date) = ("7", start.moved(-126 * 365 * RandomLife.day))
        }
        #expect(rights([real], reported: [forged]) == [["yearly"], ["yearly"]])
        let facts = Facts(account: Ledger([real, forged].map(\.record)))
        #expect(facts.purchases.map(\.date) == [start])
        let earlier = purchase("199", signed: nil) { ($0.lineItemID, $0.date) = ("7", at(-24)) }
        let all = Facts(account: Ledger([real, forged, earlier].map(\.record)))
        #expect(all.purchases.map(\.date) == [at(-24)])
    }

    @Test("A period without a stated end keeps its accelerated end when a copy begins earlier")
    func acceleratedCopies() throws {
        let fast = try Catalog(
            products: catalog.products, entitlements: catalog.entitlements, policy: Policy(sandboxTime: .accelerated))
        let copies = [("100", Int64(0), Int64(1)), ("177", 999, 2)].map { id, moved, signed in
            purchase(TransactionID(id), "monthly", signed: signed) { copy in
                (copy.transaction.environment, copy.date) = (.sandbox, start.moved(moved))
            }
        }
        let facts = Facts(account: Ledger(copies.map(\.record)))
        #expect(facts.purchases.count == 1)
        let replay = Replay(facts, catalog: fast, environment: .sandbox)
        #expect(replay.timelines["months"]?.chains.map(\.start) == [start])
        #expect(replay.timelines["months"]?.chains.map(\.end) == [start.moved(999 + 300_000)])
    }

    @Test("Of statements that the store signed at the same time, a revocation counts; of others, the later one")
    func sameDate() {
        func later(_ fact: Fact) -> Fact {
            guard case .revocation(var status) = fact else { return fact }
            status.stamp.logicalTime = LogicalTime(rawValue: 3)
            return .revocation(status)
        }
        let copies = [purchase("100", signed: nil), purchase("177", signed: nil)]
        let signed = [status("100", revoked: 50, signed: 51), later(status("177", revoked: nil, signed: 51))]
        #expect(rights(copies + signed)[1] == [])
        let stated = [status("100", revoked: 50, signed: nil), later(status("177", revoked: nil, signed: nil))]
        #expect(rights(copies + stated)[1] == ["yearly"])
    }

    @Test("Of several dates that the server decided on, the earliest counts")
    func earliestDecision() {
        let own = Ledger(
            [purchase("100", signed: nil), purchase("177", signed: nil)].map { fact -> Record in
                guard case .purchase(var purchase) = fact else { return fact.record }
                purchase.date = at(200)
                return Fact.purchase(purchase).record
            })
        var server = ServerLedger()
        for (id, hour) in [("100", Int64(10)), ("177", 40)] {
            let transaction = TransactionReference(store: .appStore, id: TransactionID(id))
            server.decide(.countsAsOf(at(hour)), about: [transaction], at: at(hour))
        }
        let facts = Facts(account: own, server: server.ledger)
        #expect(facts.purchases.map(\.date) == [at(10)])
        let granted = [9, 10, 39, 40].map {
            Replay(facts, catalog: catalog).access(to: "yearly", at: at($0))?.isGranted
        }
        #expect(granted == [false, true, true, true])
    }

    @Test("A refund of one transaction revokes all transactions of the purchase, and no other")
    func revokedTransactions() {
        let facts = [
            purchase("100"), purchase("177", signed: 2), purchase("300", of: "300"),
            status("100", revoked: 50, signed: 51),
            status("400", revoked: 50, signed: 51),
        ]
        let revoked = Facts(account: Ledger(facts.map(\.record))).revokedTransactions
        #expect(revoked.map(\.id).sorted() == ["100", "177", "400"])
    }

    @Test("Whatever devices state in whatever order, access is that of a simple model")
    func lives() throws {
        var counts: [String: Int] = [:]
        let cases = try forAll("restored copies", cases: 3_000) { random, place in
            let life = RandomLife(catalog, using: &random)
            let policy = random.pick(TrustPolicy.allCases)
            let isServer = policy == .verified || random.chance(1, in: 2)
            var (server, account, delivered) = (ServerLedger(), Ledger(), [RandomLife.Statement]())
            _ = server.set(policy, at: start)
            var replay = Replay(Facts(account: account, server: server.ledger), catalog: catalog)
            for statement in life.statements {
                let isVerified = statement.signed != nil && isServer
                if isVerified {
                    let named = random.chance(1, in: 3) ? nil : catalog
                    _ = server.add(statement.facts, catalog: named, at: start)
                } else {
                    account = account.joined(with: Ledger(statement.facts.map(\.record)))
                }
                if isVerified || policy == .trusted { delivered.append(statement) }
                replay = replay.advanced(account: account, device: Ledger(), server: server.ledger, remote: nil)
                let now = start.moved(random.int(-5...130) * RandomLife.day)
                for (product, entitlement) in [("monthly", "monthly"), ("owl", "owl")] as [(ProductID, EntitlementID)] {
                    let expected = life.isGranted(product, at: now, delivered)
                    let isGranted = replay.access(to: entitlement, at: now)?.isGranted
                    try #require(isGranted == expected, "\(product) at \(now), \(place)")
                    counts["\(product) \(expected)", default: 0] += 1
                }
                if policy == .trusted {
                    let known = Set(delivered.flatMap(\.stated))
                    try #require(replay.facts.purchases.count == known.count, "\(place)")
                    counts["copies", default: 0] += delivered.flatMap(\.stated).count > known.count ? 1 : 0
                }
            }
            let anew = Facts(account: account, server: server.ledger)
            try #require(replay.facts.purchases == anew.purchases, "\(place)")
        }
        #expect(counts.count == 5 && counts.values.allSatisfy { $0 * 6 > cases }, "\(counts)")
    }
}
