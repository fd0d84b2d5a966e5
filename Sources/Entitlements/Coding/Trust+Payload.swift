import ProtoCoding

extension PolicyStatement {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.text(policy.rawValue, field: 1)
        return writer.bytes
    }

    init(_ record: RawRecord) throws(ProtoError) {
        var policy: TrustPolicy?
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            if field == 1 { policy = TrustPolicy(rawValue: try value.text()) }
        }
        guard let policy else { throw ProtoError(reason: "a trust policy that this version does not know") }
        self.init(policy, logicalTime: try FactOrder.time(record.order))
    }
}

extension StoredEvidence {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.data(data, field: 1)
        writer.data(LedgerDocument(ledger: facts).encoded(), field: 2)
        return writer.bytes
    }

    init(kind: String, _ subject: String, _ record: RawRecord) throws(ProtoError) {
        self.init(
            kind: kind, subject: subject, data: [], facts: Ledger(), stamp: try FactOrder.stamp(record.order))
        var reader = ProtoReader(record.payload)
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
