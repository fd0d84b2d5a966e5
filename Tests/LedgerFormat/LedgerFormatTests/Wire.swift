import Entitlements

/// The names of the generated messages without their package.
enum Wire {
    typealias Key = Entitlementsync_Ledger_V1_Key
    typealias Transaction = Entitlementsync_Ledger_V1_Transaction
    typealias RecordingKey = Entitlementsync_Ledger_V1_RecordingKey
    typealias AssertionKey = Entitlementsync_Ledger_V1_AssertionKey
    typealias ContradictionKey = Entitlementsync_Ledger_V1_ContradictionKey
    typealias FlagKey = Entitlementsync_Ledger_V1_FlagKey
    typealias Purchase = Entitlementsync_Ledger_V1_Purchase
    typealias Terms = Entitlementsync_Ledger_V1_Terms
    typealias Offer = Entitlementsync_Ledger_V1_IntroductoryOffer
    typealias Duration = Entitlementsync_Ledger_V1_Duration
    typealias Recording = Entitlementsync_Ledger_V1_Recording
    typealias Revocation = Entitlementsync_Ledger_V1_Revocation
    typealias RenewalState = Entitlementsync_Ledger_V1_RenewalState
    typealias Assertion = Entitlementsync_Ledger_V1_Assertion
    typealias Flag = Entitlementsync_Ledger_V1_Flag
    typealias Spend = Entitlementsync_Ledger_V1_Spend
    typealias Acceptance = Entitlementsync_Ledger_V1_Acceptance
    typealias Claim = Entitlementsync_Ledger_V1_Claim
    typealias Contradiction = Entitlementsync_Ledger_V1_Contradiction
    typealias Statement = Entitlementsync_Ledger_V1_Statement
    typealias Reset = Entitlementsync_Ledger_V1_Reset
    typealias Policy = Entitlementsync_Ledger_V1_Policy
    typealias Evidence = Entitlementsync_Ledger_V1_Evidence
    typealias Pending = Entitlementsync_Ledger_V1_Pending
}

// Converts each message to a value of the library, field by field according to Docs/ledger.proto.

extension TransactionReference {
    init(_ wire: Wire.Transaction) {
        self.init(
            store: StoreID(wire.store), environment: EnvironmentID(wire.environment), id: TransactionID(wire.id))
    }
}

extension Assertion.Reference {
    init(_ wire: Wire.AssertionKey) {
        self.init(
            group: GroupID(wire.group), source: SourceID(wire.source), until: Timestamp(wire: wire.until),
            environment: EnvironmentID(wire.environment))
    }
}

extension Purchase {
    /// The order of a statement is not protobuf, so the stamp is given.
    init(_ wire: Wire.Purchase, _ transaction: Wire.Transaction, stamp: Stamp) {
        self.init(
            transaction: TransactionReference(transaction), product: ProductID(wire.product),
            terms: wire.hasTerms ? Terms(wire.terms) : nil, date: Timestamp(wire: wire.date),
            quantity: Int64(wire.quantity), originalID: wire.hasOriginalID ? TransactionID(wire.originalID) : nil,
            storeExpiry: wire.hasStoreExpiry ? Timestamp(wire: wire.storeExpiry) : nil,
            isIntroductory: wire.introductory,
            lineItemID: wire.hasLineItemID ? TransactionID(wire.lineItemID) : nil, isNonConsumable: wire.nonConsumable,
            stamp: stamp)
    }
}

extension Acceptance.Decision {
    init(_ wire: Wire.Acceptance) {
        switch wire.decision {
        case .countsAsOf(let date): self = .countsAsOf(Timestamp(wire: date))
        case .refused(let reason): self = .refused(reason)
        case .transferredTo(let account): self = .transferred(to: account)
        case nil: self = .accepted
        }
    }
}

extension Timestamp {
    init(wire: Int64) { self.init(milliseconds: wire) }
}

extension CalendarDuration {
    init(_ wire: Wire.Duration) {
        // The largest number of months stands for forever in memory only.
        self =
            wire.forever
            ? .forever
            : Self(months: min(Int64(wire.months), .max - 1), days: Int64(wire.days), seconds: Int64(wire.seconds))
    }
}

extension Terms {
    init?(_ wire: Wire.Terms) {
        let kind: ProductKind
        switch wire.kind {
        case .consumable(let consumable): kind = .consumable(units: Int64(consumable.units))
        case .nonConsumable: kind = .nonConsumable
        case .nonRenewing(let terms):
            kind = .nonRenewing(group: GroupID(terms.group), duration: CalendarDuration(terms.duration))
        case .autoRenewable(let terms):
            kind = .autoRenewable(
                group: GroupID(terms.group), level: Int64(terms.level), duration: CalendarDuration(terms.duration),
                introductory: terms.hasIntroductory ? IntroductoryOffer(terms.introductory) : nil)
        case nil: return nil
        }
        self.init(kind: kind, bonus: CalendarDuration(wire.bonus))
    }
}

extension IntroductoryOffer {
    init?(_ wire: Wire.Offer) {
        switch wire.mode {
        case .free: self.init(mode: .free, duration: CalendarDuration(wire.duration))
        case .payAsYouGo: self.init(mode: .payAsYouGo, duration: CalendarDuration(wire.duration))
        case .payUpFront: self.init(mode: .payUpFront, duration: CalendarDuration(wire.duration))
        case .unspecified, .UNRECOGNIZED: return nil
        }
    }
}
