import ProtoCoding

extension Recording {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.timestamp(recordedAt, field: 1)
        writer.timestamp(optional: knownEnd, field: 2)
        return writer.bytes
    }

    init(_ transaction: TransactionReference, by replica: ReplicaID, _ record: RawRecord) throws(ProtoError) {
        self.init(
            transaction: transaction, replica: replica, recordedAt: Timestamp(milliseconds: 0), knownEnd: nil,
            logicalTime: try FactOrder.timeWhereEarlierWins(record.order))
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: recordedAt = try value.timestamp()
            case 2: knownEnd = try value.timestamp()
            default: break
            }
        }
    }
}

extension Revocation {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.timestamp(optional: revokedAt, field: 1)
        writer.text(reason, field: 2)
        writer.number(revokedAt == nil ? 1 : 0, field: 3)
        writer.timestamp(optional: upgradedAt, field: 4)
        return writer.bytes
    }

    init(_ transaction: TransactionReference, _ record: RawRecord) throws(ProtoError) {
        self.init(transaction: transaction, revokedAt: nil, stamp: try FactOrder.stamp(record.order))
        var isReinstated = false
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: revokedAt = try value.timestamp()
            case 2: reason = try value.text()
            case 3: isReinstated = try value.number() != 0
            case 4: upgradedAt = try value.timestamp()
            default: break
            }
        }
        guard (revokedAt == nil) == isReinstated else {
            throw ProtoError(reason: "a revocation of a kind that this version does not know")
        }
    }
}

extension Flag {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.data(replica.bytes, field: 1)
        writer.timestamp(date, field: 2)
        return writer.bytes
    }

    init(_ product: ProductID, _ environment: EnvironmentID, isSet: Bool, _ record: RawRecord) throws(ProtoError) {
        let time = try FactOrder.time(record.order, trailing: 16)
        let origin = try Origin(record.payload, replica: 1, date: 2)
        self.init(
            product: product, environment: environment, isSet: isSet, date: origin.date, replica: origin.replica,
            logicalTime: time)
    }
}

extension Spend {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.text(product.rawValue, field: 1)
        writer.number(UInt64(clamping: units), field: 2)
        writer.data(replica.bytes, field: 3)
        writer.timestamp(date, field: 4)
        writer.text(environment.rawValue, field: 5)
        return writer.bytes
    }

    init(_ id: SpendID, _ record: RawRecord) throws(ProtoError) {
        let time = try FactOrder.time(record.order)
        let origin = try Origin(record.payload, replica: 3, date: 4)
        self.init(
            id: id, product: "", units: 0, environment: "", date: origin.date, replica: origin.replica,
            logicalTime: time)
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: product = try value.identifier()
            case 2: units = try value.count()
            case 5: environment = try value.identifier()
            default: break
            }
        }
        guard !product.rawValue.isEmpty, !environment.rawValue.isEmpty else {
            throw ProtoError(reason: "a spend lacks a product or an environment")
        }
    }
}

extension PendingPurchase {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.timestamp(requestedAt, field: 1)
        writer.number(isWithdrawn ? 1 : 0, field: 2)
        return writer.bytes
    }

    init(_ product: ProductID, _ record: RawRecord) throws(ProtoError) {
        self.init(
            product: product, requestedAt: Timestamp(milliseconds: 0), logicalTime: try FactOrder.time(record.order))
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: requestedAt = try value.timestamp()
            case 2: isWithdrawn = try value.number() != 0
            default: break
            }
        }
    }
}

/// The replica and the date of an action, decoded from the fields with the given numbers.
struct Origin {
    let replica: ReplicaID
    let date: Timestamp

    init(_ payload: RawBytes, replica replicaField: Int, date dateField: Int) throws(ProtoError) {
        var replica: ReplicaID?
        var date = Timestamp(milliseconds: 0)
        var reader = ProtoReader(payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case replicaField: replica = try value.replica()
            case dateField: date = try value.timestamp()
            default: break
            }
        }
        guard let replica else { throw ProtoError(reason: "it does not say which replica made it") }
        self.replica = replica
        self.date = date
    }
}
