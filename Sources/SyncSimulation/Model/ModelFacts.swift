/// The facts in a ledger's records, in the order of their keys. Unreadable records are left out, and their keys are
/// listed.
///
/// Dates are milliseconds since 1970 UTC, in the years 1 to 9999. A greater logical time is later. A field that no
/// oracle needs is decoded, since a malformed one makes its record unreadable, but not kept.
struct ModelFacts: Equatable {
    var purchases: [ModelPurchase] = []
    var recordings: [ModelRecording] = []
    var revocations: [ModelRevocation] = []
    var renewalStates: [ModelRenewalState] = []
    var assertions: [ModelAssertion] = []
    var flags: [ModelFlag] = []
    var spends: [ModelSpend] = []
    var claim: ModelClaim?
    var acceptances: [ModelAcceptance] = []
    var resets: [ModelReset] = []
    var evidence: [ModelEvidence] = []
    /// The policy that the ledger states.
    var policy = ModelPolicy.trusted
    /// The purchases that the account's server or the device has verified. Empty for the facts of a single ledger.
    var verified: Set<ModelTransaction> = []
    /// The transactions whose revocation or reinstatement the server or the device has verified.
    var verifiedStatuses: Set<ModelTransaction> = []
    /// Keys of records that are kept but not interpreted: unknown kinds, malformed records, and a device's notes on
    /// contradictions.
    var otherKeys: [[UInt8]] = []

    /// The transactions of all purchases, whether they count or not.
    var transactions: [ModelTransaction] { purchases.map(\.transaction) }

    /// The ids of all transactions. Two stores may use the same id.
    var transactionIDs: Set<ModelID> { Set(transactions.map(\.id)) }

    /// The ids of all spends, whether they count or not.
    var spendIDs: Set<ModelID> { Set(spends.map(\.id)) }
}

/// A calendar duration: months, then days, then seconds.
struct ModelDuration: Hashable {
    var months: Int64 = 0
    var days: Int64 = 0
    var seconds: Int64 = 0
    /// True for the time of a purchase that never ends.
    var isForever = false

    func times(_ count: Int64) -> ModelDuration {
        ModelDuration(months: months * count, days: days * count, seconds: seconds * count, isForever: isForever)
    }

    func added(to date: Int64) -> Int64 {
        isForever ? ModelCalendar.latest : ModelCalendar.add(months: months, days: days, seconds: seconds, to: date)
    }

    /// True if the duration is at most 100 years.
    var isInBounds: Bool { !isForever && added(to: 0) <= ModelCalendar.add(months: 1_200, to: 0) }
}

/// The terms of a sale.
struct ModelTerms: Hashable {
    enum Kind: Hashable { case consumable, nonConsumable, nonRenewing, autoRenewable }

    var kind: Kind
    /// The group of a subscription.
    var group: ModelID?
    /// The duration of one unit.
    var duration = ModelDuration()
    /// The number of units in one consumable.
    var units: Int64 = 0
    /// The level in an auto-renewable group; 1 is the highest.
    var level: Int64 = 0
    /// The duration of the introductory offer of an auto-renewable subscription; `nil` without an offer.
    var introductory: ModelDuration?
    /// The bonus, added once for each purchase.
    var bonus = ModelDuration()
}

struct ModelPurchase: Equatable {
    var transaction: ModelTransaction
    var product: ModelID
    /// `nil` if the purchase was recorded without a catalogue that knows the product.
    var terms: ModelTerms?
    var date: Int64
    var quantity: Int64
    var originalID: ModelID?
    var storeExpiry: Int64?
    var isIntroductory: Bool
    /// The store's id of a period of a subscription, the same on all devices.
    var lineItem: ModelID?
    /// True if the store stated that the product is a non-consumable.
    var isNonConsumable = false
    var stamp: ModelStamp

    /// The subscription line, identified by its first transaction.
    var line: ModelTransaction {
        ModelTransaction(
            store: transaction.store, environment: transaction.environment, id: originalID ?? transaction.id)
    }
}

/// The provenance of a statement: the date of a store's signature if there is one, and the logical time of its
/// recording.
struct ModelStamp: Equatable {
    var signedAt: Int64?
    var time: UInt64
    /// The order bytes of the record, which sort as statements do.
    var order: [UInt8]

    var isSigned: Bool { signedAt != nil }
}

struct ModelRecording: Equatable {
    var transaction: ModelTransaction
    var time: UInt64
}

struct ModelRevocation: Equatable {
    var transaction: ModelTransaction
    /// `nil` if the purchase was reinstated.
    var revokedAt: Int64?
    /// The date by which an upgrade had replaced the purchase.
    var upgradedAt: Int64?
    var stamp: ModelStamp

    var isReinstated: Bool { revokedAt == nil }
}

struct ModelRenewalState: Equatable {
    var line: ModelTransaction
    var graceEnd: Int64?
    var stamp: ModelStamp
}

struct ModelAssertion: Equatable {
    var group: ModelID
    var source: ModelID
    var until: Int64
    var environment: ModelID
    var assertedAt: Int64
    var time: UInt64
}

struct ModelFlag: Equatable {
    var product: ModelID
    var environment: ModelID
    /// True if the record sets the flag, `false` if it clears it.
    var isSet: Bool
    var time: UInt64
}

struct ModelSpend: Equatable {
    var id: ModelID
    var product: ModelID
    var units: Int64
    var environment: ModelID
    var time: UInt64
}

struct ModelClaim: Equatable {
    var account: String
}

struct ModelAcceptance: Equatable {
    enum Decision: Equatable {
        case accepted
        case countsAsOf(Int64)
        case refused(String)
        case transferred(String)
    }

    var transaction: ModelTransaction
    var decision: Decision
    var time: UInt64
}

struct ModelReset: Equatable {
    var environment: ModelID
    var time: UInt64
}
