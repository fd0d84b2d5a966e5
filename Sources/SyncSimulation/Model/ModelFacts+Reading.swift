extension ModelLedger {
    /// The facts in the records. Computed on each call.
    var facts: ModelFacts {
        var facts = ModelFacts()
        for record in records {
            do { try facts.add(record) } catch { facts.otherKeys.append(record.key) }
        }
        return facts
    }
}

extension ModelFacts {
    fileprivate mutating func add(_ record: ModelRecord) throws(ModelUnreadable) {
        let key = try ModelMessage(record.key)
        guard key.isCanonical, key.fields.count == 1 else { throw ModelUnreadable() }
        let (kind, name) = key.fields[0]
        let order = record.order
        let payload = try ModelMessage(record.payload)
        switch kind {
        case 1: purchases.append(try ModelPurchase(try name.transaction(), order, payload))
        case 2:
            let names = try name.fields([1, 2])
            let transaction = try names[0].transaction()
            recordings.append(try ModelRecording(transaction, try names[1].replica(), order, payload))
        case 3: revocations.append(try ModelRevocation(try name.transaction(), order, payload))
        case 4: renewalStates.append(try ModelRenewalState(try name.transaction(), order, payload))
        case 5: assertions.append(try ModelAssertion(try name.message(), order, payload))
        case 6, 7:
            let names = try name.fields([1, 2])
            let (product, environment) = (try names[0].id(), try names[1].id())
            flags.append(try ModelFlag(product, environment, isSet: kind == 6, order, payload))
        case 8: spends.append(try ModelSpend(try name.id(), order, payload))
        case 9:
            guard try name.bytes().isEmpty else { throw ModelUnreadable() }
            claim = try ModelClaim(order, payload)
        case 10: acceptances.append(try ModelAcceptance(try name.transaction(), order, payload))
        case 11: pending.append(try ModelPending(try name.id(), order, payload))
        case 12: resets.append(try ModelReset(try name.id(), order, payload))
        case 14:
            guard try name.bytes().isEmpty else { throw ModelUnreadable() }
            _ = try Order(order, count: 8)
            guard let stated = try payload.text(1).flatMap(ModelPolicy.init) else { throw ModelUnreadable() }
            policy = stated
        case 15: evidence.append(try ModelEvidence(try name.message(), order, payload))
        default: throw ModelUnreadable()
        }
    }
}

extension ModelMessage.Value {
    /// The fields of a message inside a key, which must have exactly these numbers.
    fileprivate func fields(_ numbers: [UInt64]) throws(ModelUnreadable) -> [ModelMessage.Value] {
        let message = try message()
        guard message.isCanonical, message.numbers == numbers else { throw ModelUnreadable() }
        return message.fields.map(\.value)
    }

    fileprivate func transaction() throws(ModelUnreadable) -> ModelTransaction {
        let parts = try fields([1, 2, 3])
        return ModelTransaction(store: try parts[0].id(), environment: try parts[1].id(), id: try parts[2].id())
    }
}

/// A record's order: big-endian numbers of eight bytes.
private struct Order {
    var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8], count: Int) throws(ModelUnreadable) {
        guard bytes.count == count else { throw ModelUnreadable() }
        rest = bytes[...]
    }

    mutating func number() -> UInt64 {
        var number: UInt64 = 0
        for byte in rest.prefix(8) { number = number << 8 | UInt64(byte) }
        rest = rest.dropFirst(8)
        return number
    }

    /// Dates are stored with an offset of 2^63, so that they sort as bytes.
    mutating func date() -> Int64 { Self.date(number()) }

    /// A date whose bits are inverted, so that the earlier one is the larger.
    mutating func dateWhereEarlierIsLarger() -> Int64 { Self.date(~number()) }

    private static func date(_ number: UInt64) -> Int64 {
        ModelCalendar.clamped(Int64(bitPattern: number &- (1 << 63)))
    }
}

extension ModelStamp {
    fileprivate init(_ order: [UInt8]) throws(ModelUnreadable) {
        var bytes = try Order(order, count: 17)
        guard order[0] <= 1 else { throw ModelUnreadable() }
        bytes.rest = bytes.rest.dropFirst()
        let date = bytes.date()
        self.init(signedAt: order[0] == 1 ? date : nil, time: bytes.number(), order: order)
    }
}

extension ModelPurchase {
    fileprivate init(_ transaction: ModelTransaction, _ order: [UInt8], _ payload: ModelMessage)
        throws(ModelUnreadable)
    {
        guard let product = try payload.id(1) else {
            throw ModelUnreadable()
        }
        self.init(
            transaction: transaction, product: product,
            terms: try payload.last(2) { value throws(ModelUnreadable) in try ModelTerms(value.message()) } ?? nil,
            date: try payload.date(3) ?? 0, quantity: try payload.count(4) ?? 0,
            originalID: try payload.id(5),
            storeExpiry: try payload.date(6), isIntroductory: try payload.flag(7), lineItem: try payload.id(8),
            isNonConsumable: try payload.flag(9), stamp: try ModelStamp(order))
    }
}

extension ModelTerms {
    /// `nil` for an unknown kind, written by a later version.
    fileprivate init?(_ message: ModelMessage) throws(ModelUnreadable) {
        var terms: ModelTerms?
        var bonus = ModelDuration()
        for (number, value) in message.fields {
            switch number {
            case 1: terms = ModelTerms(kind: .consumable, units: try value.message().count(1) ?? 0)
            case 2:
                _ = try value.bytes()
                terms = ModelTerms(kind: .nonConsumable)
            case 3: terms = try ModelTerms(subscription: try value.message(), .nonRenewing)
            case 4: terms = try ModelTerms(subscription: try value.message(), .autoRenewable)
            case 15: bonus = try message.duration(15) ?? bonus
            default: break
            }
        }
        guard var terms else { return nil }
        terms.bonus = bonus
        self = terms
    }

    private init(subscription: ModelMessage, _ kind: Kind) throws(ModelUnreadable) {
        guard let group = try subscription.id(1) else {
            throw ModelUnreadable()
        }
        let duration = try subscription.duration(2)
        let level = try subscription.count(3) ?? 0
        let introductory = try subscription.last(4) { value throws(ModelUnreadable) -> ModelDuration? in
            let offer = try value.message()
            let mode = try offer.last(1) { mode throws(ModelUnreadable) in try mode.number() } ?? 0
            let duration = try offer.duration(2)
            // Offers of an unknown kind are ignored.
            return (1...3).contains(mode) ? duration ?? ModelDuration() : nil
        }
        self.init(kind: kind, group: group, duration: duration ?? ModelDuration())
        if kind == .autoRenewable { (self.level, self.introductory) = (level, introductory ?? nil) }
    }
}

extension ModelRecording {
    fileprivate init(_ transaction: ModelTransaction, _ replica: [UInt8], _ order: [UInt8], _ payload: ModelMessage)
        throws(ModelUnreadable)
    {
        var order = try Order(order, count: 8)
        self.init(
            transaction: transaction, replica: replica, recordedAt: try payload.date(1) ?? 0,
            knownEnd: try payload.date(2), time: ~order.number())
    }
}

extension ModelRevocation {
    fileprivate init(_ transaction: ModelTransaction, _ order: [UInt8], _ payload: ModelMessage)
        throws(ModelUnreadable)
    {
        self.init(
            transaction: transaction, revokedAt: try payload.date(1), reason: try payload.text(2) ?? "",
            upgradedAt: try payload.date(4), stamp: try ModelStamp(order))
        // Exactly one of date and reinstatement is set; anything else was written by a later version.
        guard try payload.flag(3) == isReinstated else { throw ModelUnreadable() }
    }
}

extension ModelRenewalState {
    fileprivate init(_ line: ModelTransaction, _ order: [UInt8], _ payload: ModelMessage) throws(ModelUnreadable) {
        self.init(
            line: line, willRenew: try payload.flag(1), graceEnd: try payload.date(2),
            isInBillingRetry: try payload.flag(3),
            pendingProduct: try payload.id(4),
            stamp: try ModelStamp(order))
    }
}

extension ModelAssertion {
    fileprivate init(_ key: ModelMessage, _ order: [UInt8], _ payload: ModelMessage) throws(ModelUnreadable) {
        // The date 1970 is the default value and omitted.
        guard key.isCanonical, key.numbers == [1, 2, 3, 4] || key.numbers == [1, 2, 4],
            let group = key.fields.first?.value, let environment = key.fields.last?.value
        else { throw ModelUnreadable() }
        if let until = try key.last(3, { value throws(ModelUnreadable) in try value.number() }) {
            // A date out of range would be a second encoding of the clamped date.
            let farthest = ModelCalendar.latest.magnitude * 2
            let earliest = ModelCalendar.earliest.magnitude * 2 - 1
            guard until <= (until % 2 == 0 ? farthest : earliest) else { throw ModelUnreadable() }
        }
        var order = try Order(order, count: 8)
        self.init(
            group: try group.id(), source: try key.fields[1].value.id(), until: try key.date(3) ?? 0,
            environment: try environment.id(), assertedAt: order.dateWhereEarlierIsLarger(),
            recordedAt: try payload.date(2) ?? 0, replica: try payload.replica(1),
            time: try payload.last(3) { value throws(ModelUnreadable) in try value.number() } ?? 0)
    }
}

extension ModelFlag {
    fileprivate init(
        _ product: ModelID, _ environment: ModelID, isSet: Bool, _ order: [UInt8], _ payload: ModelMessage
    ) throws(ModelUnreadable) {
        var order = try Order(order, count: 24)
        self.init(
            product: product, environment: environment, isSet: isSet, date: try payload.date(2) ?? 0,
            replica: try payload.replica(1), time: order.number())
    }
}

extension ModelSpend {
    fileprivate init(_ id: ModelID, _ order: [UInt8], _ payload: ModelMessage) throws(ModelUnreadable) {
        var order = try Order(order, count: 8)
        guard let product = try payload.id(1),
            let environment = try payload.id(5)
        else { throw ModelUnreadable() }
        self.init(
            id: id, product: product, units: try payload.count(2) ?? 0, environment: environment,
            date: try payload.date(4) ?? 0, replica: try payload.replica(3), time: order.number())
    }
}

extension ModelClaim {
    fileprivate init(_ order: [UInt8], _ payload: ModelMessage) throws(ModelUnreadable) {
        var order = try Order(order, count: 8)
        self.init(
            account: try payload.text(1) ?? "", incarnation: try payload.text(2) ?? "",
            date: try payload.date(3) ?? 0, time: ~order.number())
        guard !account.isEmpty, !incarnation.isEmpty else { throw ModelUnreadable() }
    }
}

extension ModelAcceptance {
    fileprivate init(_ transaction: ModelTransaction, _ order: [UInt8], _ payload: ModelMessage)
        throws(ModelUnreadable)
    {
        var order = try Order(order, count: 8)
        var decision = Decision.accepted
        for (number, value) in payload.fields {
            switch number {
            case 2: decision = .countsAsOf(try value.date())
            case 3: decision = .refused(try value.text())
            case 4: decision = .transferred(try value.text())
            default: break
            }
        }
        self.init(
            transaction: transaction, decision: decision, date: try payload.date(1) ?? 0, time: order.number())
    }
}

extension ModelPending {
    fileprivate init(_ product: ModelID, _ order: [UInt8], _ payload: ModelMessage) throws(ModelUnreadable) {
        var order = try Order(order, count: 8)
        self.init(
            product: product, requestedAt: try payload.date(1) ?? 0, isWithdrawn: try payload.flag(2),
            time: order.number())
    }
}

extension ModelEvidence {
    fileprivate init(_ key: ModelMessage, _ order: [UInt8], _ payload: ModelMessage) throws(ModelUnreadable) {
        // An empty subject is omitted.
        guard key.isCanonical, key.numbers == [1] || key.numbers == [1, 2], let kind = try key.text(1), kind != "",
            try key.text(2) != ""
        else { throw ModelUnreadable() }
        let facts = try payload.last(2) { value throws(ModelUnreadable) -> ModelLedger in
            guard let ledger = ModelLedger(document: try value.bytes()) else { throw ModelUnreadable() }
            return ledger
        }
        self.init(
            kind: kind, subject: try key.text(2) ?? "",
            data: try payload.last(1) { value throws(ModelUnreadable) in try value.bytes() } ?? [],
            facts: facts ?? ModelLedger(), stamp: try ModelStamp(order))
    }
}

extension ModelReset {
    fileprivate init(_ environment: ModelID, _ order: [UInt8], _ payload: ModelMessage) throws(ModelUnreadable) {
        var order = try Order(order, count: 8)
        self.init(environment: environment, date: try payload.date(1) ?? 0, time: order.number())
    }
}
