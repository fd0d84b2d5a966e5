import ProtoCoding

extension PolicyStatement {
    var record: Record {
        Record(key: FactKey.policy.bytes, order: FactOrder.bytes(logicalTime), payload: payload)
    }

    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.text(policy.rawValue, field: 1)
        return writer.bytes
    }

    init(time: LogicalTime, payload: RawBytes) throws(ProtoError) {
        var policy: TrustPolicy?
        var reader = ProtoReader(payload)
        while let (field, value) = try reader.nextField() {
            if field == 1 { policy = TrustPolicy(rawValue: try value.text()) }
        }
        guard let policy else { throw ProtoError(reason: "a trust policy that this version does not know") }
        self.init(policy, logicalTime: time)
    }
}

extension StoredEvidence {
    var record: Record {
        Record(
            key: FactKey.evidence(kind: kind, subject: subject).bytes, order: FactOrder.bytes(stamp),
            payload: payload)
    }

    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.data(data, field: 1)
        writer.data(LedgerDocument(ledger: facts).encoded(), field: 2)
        return writer.bytes
    }

    init(kind: String, subject: String, stamp: Stamp, payload: RawBytes) throws(ProtoError) {
        self.init(kind: kind, subject: subject, data: [], facts: Ledger(), stamp: stamp)
        var reader = ProtoReader(payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: data = Array(try value.data())
            case 2:
                do { facts = try LedgerDocument(decoding: Array(try value.data())).ledger } catch {
                    throw ProtoError(reason: "the facts of stored evidence cannot be read: \(error)")
                }
            default: break
            }
        }
    }
}
