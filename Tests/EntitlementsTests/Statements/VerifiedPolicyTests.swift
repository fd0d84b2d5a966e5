import Entitlements
import EntitlementsTestSupport
import Testing

@Suite("Under the policy `verified`, only verified statements grant")
struct VerifiedPolicyTests {
    private static let now = "2026-02-01"
    private static let line = TransactionReference.store("1")

    private static func server(_ facts: [Fact] = [], policy: TrustPolicy = .verified) throws -> ServerLedger {
        var server = ServerLedger()
        let date = try Timestamp("2026-01-01")
        if policy != .trusted { _ = server.set(policy, at: date) }
        _ = server.add(facts, catalog: try Shop.catalog(), at: date)
        return server
    }

    private static func purchase(
        _ product: ProductID, _ id: TransactionID, at date: String, signedAt: String, expires: String? = nil
    ) throws -> Purchase {
        Purchase(
            transaction: .store(id), product: product, terms: nil, date: try Timestamp(date),
            storeExpiry: try expires.map { try Timestamp($0) }, stamp: try stamp(signedAt))
    }

    private static func stamp(_ signedAt: String) throws -> Stamp {
        let date = try Timestamp(signedAt)
        return Stamp(signedDate: date, logicalTime: LogicalTime.zero.next(at: date))
    }

    private static func replay(
        _ account: Ledger, _ server: ServerLedger, device: Ledger = Ledger(), rules: ConflictRules? = nil
    ) throws -> Replay {
        Replay(
            Facts(account: account, device: device, server: server.ledger), catalog: try Shop.catalog(),
            rules: rules ?? ConflictRules(consumables: .shared))
    }

    @Test("No statement of a client grants anything, whatever its kind, store and signature")
    func clientsGrantNothing() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "reported")
            .buyingFromStore(Shop.owl, at: "2026-01-01", transaction: "forged", signedAt: "9999-12-31T23:59:59Z")
            .buyingFromStore(Shop.weekly, at: "2026-01-01", transaction: "1", expires: "2027-01-01")
            .stating(renewalOf: "1", at: "2026-01-02", graceEnd: "2027-01-01")
            .flagging(Shop.owl, isSet: true, at: "2026-01-01")
            .asserting(until: "2030-01-01", at: "2026-01-01")
            .buying(Shop.coins, at: "2026-01-01", transaction: "coins")
        let replay = try Self.replay(story.ledger, Self.server())
        let now = try Timestamp(Self.now)
        for entitlement in replay.catalog.entitlements {
            #expect(replay.access(to: entitlement.id, at: now) == .denied(.unverified), "\(entitlement.id)")
        }
        #expect(replay.balance(of: Shop.coins, at: now) == 0)
        #expect(replay.facts.purchases.count == 4)
        // Without the policy everything counts.
        let trusted = try Self.replay(story.ledger, ServerLedger())
        #expect(trusted.isOwned(Shop.owl, at: now))
        #expect(trusted.chains() == [days("2026-01-01", "2030-01-01")])
        #expect(trusted.balance(of: Shop.coins, at: now) == 5)
    }

    @Test("Each statement without effect is explained")
    func explanation() throws {
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "reported")
            .asserting(until: "2030-01-01", at: "2026-01-01").flagging(Shop.owl, isSet: true, at: "2026-01-01")
        let replay = try Self.replay(story.ledger, Self.server())
        let at = try Timestamp(Self.now)
        let random = try #require(replay.explanation(of: Shop.randomOwls, at: at)).sections[0].lines
        #expect(random.map(\.effect) == [.setAside(.unverified), .setAside(.unverified)])
        let owl = try #require(replay.explanation(of: "owl", at: at)).sections[0].lines
        #expect(owl.map(\.effect) == [.setAside(.unverified)])
        #expect("\(SetAside.unverified)" == "the account's server has not verified it")
    }

    @Test("A verified statement overrides the client's statement about the same subject, whatever its order")
    func override() throws {
        let forged = try Story().buyingFromStore(
            Shop.owl, at: "2026-01-01", transaction: "1", signedAt: "9999-12-31T23:59:59Z"
        ).reinstating(Self.line, at: "2026-01-01", signedAt: "9999-12-31T23:59:59Z")
        let facts: [Fact] = [
            .purchase(try Self.purchase(Shop.threeMonths, "1", at: "2026-01-01", signedAt: "2026-01-01")),
            .revocation(
                Revocation(
                    transaction: Self.line, revokedAt: try Timestamp("2026-01-15"),
                    stamp: try Self.stamp("2026-01-15"))),
        ]
        for policy in TrustPolicy.allCases {
            let replay = try Self.replay(forged.ledger, Self.server(facts, policy: policy))
            #expect(replay.chains() == [days("2026-01-01", "2026-01-15")])
            #expect(!replay.isOwned(Shop.owl, at: try Timestamp(Self.now)))
            #expect(replay.facts.purchases.map(\.product) == [Shop.threeMonths])
        }
    }

    @Test("Revocations, cleared flags and spends of clients count")
    func clientsMayTakeAway() throws {
        let date = try Timestamp("2026-01-01")
        var reported = try Self.purchase(Shop.threeMonths, "1", at: "2026-01-01", signedAt: "2026-01-01")
        reported.stamp.signedDate = nil
        var coins = try Self.purchase(Shop.coins, "2", at: "2026-01-01", signedAt: "2026-01-01")
        coins.stamp = reported.stamp
        let flag = Flag(
            product: Shop.owl, isSet: true, date: date, replica: try Story().replica, logicalTime: .zero.next(at: date))
        let server = try Self.server([.purchase(reported), .purchase(coins), .flag(flag)])
        let story = try Story().refunding(Self.line, at: "2026-01-10").spending(2, id: "s", at: "2026-01-11")
            .flagging(Shop.owl, isSet: false, at: "2026-01-12")
        let replay = try Self.replay(
            story.ledger, server, rules: ConflictRules(flags: LastWriterWins(), consumables: .shared))
        #expect(replay.chains() == [days("2026-01-01", "2026-01-10")])
        #expect(replay.balance(of: Shop.coins, at: try Timestamp(Self.now)) == 3)
        #expect(!replay.isOwned(Shop.owl, at: try Timestamp(Self.now)))
    }

    @Test("A client's recording cannot prolong a verified purchase under latestExpiryWins")
    func recordings() throws {
        let bought = try Self.purchase(Shop.threeMonths, "1", at: "2026-01-01", signedAt: "2026-01-01")
        let story = try Story().stating(at: "2026-01-01") { date, time in
            .recording(
                Recording(
                    transaction: Self.line, replica: ReplicaID(bytes: [UInt8](repeating: 1, count: 16))!,
                    recordedAt: date, knownEnd: .latest, logicalTime: time))
        }
        let rules = ConflictRules(expiry: LatestExpiryWins())
        #expect(
            try Self.replay(story.ledger, Self.server([.purchase(bought)]), rules: rules).chains()
                == [days("2026-01-01", "2026-04-01")])
    }

    @Test("Evidence that waits on this device counts until the server answers, and cannot be overridden by a client")
    func storedEvidence() throws {
        let bought = try Self.purchase(Shop.threeMonths, "1", at: "2026-01-01", signedAt: "2026-01-01")
        let evidence = Fact.evidence(
            StoredEvidence(
                kind: "app-store-transaction", subject: "1", data: [1, 2, 3],
                facts: Ledger([Fact.purchase(bought).record]), stamp: bought.stamp))
        let device = Ledger([evidence.record])
        let forged = try Story().buyingFromStore(
            Shop.owl, at: "2026-01-01", transaction: "1", signedAt: "9999-12-31T23:59:59Z")
        for account in [Ledger(), forged.ledger] {
            let replay = try Self.replay(account, Self.server(), device: device)
            #expect(replay.chains() == [days("2026-01-01", "2026-04-01")])
            #expect(!replay.isOwned(Shop.owl, at: try Timestamp(Self.now)))
        }
        // In a ledger that is synced it has no effect, and the server's refusal ends it.
        #expect(try Self.replay(device, Self.server()).chains() == [])
        var server = try Self.server()
        server.decide(.refused("it belongs to another account"), about: [Self.line], at: try Timestamp(Self.now))
        #expect(try Self.replay(Ledger(), server, device: device).chains() == [])
        // Without the policy, the stronger statement counts.
        #expect(try Self.replay(forged.ledger, ServerLedger(), device: device).chains() == [])
    }

    @Test(
        "Evidence presented again keeps the terms that the server knows, with a catalogue that lacks the product",
        arguments: [TrustPolicy.trusted, .verified], ["2026-01-01", "2026-01-20"])
    func storedEvidenceOfUnknownProduct(policy: TrustPolicy, signedAt: String) throws {
        let bought = try Self.purchase(Shop.threeMonths, "1", at: "2026-01-01", signedAt: "2026-01-01")
        var again = bought
        again.stamp = try Self.stamp(signedAt)
        let server = try Self.server([.purchase(bought)], policy: policy)
        let older = try Catalog(products: Shop.catalog().products.filter { $0.id != Shop.threeMonths })
        func chains(of stated: Purchase) -> [String] {
            let evidence = StoredEvidence(
                kind: "app-store-transaction", subject: "1", data: [1], facts: Ledger([Fact.purchase(stated).record]),
                stamp: stated.stamp)
            let device = Ledger([Fact.evidence(evidence).record])
            return Replay(Facts(account: Ledger(), device: device, server: server.ledger), catalog: older).chains()
        }
        #expect(chains(of: again) == [days("2026-01-01", "2026-04-01")])
        // The server's terms are those of one product.
        again.product = Shop.owl
        again.stamp = try Self.stamp("2026-01-21")
        #expect(chains(of: again).isEmpty)
    }

    @Test("A policy in a ledger that clients write has no effect")
    func forgedPolicy() throws {
        let date = try Timestamp("2026-01-01")
        let policy = Fact.policy(PolicyStatement(.verified, logicalTime: .zero.next(at: date)))
        let story = try Story().buying(Shop.threeMonths, at: "2026-01-01", transaction: "A")
        let replay = try Self.replay(story.ledger.joined(with: Ledger([policy.record])), ServerLedger())
        #expect(replay.facts.policy == .trusted)
        #expect(replay.chains() == [days("2026-01-01", "2026-04-01")])
        #expect(replay.facts.unreadable == [policy])
    }
}
