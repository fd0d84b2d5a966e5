import Entitlements
import Testing

@Suite("Statements of clients that the account's server overrides")
struct OverriddenTests {
    private let catalog: Catalog
    private let start = Timestamp(milliseconds: 1_767_225_600_000)  // 2026-01-01

    init() throws { catalog = try Shop.catalog() }

    private func purchase(
        _ id: TransactionID, _ product: ProductID = Shop.owl, quantity: Int64 = 1, hasTerms: Bool = true,
        in environment: EnvironmentID = .production, signed: Bool = false
    ) -> Fact {
        .purchase(
            Purchase(
                transaction: TransactionReference(store: .appStore, environment: environment, id: id),
                product: product, terms: hasTerms ? catalog.terms(of: product) : nil, date: start, quantity: quantity,
                stamp: Stamp(signedDate: signed ? start : nil, logicalTime: LogicalTime(rawValue: 1))))
    }

    private func revocation(_ id: TransactionID, at date: Timestamp?, signed: Bool) -> Fact {
        .revocation(
            Revocation(
                transaction: TransactionReference(store: .appStore, id: id), revokedAt: date,
                stamp: Stamp(signedDate: signed ? start : nil, logicalTime: LogicalTime(rawValue: 2))))
    }

    /// The conflicts of an account whose client has recorded `own`, and whose server has verified `facts`.
    private func conflicts(_ own: [Fact], _ facts: [Fact], _ policy: TrustPolicy = .trusted) -> [Conflict] {
        var server = ServerLedger()
        _ = server.set(policy, at: start)
        _ = server.add(facts, catalog: catalog, at: start)
        let own = Ledger(own.map(\.record))
        return Replay(Facts(account: own, server: server.ledger), catalog: catalog).conflicts(at: start)
    }

    @Test("A refund by the server of a purchase that only a client stated")
    func refund() {
        let (own, refund) = (purchase("1"), revocation("1", at: start, signed: true))
        #expect(conflicts([own], [refund]) == [.overridden(own, by: refund)])
        // The server states both, so it overrides nothing.
        #expect(conflicts([own], [purchase("1"), refund]) == [])
        #expect(conflicts([own], []) == [])
        // A client has stated it, too.
        #expect(conflicts([own, revocation("1", at: start, signed: false)], [refund]) == [])
    }

    @Test("A renewal state that a client states without a signature, but not one that was signed earlier")
    func renewal() {
        let bought = purchase("1", Shop.weekly, signed: true)
        func state(_ willRenew: Bool, signed: Int64?) -> Fact {
            let line = TransactionReference(store: .appStore, id: "1")
            let stamp = Stamp(signedDate: signed.map { start.moved($0) }, logicalTime: LogicalTime(rawValue: 3))
            return .renewalState(RenewalState(line: line, willRenew: willRenew, stamp: stamp))
        }
        let (claim, current) = (state(true, signed: nil), state(false, signed: 2))
        #expect(conflicts([claim], [bought, current]) == [.overridden(claim, by: current)])
        #expect(conflicts([state(true, signed: 1)], [bought, current]) == [])
        #expect(conflicts([state(false, signed: nil)], [bought, current]) == [])
    }

    @Test("Evidence that the device has verified later than the server overrides the server, and is no conflict")
    func evidence() throws {
        let (sold, refund) = (purchase("1", signed: true), revocation("1", at: start, signed: true))
        let later = Fact.revocation(
            Revocation(
                transaction: TransactionReference(store: .appStore, id: "1"), revokedAt: nil,
                stamp: Stamp(signedDate: start.moved(1), logicalTime: LogicalTime(rawValue: 4))))
        let waiting = Fact.evidence(
            StoredEvidence(
                kind: "app-store-transaction", subject: "1", data: [1], facts: Ledger([later.record]),
                stamp: Stamp(signedDate: start.moved(1), logicalTime: LogicalTime(rawValue: 4))))
        var server = ServerLedger()
        _ = server.add([sold, refund], catalog: catalog, at: start)
        let facts = Facts(account: Ledger(), device: Ledger([waiting.record]), server: server.ledger)
        #expect(facts.purchases.first.flatMap(facts.revocation(of:)) == nil)
        #expect(Replay(facts, catalog: catalog).conflicts(at: start) == [])
    }

    @Test("A purchase that the server states differently, but not one with the same content")
    func purchase() {
        let (own, signed) = (purchase("1", quantity: 2), purchase("1", signed: true))
        #expect(conflicts([own], [signed]) == [.overridden(own, by: signed)])
        #expect(conflicts([purchase("1")], [signed]) == [])
        #expect(conflicts([purchase("1", hasTerms: false)], [signed]) == [])
        // Conflicts of another environment are not those of this replay.
        let sandbox = (purchase("1", quantity: 2, in: .sandbox), purchase("1", in: .sandbox, signed: true))
        #expect(conflicts([sandbox.0], [sandbox.1]) == [])
    }

    @Test("A refund that the server reverses, and one that it states with another reason")
    func reversal() {
        let bought = purchase("1", signed: true)
        let (own, reversal) = (revocation("1", at: start, signed: false), revocation("1", at: nil, signed: true))
        #expect(conflicts([own], [bought, reversal]) == [.overridden(own, by: reversal)])
        #expect(conflicts([own], [bought, revocation("1", at: start, signed: true)]) == [])
    }

    @Test("Everything that the server has not verified, under the policy verified")
    func unverified() throws {
        let (verified, own) = (purchase("1", signed: true), purchase("2"))
        let flag = Fact.flag(
            Flag(
                product: Shop.owl, isSet: true, date: start,
                replica: try #require(ReplicaID(bytes: [UInt8](repeating: 1, count: 16))),
                logicalTime: LogicalTime(rawValue: 3)))
        #expect(
            conflicts([purchase("1"), own, flag], [verified], .verified)
                == [.unverified(own), .unverified(flag)])
        #expect(conflicts([purchase("1"), own, flag], [verified]) == [])
    }
}
