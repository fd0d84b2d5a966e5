private import Checksums
import ProtoCoding

extension RenewalState {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.number(willRenew ? 1 : 0, field: 1)
        writer.timestamp(optional: graceEnd, field: 2)
        writer.number(isInBillingRetry ? 1 : 0, field: 3)
        if let pendingProduct { writer.text(pendingProduct.rawValue, field: 4) }
        return writer.bytes
    }

    init(_ line: TransactionReference, _ record: RawRecord) throws(ProtoError) {
        self.init(line: line, willRenew: false, stamp: try FactOrder.stamp(record.order))
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: willRenew = try value.number() != 0
            case 2: graceEnd = try value.timestamp()
            case 3: isInBillingRetry = try value.number() != 0
            case 4: pendingProduct = try value.identifier()
            default: break
            }
        }
    }
}

extension Assertion {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.data(replica.bytes, field: 1)
        writer.timestamp(recordedAt, field: 2)
        writer.number(logicalTime.rawValue, field: 3)
        return writer.bytes
    }

    init(_ reference: Reference, _ record: RawRecord) throws(ProtoError) {
        let assertedAt = try FactOrder.dateWhereEarlierWins(record.order)
        let origin = try Origin(record.payload, replica: 1, date: 2)
        self.init(
            reference, assertedAt: assertedAt, recordedAt: origin.date, replica: origin.replica, logicalTime: .zero)
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            if field == 3 { logicalTime = LogicalTime(rawValue: try value.number()) }
        }
    }
}

extension Claim {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.text(account, field: 1)
        writer.text(incarnation, field: 2)
        writer.timestamp(date, field: 3)
        return writer.bytes
    }

    init(_ record: RawRecord) throws(ProtoError) {
        let time = try FactOrder.timeWhereEarlierWins(record.order)
        self.init(account: "", incarnation: "", date: Timestamp(milliseconds: 0), logicalTime: time)
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: account = try value.text()
            case 2: incarnation = try value.text()
            case 3: date = try value.timestamp()
            default: break
            }
        }
        guard !account.isEmpty, !incarnation.isEmpty else {
            throw ProtoError(reason: "a claim lacks an account or an incarnation")
        }
    }
}

extension Acceptance {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.timestamp(date, field: 1)
        switch decision {
        case .accepted: break
        case .countsAsOf(let date): writer.timestamp(optional: date, field: 2)
        case .refused(let reason): writer.text(reason, field: 3, isOptional: true)
        case .transferred(let account): writer.text(account, field: 4, isOptional: true)
        }
        return writer.bytes
    }

    init(_ transaction: TransactionReference, _ record: RawRecord) throws(ProtoError) {
        self.init(
            transaction: transaction, decision: .accepted, date: Timestamp(milliseconds: 0),
            logicalTime: try FactOrder.time(record.order))
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: date = try value.timestamp()
            case 2: decision = .countsAsOf(try value.timestamp())
            case 3: decision = .refused(try value.text())
            case 4: decision = .transferred(to: try value.text())
            default: break
            }
        }
    }
}

extension EnvironmentReset {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.timestamp(date, field: 1)
        return writer.bytes
    }

    init(_ environment: EnvironmentID, _ record: RawRecord) throws(ProtoError) {
        var date = Timestamp(milliseconds: 0)
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            if field == 1 { date = try value.timestamp() }
        }
        self.init(environment: environment, date: date, logicalTime: try FactOrder.time(record.order))
    }
}

extension Contradiction {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.message(field: 1) { $0.write(kept) }
        writer.message(field: 2) { $0.write(dropped) }
        writer.timestamp(noticedAt, field: 3)
        return writer.bytes
    }

    init(_ transaction: TransactionReference, _ record: RawRecord) throws(ProtoError) {
        let time = try FactOrder.timeWhereEarlierWins(record.order)
        var kept: Purchase?
        var dropped: Purchase?
        var noticedAt = Timestamp(milliseconds: 0)
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: kept = try Purchase(transaction: transaction, statement: try value.data())
            case 2: dropped = try Purchase(transaction: transaction, statement: try value.data())
            case 3: noticedAt = try value.timestamp()
            default: break
            }
        }
        guard let kept, let dropped else { throw ProtoError(reason: "a contradiction lacks a statement") }
        self.init(kept: kept, dropped: dropped, noticedAt: noticedAt, logicalTime: time)
    }
}

extension ProtoWriter {
    fileprivate mutating func write(_ statement: Purchase) {
        data(statement.payload, field: 1)
        data(FactOrder.bytes(statement.stamp), field: 2)
    }
}

extension Purchase {
    /// Decodes a purchase from the payload and order that a contradiction stores.
    fileprivate init(transaction: TransactionReference, statement: RawBytes) throws(ProtoError) {
        let none = RawBytes(start: nil, count: 0)
        var (payload, order) = (none, none)
        var reader = ProtoReader(statement)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: payload = try value.data()
            case 2: order = try value.data()
            default: break
            }
        }
        try self.init(transaction, RawRecord(key: none, order: order, payload: payload))
    }
}

extension [UInt8] {
    /// The XXH64 digest in big-endian order.
    var digest: [UInt8] {
        var bytes: [UInt8] = []
        bytes.appendBigEndian(XXHash64.digest(of: self))
        return bytes
    }
}
