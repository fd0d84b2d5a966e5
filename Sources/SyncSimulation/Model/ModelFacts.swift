/// What the records of a ledger say, in the order of their keys. Records that cannot be read are left out, and counted.
///
/// Dates are milliseconds since 1970 UTC, from the year 1 to the year 9999; logical times are as they were written:
/// the later is the greater.
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
    var pending: [ModelPending] = []
    var resets: [ModelReset] = []
    /// Keys of records that are kept for others: unknown kinds, malformed ones, and the notes of a device on
    /// contradictions, from which nothing follows.
    var otherKeys: [[UInt8]] = []

    /// Every purchase that is stated, whether it counts or not.
    var transactions: [ModelTransaction] { purchases.map(\.transaction) }

    /// The stores' ids of these. Two stores may use one id.
    var transactionIDs: Set<ModelID> { Set(transactions.map(\.id)) }

    /// Every spend that is stated, whether it counts or not.
    var spendIDs: Set<ModelID> { Set(spends.map(\.id)) }
}

/// Months, then days, then seconds.
struct ModelDuration: Hashable {
    var months: Int64 = 0
    var days: Int64 = 0
    var seconds: Int64 = 0

    func times(_ count: Int64) -> ModelDuration {
        ModelDuration(months: months * count, days: days * count, seconds: seconds * count)
    }

    func added(to date: Int64) -> Int64 {
        ModelCalendar.add(months: months, days: days, seconds: seconds, to: date)
    }

    /// No more than 100 years.
    var isInBounds: Bool { added(to: 0) <= ModelCalendar.add(months: 1_200, to: 0) }
}

/// What was sold.
struct ModelTerms: Hashable {
    enum Kind: Hashable { case consumable, nonConsumable, nonRenewing, autoRenewable }

    var kind: Kind
    /// The group of a subscription.
    var group: ModelID?
    /// How long one of it lasts.
    var duration = ModelDuration()
    /// How many units one of it has.
    var units: Int64 = 0
    /// The level in an auto-renewable group, 1 is the highest.
    var level: Int64 = 0
    /// How long the introductory offer of an auto-renewable one lasts, if there is one.
    var introductory: ModelDuration?
    /// Added once a purchase.
    var bonus = ModelDuration()
}

struct ModelPurchase: Equatable {
    var transaction: ModelTransaction
    var product: ModelID
    /// `nil` when it was recorded without a catalogue that knew the product.
    var terms: ModelTerms?
    var date: Int64
    var quantity: Int64
    var originalID: ModelID?
    var storeExpiry: Int64?
    var isIntroductory: Bool
    var stamp: ModelStamp

    /// The first transaction of its subscription.
    var line: ModelTransaction {
        ModelTransaction(
            store: transaction.store, environment: transaction.environment, id: originalID ?? transaction.id)
    }
}

/// Whether a store signed a statement, and when it was entered into a ledger.
struct ModelStamp: Equatable {
    var signedAt: Int64?
    var time: UInt64
    /// As in the record: bytes that compare as statements do.
    var order: [UInt8]

    var isSigned: Bool { signedAt != nil }
}

struct ModelRecording: Equatable {
    var transaction: ModelTransaction
    var replica: [UInt8]
    var recordedAt: Int64
    var knownEnd: Int64?
    var time: UInt64
}

struct ModelRevocation: Equatable {
    var transaction: ModelTransaction
    /// `nil` when the purchase was reinstated.
    var revokedAt: Int64?
    var reason: String
    var stamp: ModelStamp

    var isReinstated: Bool { revokedAt == nil }
}

struct ModelRenewalState: Equatable {
    var line: ModelTransaction
    var willRenew: Bool
    var graceEnd: Int64?
    var isInBillingRetry: Bool
    var pendingProduct: ModelID?
    var stamp: ModelStamp
}

struct ModelAssertion: Equatable {
    var group: ModelID
    var source: ModelID
    var until: Int64
    var environment: ModelID
    var assertedAt: Int64
    var recordedAt: Int64
    var replica: [UInt8]
    var time: UInt64
}

struct ModelFlag: Equatable {
    var product: ModelID
    var environment: ModelID
    /// Whether the mark sets or clears.
    var isSet: Bool
    var date: Int64
    var replica: [UInt8]
    var time: UInt64
}

struct ModelSpend: Equatable {
    var id: ModelID
    var product: ModelID
    var units: Int64
    var environment: ModelID
    var date: Int64
    var replica: [UInt8]
    var time: UInt64
}

struct ModelClaim: Equatable {
    var account: String
    var incarnation: String
    var date: Int64
    var time: UInt64
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
    var date: Int64
    var time: UInt64
}

struct ModelPending: Equatable {
    var product: ModelID
    var requestedAt: Int64
    var isWithdrawn: Bool
    var time: UInt64
}

struct ModelReset: Equatable {
    var environment: ModelID
    var date: Int64
    var time: UInt64
}
