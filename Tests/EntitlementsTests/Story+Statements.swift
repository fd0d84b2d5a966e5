import Entitlements
import EntitlementsTestSupport

// Statements of stores, servers and systems that keep no purchases.
extension Story {
    /// Records an App Store transaction, signed at its date by default.
    func buyingFromStore(
        _ product: ProductID, at date: String, transaction: TransactionID, original: TransactionID? = nil,
        expires: String? = nil, isIntroductory: Bool = false, signedAt: String? = nil,
        environment: EnvironmentID = .production
    ) throws -> Story {
        let signedDate = try Timestamp(signedAt ?? date)
        let expiry = try expires.map { try Timestamp($0) }
        return try stating(at: date) { date, time in
            .purchase(
                Purchase(
                    transaction: TransactionReference(store: .appStore, environment: environment, id: transaction),
                    product: product, terms: catalog.terms(of: product), date: date, originalID: original,
                    storeExpiry: expiry, isIntroductory: isIntroductory,
                    stamp: Stamp(signedDate: signedDate, logicalTime: time)))
        }
    }

    /// Records a refund, signed by the store if a signature date is given.
    func refunding(_ transaction: TransactionReference, at date: String, signedAt: String? = nil) throws -> Story {
        let signedDate = try signedAt.map { try Timestamp($0) }
        return try stating(at: date) { date, time in
            .revocation(
                Revocation(
                    transaction: transaction, revokedAt: date, reason: "refund",
                    stamp: Stamp(signedDate: signedDate, logicalTime: time)))
        }
    }

    /// Records the reversal of a refund, signed by the store if a signature date is given.
    func reinstating(_ transaction: TransactionReference, at date: String, signedAt: String? = nil) throws -> Story {
        let signedDate = try signedAt.map { try Timestamp($0) }
        return try stating(at: date) { _, time in
            .revocation(
                Revocation(
                    transaction: transaction, revokedAt: nil,
                    stamp: Stamp(signedDate: signedDate, logicalTime: time)))
        }
    }

    /// Records an expiry asserted as of the later of `date` and the date of the latest known purchase.
    func asserting(
        until: Timestamp, source: SourceID = "parse", group: GroupID = Shop.random, at date: String,
        environment: EnvironmentID = .production
    ) throws -> Story {
        let latest = Facts(account: ledger).purchases.last?.date
        return try stating(at: date) { date, time in
            .assertion(
                Assertion(
                    Assertion.Reference(group: group, source: source, until: until, environment: environment),
                    assertedAt: max(date, latest ?? date), recordedAt: date, replica: replica, logicalTime: time))
        }
    }

    func asserting(until: String, source: SourceID = "parse", group: GroupID = Shop.random, at date: String) throws
        -> Story
    {
        try asserting(until: Timestamp(until), source: source, group: group, at: date)
    }

    /// Records a renewal state, signed at `date` by default.
    func stating(
        renewalOf line: TransactionID, at date: String, willRenew: Bool = true, graceEnd: String? = nil,
        isInBillingRetry: Bool = false, pending: ProductID? = nil, isSigned: Bool = true,
        environment: EnvironmentID = .production
    ) throws -> Story {
        let graceEnd = try graceEnd.map { try Timestamp($0) }
        return try stating(at: date) { date, time in
            .renewalState(
                RenewalState(
                    line: TransactionReference(store: .appStore, environment: environment, id: line),
                    willRenew: willRenew, graceEnd: graceEnd, isInBillingRetry: isInBillingRetry,
                    pendingProduct: pending,
                    stamp: Stamp(signedDate: isSigned ? date : nil, logicalTime: time)))
        }
    }

    func resetting(_ environment: EnvironmentID = .sandbox, at date: String) throws -> Story {
        try stating(at: date) { date, time in
            .reset(EnvironmentReset(environment: environment, date: date, logicalTime: time))
        }
    }

    /// Replays the ledger together with decisions of the account's server.
    func replay(
        decisions: [Acceptance], environment: EnvironmentID = .production, rules: ConflictRules? = nil
    ) -> Replay {
        let server = Ledger(decisions.map { Fact.acceptance($0).record })
        let facts = Facts(account: ledger, device: ledger, server: server)
        return Replay(facts, catalog: catalog, environment: environment, rules: rules)
    }
}

extension Acceptance {
    /// Returns a decision about a purchase that was reported in production.
    init(_ transaction: TransactionID, _ decision: Decision, at time: UInt64 = 1) {
        self.init(
            transaction: TransactionReference(id: transaction), decision: decision, date: Timestamp(milliseconds: 0),
            logicalTime: LogicalTime(rawValue: time))
    }
}

extension TransactionReference {
    /// Returns a reference to an App Store transaction in production.
    static func store(_ id: TransactionID) -> TransactionReference {
        TransactionReference(store: .appStore, id: id)
    }
}
