import ProtoCoding

/// The key of a fact's record: the message `Key` of `Docs/ledger.proto`, in canonical encoding.
enum FactKey: Hashable {
    case purchase(TransactionReference)
    case recording(TransactionReference, ReplicaID)
    case revocation(TransactionReference)
    case renewalState(TransactionReference)
    case assertion(Assertion.Reference)
    case flag(ProductID, EnvironmentID, isSet: Bool)
    case spend(SpendID)
    case claim
    case acceptance(TransactionReference)
    case pending(ProductID)
    case reset(EnvironmentID)
    case contradiction(TransactionReference, dropped: [UInt8])
    case policy
    case evidence(kind: String, subject: String)

    /// The field numbers of the one-of in the message.
    enum Field {
        static let purchase = 1
        static let recording = 2
        static let revocation = 3
        static let renewalState = 4
        static let assertion = 5
        static let flagSet = 6
        static let flagCleared = 7
        static let spend = 8
        static let claim = 9
        static let acceptance = 10
        static let pending = 11
        static let reset = 12
        static let contradiction = 13
        static let policy = 14
        static let evidence = 15
    }

    /// Returns `true` if the tag in the first byte of an encoded key is that of a flag.
    static func isFlag(_ key: [UInt8]) -> Bool {
        key.first == UInt8(Field.flagSet << 3 | 2) || key.first == UInt8(Field.flagCleared << 3 | 2)
    }

    var bytes: [UInt8] {
        var writer = ProtoWriter()
        switch self {
        case .purchase(let transaction):
            writer.message(field: Field.purchase) { $0.write(transaction) }
        case .recording(let transaction, let replica):
            writer.message(field: Field.recording) {
                $0.message(field: 1) { $0.write(transaction) }
                $0.data(replica.bytes, field: 2)
            }
        case .revocation(let transaction):
            writer.message(field: Field.revocation) { $0.write(transaction) }
        case .renewalState(let line):
            writer.message(field: Field.renewalState) { $0.write(line) }
        case .assertion(let reference):
            writer.message(field: Field.assertion) { $0.write(reference) }
        case .flag(let product, let environment, let isSet):
            writer.message(field: isSet ? Field.flagSet : Field.flagCleared) {
                $0.text(product.rawValue, field: 1)
                $0.text(environment.rawValue, field: 2)
            }
        case .spend(let id):
            writer.text(id.rawValue, field: Field.spend, isOptional: true)
        case .pending(let product):
            writer.text(product.rawValue, field: Field.pending, isOptional: true)
        case .claim:
            writer.message(field: Field.claim) { _ in }
        case .acceptance(let transaction):
            writer.message(field: Field.acceptance) { $0.write(transaction) }
        case .reset(let environment):
            writer.text(environment.rawValue, field: Field.reset, isOptional: true)
        case .contradiction(let transaction, let dropped):
            writer.message(field: Field.contradiction) {
                $0.message(field: 1) { $0.write(transaction) }
                $0.data(dropped, field: 2)
            }
        case .policy:
            writer.message(field: Field.policy) { _ in }
        case .evidence(let kind, let subject):
            writer.message(field: Field.evidence) {
                $0.text(kind, field: 1)
                $0.text(subject, field: 2)
            }
        }
        return writer.bytes
    }

    /// Decodes a key; returns `nil` if its kind is unknown to this version.
    ///
    /// - Throws: ``ProtoError`` if the key is malformed or not in canonical encoding. A second encoding of one key
    ///   would make one purchase count twice.
    init?(_ bytes: RawBytes) throws(ProtoError) {
        var reader = ProtoReader(bytes)
        guard let (field, value) = try reader.nextField() else { throw ProtoError(reason: "the key is empty") }
        switch field {
        case Field.purchase: self = .purchase(try TransactionReference(try value.data()))
        case Field.recording: self = try Self.recording(try value.data())
        case Field.revocation: self = .revocation(try TransactionReference(try value.data()))
        case Field.renewalState: self = .renewalState(try TransactionReference(try value.data()))
        case Field.assertion: self = .assertion(try Assertion.Reference(try value.data()))
        case Field.flagSet, Field.flagCleared:
            self = try Self.flag(try value.data(), isSet: field == Field.flagSet)
        case Field.spend: self = .spend(try value.identifier())
        case Field.claim:
            guard try value.data().isEmpty else { throw Self.notCanonical }
            self = .claim
        case Field.acceptance: self = .acceptance(try TransactionReference(try value.data()))
        case Field.pending: self = .pending(try value.identifier())
        case Field.reset: self = .reset(try value.identifier())
        case Field.contradiction: self = try Self.contradiction(try value.data())
        case Field.policy:
            guard try value.data().isEmpty else { throw Self.notCanonical }
            self = .policy
        case Field.evidence: self = try Self.evidence(try value.data())
        default: return nil
        }
        try reader.endCanonical()
        assert(self.bytes == Array(bytes), "the key has another encoding")
    }

    fileprivate static let notCanonical = ProtoError(reason: "the key is not written canonically")

    private static func recording(_ bytes: RawBytes) throws(ProtoError) -> FactKey {
        var reader = ProtoReader(bytes)
        let missing = "a recording lacks a transaction or a replica"
        let transaction = try TransactionReference(try reader.required(1, missing).data())
        let replica = try reader.required(2, missing).replica()
        try reader.endCanonical()
        return .recording(transaction, replica)
    }

    private static func contradiction(_ bytes: RawBytes) throws(ProtoError) -> FactKey {
        var reader = ProtoReader(bytes)
        let missing = "a contradiction lacks its transaction"
        let transaction = try TransactionReference(try reader.required(1, missing).data())
        let dropped = reader.isAtEnd ? [] : Array(try reader.required(2, missing).nonempty())
        try reader.endCanonical()
        return .contradiction(transaction, dropped: dropped)
    }

    private static func evidence(_ bytes: RawBytes) throws(ProtoError) -> FactKey {
        var reader = ProtoReader(bytes)
        let missing = "stored evidence lacks its kind"
        let kind = try reader.required(1, missing).text()
        guard !kind.isEmpty else { throw ProtoError(reason: missing) }
        var subject = ""
        if !reader.isAtEnd {
            let value = try reader.required(2, missing)
            _ = try value.nonempty()
            subject = try value.text()
        }
        try reader.endCanonical()
        return .evidence(kind: kind, subject: subject)
    }

    /// Returns `true` if a verified statement with this key overrides what clients state. The first byte suffices,
    /// because tags of field numbers below 16 take one byte.
    static func overrides(_ key: [UInt8]) -> Bool {
        [
            Field.purchase, Field.revocation, Field.renewalState, Field.assertion, Field.flagSet, Field.flagCleared,
        ].contains { field in
            key.first == UInt8(field << 3 | 2)
        }
    }

    /// Returns `true` if the tag in the first byte of an encoded key is that of a purchase.
    static func isPurchase(_ bytes: [UInt8]) -> Bool { bytes.first == UInt8(Field.purchase << 3 | 2) }

    private static func flag(_ bytes: RawBytes, isSet: Bool) throws(ProtoError) -> FactKey {
        var reader = ProtoReader(bytes)
        let missing = "a flag lacks a product or an environment"
        let product: ProductID = try reader.required(1, missing).identifier()
        let environment: EnvironmentID = try reader.required(2, missing).identifier()
        try reader.endCanonical()
        return .flag(product, environment, isSet: isSet)
    }
}

extension ProtoWriter {
    mutating func write(_ transaction: TransactionReference) {
        text(transaction.store.rawValue, field: 1)
        text(transaction.environment.rawValue, field: 2)
        text(transaction.id.rawValue, field: 3)
    }
}

extension ProtoWriter {
    fileprivate mutating func write(_ reference: Assertion.Reference) {
        text(reference.group.rawValue, field: 1)
        text(reference.source.rawValue, field: 2)
        timestamp(reference.until, field: 3)
        text(reference.environment.rawValue, field: 4)
    }
}

extension Assertion.Reference {
    fileprivate init(_ bytes: RawBytes) throws(ProtoError) {
        var (group, source, environment): (GroupID?, SourceID?, EnvironmentID?)
        var until = Timestamp(milliseconds: 0)
        var reader = ProtoReader(bytes)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: group = try value.identifier()
            case 2: source = try value.identifier()
            case 3:
                until = try value.timestamp()
                // A date out of range is read as the nearest one, so it would be a second encoding of that one.
                guard until.milliseconds == (try value.signed()) else { throw FactKey.notCanonical }
            case 4: environment = try value.identifier()
            default: throw FactKey.notCanonical
            }
        }
        try reader.endCanonical()
        guard let group, let source, let environment else {
            throw ProtoError(reason: "an assertion lacks a group, a source or an environment")
        }
        self.init(group: group, source: source, until: until, environment: environment)
    }
}

extension TransactionReference {
    init(_ bytes: RawBytes) throws(ProtoError) {
        var reader = ProtoReader(bytes)
        let missing = "a transaction lacks a store, an environment or an id"
        let store: StoreID = try reader.required(1, missing).identifier()
        let environment: EnvironmentID = try reader.required(2, missing).identifier()
        let id: TransactionID = try reader.required(3, missing).identifier()
        try reader.endCanonical()
        self.init(store: store, environment: environment, id: id)
    }
}

extension ProtoReader {
    /// The value of the next field, which must be `field`.
    ///
    /// - Parameter missing: The reason to throw if the message has ended.
    fileprivate mutating func required(_ field: Int, _ missing: String) throws(ProtoError) -> Value {
        guard let (next, value) = try nextField() else { throw ProtoError(reason: missing) }
        guard next == field else { throw FactKey.notCanonical }
        return value
    }

    /// Ends the reading of a part of a key.
    fileprivate func endCanonical() throws(ProtoError) {
        guard isAtEnd, isCanonical else { throw FactKey.notCanonical }
    }
}

extension ProtoReader.Value {
    /// The bytes of a field that is omitted if it is empty.
    fileprivate func nonempty() throws(ProtoError) -> RawBytes {
        let bytes = try data()
        guard !bytes.isEmpty else { throw FactKey.notCanonical }
        return bytes
    }

    func identifier<Subject>() throws(ProtoError) -> Identifier<Subject> {
        // Almost all ids consist of printable ASCII, which one loop without an early exit can show.
        let bytes = try data()
        let hasOthers = bytes.reduce(false) { $0 || $1 < 0x20 || $1 >= 0x7F }
        if !hasOthers, (1...maximumIdentifierByteCount).contains(bytes.count) {
            return Identifier(String(decoding: bytes, as: UTF8.self))
        }
        let identifier = Identifier<Subject>(try text())
        do { try identifier.validate() } catch { throw ProtoError(reason: error.reason) }
        return identifier
    }

    func replica() throws(ProtoError) -> ReplicaID {
        guard let replica = ReplicaID(bytes: try data()) else { throw ProtoError(reason: "a replica id has 16 bytes") }
        return replica
    }
}
