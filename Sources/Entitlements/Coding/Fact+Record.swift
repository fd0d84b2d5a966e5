import ProtoCoding

extension Fact {
    /// The encoded form of the fact. Equal facts give equal bytes.
    public var record: Record {
        switch self {
        case .purchase(let purchase):
            Record(
                key: FactKey.purchase(purchase.transaction).bytes, order: FactOrder.bytes(purchase.stamp),
                payload: purchase.payload)
        case .recording(let recording):
            Record(
                key: FactKey.recording(recording.transaction, recording.replica).bytes,
                order: FactOrder.bytes(earlierWins: recording.logicalTime), payload: recording.payload)
        case .revocation(let revocation):
            Record(
                key: FactKey.revocation(revocation.transaction).bytes, order: FactOrder.bytes(revocation.stamp),
                payload: revocation.payload)
        case .renewalState(let state):
            Record(
                key: FactKey.renewalState(state.line).bytes, order: FactOrder.bytes(state.stamp),
                payload: state.payload)
        case .assertion(let assertion):
            Record(
                key: FactKey.assertion(assertion.reference).bytes,
                order: FactOrder.bytes(earlierWins: assertion.assertedAt), payload: assertion.payload)
        case .flag(let flag):
            Record(
                key: (flag.isSet
                    ? FactKey.flagSet(flag.product, flag.environment) : .flagCleared(flag.product, flag.environment))
                    .bytes,
                order: FactOrder.bytes(flag.logicalTime, flag.replica), payload: flag.payload)
        case .spend(let spend):
            Record(
                key: FactKey.spend(spend.id).bytes, order: FactOrder.bytes(spend.logicalTime), payload: spend.payload)
        case .pending(let pending):
            Record(
                key: FactKey.pending(pending.product).bytes, order: FactOrder.bytes(pending.logicalTime),
                payload: pending.payload)
        case .claim(let claim):
            Record(
                key: FactKey.claim.bytes, order: FactOrder.bytes(earlierWins: claim.logicalTime),
                payload: claim.payload)
        case .acceptance(let acceptance):
            Record(
                key: FactKey.acceptance(acceptance.transaction).bytes,
                order: FactOrder.bytes(acceptance.logicalTime), payload: acceptance.payload)
        case .reset(let reset):
            Record(
                key: FactKey.reset(reset.environment).bytes, order: FactOrder.bytes(reset.logicalTime),
                payload: reset.payload)
        case .contradiction(let note):
            Record(
                key: FactKey.contradiction(note.kept.transaction, dropped: note.dropped.payload.digest).bytes,
                order: FactOrder.bytes(earlierWins: note.logicalTime), payload: note.payload)
        case .policy(let statement): statement.record
        case .evidence(let evidence): evidence.record
        case .unreadable(let record, _):
            record
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
        case .purchase(let transaction):
            let stamp = try FactOrder.stamp(record.order)
            self = .purchase(try Purchase(transaction: transaction, stamp: stamp, payload: record.payload))
        case .recording(let transaction, let replica):
            let time = try FactOrder.timeWhereEarlierWins(record.order)
            self = .recording(
                try Recording(transaction: transaction, replica: replica, time: time, payload: record.payload))
        case .revocation(let transaction):
            let stamp = try FactOrder.stamp(record.order)
            self = .revocation(try Revocation(transaction: transaction, stamp: stamp, payload: record.payload))
        case .renewalState(let line):
            let stamp = try FactOrder.stamp(record.order)
            self = .renewalState(try RenewalState(line: line, stamp: stamp, payload: record.payload))
        case .assertion(let reference):
            self = .assertion(try Assertion(reference, record: record))
        case .flagSet(let product, let environment):
            self = .flag(try Flag(product: product, environment: environment, isSet: true, record: record))
        case .flagCleared(let product, let environment):
            self = .flag(try Flag(product: product, environment: environment, isSet: false, record: record))
        case .spend(let id):
            let time = try FactOrder.time(record.order)
            self = .spend(try Spend(id: id, time: time, payload: record.payload))
        case .pending(let product):
            let time = try FactOrder.time(record.order)
            self = .pending(try PendingPurchase(product: product, time: time, payload: record.payload))
        case .claim:
            let time = try FactOrder.timeWhereEarlierWins(record.order)
            self = .claim(try Claim(time: time, payload: record.payload))
        case .acceptance(let transaction):
            let time = try FactOrder.time(record.order)
            self = .acceptance(try Acceptance(transaction: transaction, time: time, payload: record.payload))
        case .reset(let environment):
            let time = try FactOrder.time(record.order)
            self = .reset(try EnvironmentReset(environment: environment, time: time, payload: record.payload))
        case .contradiction(let transaction, let dropped):
            let time = try FactOrder.timeWhereEarlierWins(record.order)
            let note = try Contradiction(transaction: transaction, time: time, payload: record.payload)
            guard note.dropped.payload.digest == dropped else {
                throw ProtoError(reason: "a contradiction does not hold what its key names")
            }
            self = .contradiction(note)
        case .policy:
            self = .policy(try PolicyStatement(time: try FactOrder.time(record.order), payload: record.payload))
        case .evidence(let kind, let subject):
            let stamp = try FactOrder.stamp(record.order)
            self = .evidence(
                try StoredEvidence(kind: kind, subject: subject, stamp: stamp, payload: record.payload))
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
