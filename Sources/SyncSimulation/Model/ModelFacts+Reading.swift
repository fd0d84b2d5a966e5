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
            _ = (try names[1].replica(), try payload.date(1), try payload.date(2))
            recordings.append(ModelRecording(transaction: transaction, time: ~(try order.number())))
        case 3: revocations.append(try ModelRevocation(try name.transaction(), order, payload))
        case 4:
            let line = try name.transaction()
            _ = (try payload.flag(1), try payload.flag(3), try payload.id(4))
            renewalStates.append(
                ModelRenewalState(line: line, graceEnd: try payload.date(2), stamp: try ModelStamp(order)))
        case 5: assertions.append(try ModelAssertion(try name.message(), order, payload))
        case 6, 7:
            let names = try name.fields([1, 2])
            _ = (try payload.date(2), try payload.replica(1))
            flags.append(
                ModelFlag(
                    product: try names[0].id(), environment: try names[1].id(), isSet: kind == 6,
                    time: try order.number(of: 24)))
        case 8: spends.append(try ModelSpend(try name.id(), order, payload))
        case 9: claim = try ModelClaim(name, order, payload)
        case 10: acceptances.append(try ModelAcceptance(try name.transaction(), order, payload))
        case 11: _ = (try name.id(), try payload.date(1), try payload.flag(2), try order.number())
        case 12:
            _ = try payload.date(1)
            resets.append(ModelReset(environment: try name.id(), time: try order.number()))
        case 14:
            guard try name.bytes().isEmpty else { throw ModelUnreadable() }
            _ = try order.number()
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

extension [UInt8] {
    /// A big-endian number of eight bytes in a record's order, which must have `count` bytes.
    fileprivate func number(at offset: Int = 0, of count: Int = 8) throws(ModelUnreadable) -> UInt64 {
        guard self.count == count else { throw ModelUnreadable() }
        return self[offset..<offset + 8].reduce(0) { $0 << 8 | UInt64($1) }
    }
}

extension ModelCalendar {
    /// A date in a record's order: stored with an offset of 2^63, so that dates sort as bytes.
    fileprivate static func date(inOrder number: UInt64) -> Int64 {
        clamped(Int64(bitPattern: number &- (1 << 63)))
    }
}

extension ModelStamp {
    fileprivate init(_ order: [UInt8]) throws(ModelUnreadable) {
        let date = ModelCalendar.date(inOrder: try order.number(at: 1, of: 17))
        guard order[0] <= 1 else { throw ModelUnreadable() }
        self.init(signedAt: order[0] == 1 ? date : nil, time: try order.number(at: 9, of: 17), order: order)
    }
}

extension ModelPurchase {
    fileprivate init(_ transaction: ModelTransaction, _ order: [UInt8], _ payload: ModelMessage)
        throws(ModelUnreadable)
    {
        guard let product = try payload.id(1) else { throw ModelUnreadable() }
        self.init(
            transaction: transaction, product: product,
            terms: try payload.last(2) { value throws(ModelUnreadable) in try ModelTerms(value.message()) } ?? nil,
            date: try payload.date(3) ?? 0, quantity: try payload.count(4) ?? 0,
            originalID: try payload.id(5), storeExpiry: try payload.date(6), isIntroductory: try payload.flag(7),
            lineItem: try payload.id(8), isNonConsumable: try payload.flag(9), stamp: try ModelStamp(order))
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
        guard let group = try subscription.id(1) else { throw ModelUnreadable() }
        let duration = try subscription.duration(2)
        let level = try subscription.count(3) ?? 0
        let introductory = try subscription.last(4) { value throws(ModelUnreadable) -> ModelDuration? in
            let offer = try value.message()
            let mode = try offer.number(1) ?? 0
            let duration = try offer.duration(2)
            // Offers of an unknown kind are ignored.
            return (1...3).contains(mode) ? duration ?? ModelDuration() : nil
        }
        self.init(kind: kind, group: group, duration: duration ?? ModelDuration())
        if kind == .autoRenewable { (self.level, self.introductory) = (level, introductory ?? nil) }
    }
}

extension ModelRevocation {
    fileprivate init(_ transaction: ModelTransaction, _ order: [UInt8], _ payload: ModelMessage)
        throws(ModelUnreadable)
    {
        _ = try payload.text(2)
        self.init(
            transaction: transaction, revokedAt: try payload.date(1), upgradedAt: try payload.date(4),
            stamp: try ModelStamp(order))
        // Exactly one of date and reinstatement is set; anything else was written by a later version.
        guard try payload.flag(3) == isReinstated else { throw ModelUnreadable() }
    }
}

extension ModelAssertion {
    fileprivate init(_ key: ModelMessage, _ order: [UInt8], _ payload: ModelMessage) throws(ModelUnreadable) {
        // The date 1970 is the default value and omitted.
        guard key.isCanonical, key.numbers == [1, 2, 3, 4] || key.numbers == [1, 2, 4],
            let group = try key.id(1), let source = try key.id(2), let environment = try key.id(4)
        else { throw ModelUnreadable() }
        if let until = try key.number(3) {
            // A date out of range would be a second encoding of the clamped date.
            let farthest = ModelCalendar.latest.magnitude * 2
            let earliest = ModelCalendar.earliest.magnitude * 2 - 1
            guard until <= (until % 2 == 0 ? farthest : earliest) else { throw ModelUnreadable() }
        }
        _ = (try payload.replica(1), try payload.date(2))
        // The bits are inverted, so that the earlier date is the larger.
        self.init(
            group: group, source: source, until: try key.date(3) ?? 0, environment: environment,
            assertedAt: ModelCalendar.date(inOrder: ~(try order.number())), time: try payload.number(3) ?? 0)
    }
}

extension ModelSpend {
    fileprivate init(_ id: ModelID, _ order: [UInt8], _ payload: ModelMessage) throws(ModelUnreadable) {
        guard let product = try payload.id(1), let environment = try payload.id(5) else { throw ModelUnreadable() }
        _ = (try payload.replica(3), try payload.date(4))
        self.init(
            id: id, product: product, units: try payload.count(2) ?? 0, environment: environment,
            time: try order.number())
    }
}

extension ModelClaim {
    fileprivate init(
        _ name: ModelMessage.Value, _ order: [UInt8], _ payload: ModelMessage
    ) throws(ModelUnreadable) {
        _ = (try payload.date(3), try order.number())
        guard try name.bytes().isEmpty, let account = try payload.text(1), !account.isEmpty,
            let incarnation = try payload.text(2), !incarnation.isEmpty
        else { throw ModelUnreadable() }
        self.init(account: account)
    }
}

extension ModelAcceptance {
    fileprivate init(_ transaction: ModelTransaction, _ order: [UInt8], _ payload: ModelMessage)
        throws(ModelUnreadable)
    {
        _ = try payload.date(1)
        var decision = Decision.accepted
        for (number, value) in payload.fields {
            switch number {
            case 2: decision = .countsAsOf(try value.date())
            case 3: decision = .refused(try value.text())
            case 4: decision = .transferred(try value.text())
            default: break
            }
        }
        self.init(transaction: transaction, decision: decision, time: try order.number())
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
        let data = try payload.last(1) { value throws(ModelUnreadable) in try value.bytes() }
        _ = try ModelStamp(order)
        self.init(data: data ?? [], facts: facts ?? ModelLedger())
    }
}
