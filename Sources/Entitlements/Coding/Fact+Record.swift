import ProtoCoding

extension Fact {
    /// The encoded form of the fact. Equal facts give equal bytes.
    public var record: Record {
        switch self {
        case .purchase(let fact): Record(.purchase(fact.transaction), FactOrder.bytes(fact.stamp), fact.payload)
        case .recording(let fact):
            Record(
                .recording(fact.transaction, fact.replica), FactOrder.bytes(earlierWins: fact.logicalTime),
                fact.payload)
        case .revocation(let fact): Record(.revocation(fact.transaction), FactOrder.bytes(fact.stamp), fact.payload)
        case .renewalState(let fact): Record(.renewalState(fact.line), FactOrder.bytes(fact.stamp), fact.payload)
        case .assertion(let fact):
            Record(.assertion(fact.reference), FactOrder.bytes(earlierWins: fact.assertedAt), fact.payload)
        case .flag(let fact):
            Record(
                .flag(fact.product, fact.environment, isSet: fact.isSet),
                FactOrder.bytes(fact.logicalTime, fact.replica), fact.payload)
        case .spend(let fact): Record(.spend(fact.id), FactOrder.bytes(fact.logicalTime), fact.payload)
        case .pending(let fact): Record(.pending(fact.product), FactOrder.bytes(fact.logicalTime), fact.payload)
        case .claim(let fact): Record(.claim, FactOrder.bytes(earlierWins: fact.logicalTime), fact.payload)
        case .acceptance(let fact):
            Record(.acceptance(fact.transaction), FactOrder.bytes(fact.logicalTime), fact.payload)
        case .reset(let fact): Record(.reset(fact.environment), FactOrder.bytes(fact.logicalTime), fact.payload)
        case .contradiction(let fact):
            Record(
                .contradiction(fact.kept.transaction, dropped: fact.dropped.payload.digest),
                FactOrder.bytes(earlierWins: fact.logicalTime), fact.payload)
        case .policy(let fact): Record(.policy, FactOrder.bytes(fact.logicalTime), fact.payload)
        case .evidence(let fact):
            Record(.evidence(kind: fact.kind, subject: fact.subject), FactOrder.bytes(fact.stamp), fact.payload)
        case .unreadable(let record, _): record
        }
    }

    /// Decodes a record. A record that this version cannot read becomes ``unreadable(_:reason:)``.
    public init(_ record: Record) { self = record.withRawRecord { Fact($0) } }

    /// Decodes a record in place.
    init(_ record: RawRecord) {
        do {
            guard let key = try FactKey(record.key) else {
                self = .unreadable(record.copy, reason: "a kind of fact that this version does not know")
                return
            }
            self = try Fact(key, record)
        } catch {
            self = .unreadable(record.copy, reason: error.reason)
        }
    }

    private init(_ key: consuming FactKey, _ record: RawRecord) throws(ProtoError) {
        switch consume key {
        case .purchase(let transaction): self = .purchase(try Purchase(transaction, record))
        case .recording(let transaction, let replica):
            self = .recording(try Recording(transaction, by: replica, record))
        case .revocation(let transaction): self = .revocation(try Revocation(transaction, record))
        case .renewalState(let line): self = .renewalState(try RenewalState(line, record))
        case .assertion(let reference): self = .assertion(try Assertion(reference, record))
        case .flag(let product, let environment, let isSet):
            self = .flag(try Flag(product, environment, isSet: isSet, record))
        case .spend(let id): self = .spend(try Spend(id, record))
        case .pending(let product): self = .pending(try PendingPurchase(product, record))
        case .claim: self = .claim(try Claim(record))
        case .acceptance(let transaction): self = .acceptance(try Acceptance(transaction, record))
        case .reset(let environment): self = .reset(try EnvironmentReset(environment, record))
        case .contradiction(let transaction, let dropped):
            let note = try Contradiction(transaction, record)
            guard note.dropped.payload.digest == dropped else {
                throw ProtoError(reason: "a contradiction does not hold what its key names")
            }
            self = .contradiction(note)
        case .policy: self = .policy(try PolicyStatement(record))
        case .evidence(let kind, let subject): self = .evidence(try StoredEvidence(kind: kind, subject, record))
        }
    }

    /// The logical time at which the fact was recorded; ``LogicalTime/zero`` for an unreadable record.
    public var logicalTime: LogicalTime {
        switch self {
        case .purchase(let purchase): purchase.stamp.logicalTime
        case .recording(let recording): recording.logicalTime
        case .revocation(let revocation): revocation.stamp.logicalTime
        case .flag(let flag): flag.logicalTime
        case .spend(let spend): spend.logicalTime
        case .renewalState(let state): state.stamp.logicalTime
        case .assertion(let assertion): assertion.logicalTime
        case .claim(let claim): claim.logicalTime
        case .acceptance(let acceptance): acceptance.logicalTime
        case .pending(let pending): pending.logicalTime
        case .reset(let reset): reset.logicalTime
        case .contradiction(let note): note.logicalTime
        case .policy(let statement): statement.logicalTime
        case .evidence(let evidence): evidence.stamp.logicalTime
        case .unreadable: .zero
        }
    }
}

extension Record {
    fileprivate init(_ key: FactKey, _ order: [UInt8], _ payload: [UInt8]) {
        self.init(key: key.bytes, order: order, payload: payload)
    }
}
