import ProtoCoding
public import SyncCore

/// The bodies of `POST /v1/batch`, request and answer: the messages of `Docs/wire.proto` in the proto3 encoding.
///
/// Each message has exactly one encoding when it is written. Reading follows proto3, with two exceptions: if a message
/// is given twice, the last one counts in full and the two are not merged; and a message that cannot be carried out as
/// it stands (a write without a condition, an empty version) is rejected.
public enum BatchBody {
    /// The path of the batch endpoint.
    public static let path = "/v1/batch"
    /// The media type of request and answer.
    public static let mediaType = "application/vnd.entitlementsync.batch"
    /// The maximum number of operations in a batch.
    public static let maximumOperationCount = 256

    /// The request for `operations`, at most ``maximumOperationCount``.
    public static func bytes(of operations: [BatchOperation]) -> [UInt8] {
        precondition(operations.count <= maximumOperationCount, "a batch has at most 256 operations")
        var writer = ProtoWriter()
        for operation in operations {
            writer.message(field: 1, isRepeated: true) { writer in
                switch operation {
                case .read(let request): writer.message(field: 1) { write(request, to: &$0) }
                case .write(let request): writer.message(field: 2) { write(request, to: &$0) }
                }
            }
        }
        return writer.bytes
    }

    /// The operations in a request.
    ///
    /// - Throws: `BackendError.Kind.tooLarge` for more than ``maximumOperationCount``, `invalidKey` for an invalid key,
    ///   and `damaged` for bytes that are not a valid message.
    package static func operations(_ bytes: some Collection<UInt8>) throws(BackendError) -> [BatchOperation] {
        var operations: [BatchOperation] = []
        try forEachMessage(of: bytes) { (message) throws(BackendError) in
            guard let operation = try operation(message) else {
                throw damaged("an operation of a batch must be a read or a write")
            }
            operations.append(operation)
        }
        return operations
    }

    /// The answer with `results`, in the order of their operations.
    ///
    /// The array has almost no spare capacity, because a server keeps it until the client has read it.
    package static func bytes(ofAnswer results: [BatchResult]) -> [UInt8] {
        var writer = ProtoWriter(capacity: results.reduce(0) { $0 + $1.valueByteCount + 128 })
        for result in results {
            writer.message(field: 1, isRepeated: true) { write(result, to: &$0) }
        }
        return writer.bytes
    }

    /// The results in an answer.
    ///
    /// - Throws: `BackendError.Kind.damaged` for bytes that are not a valid message, `tooLarge` for more than
    ///   ``maximumOperationCount``.
    public static func results(_ bytes: some Collection<UInt8>) throws(BackendError) -> [BatchResult] {
        var results: [BatchResult] = []
        try forEachMessage(of: bytes) { (message) throws(BackendError) in
            guard let result = try result(message) else {
                throw damaged("a result is of a kind that this version does not know")
            }
            results.append(result)
        }
        return results
    }
}

extension BatchBody {
    private static func write(_ request: ReadRequest, to writer: inout ProtoWriter) {
        writer.text(request.key.text, field: 1)
        if let version = request.knownVersion { writer.data(version.bytes, field: 2) }
    }

    private static func write(_ request: WriteRequest, to writer: inout ProtoWriter) {
        writer.text(request.key.text, field: 1)
        if let value = request.value { writer.data(value, field: 2, isOptional: true) }
        switch request.precondition {
        case .any: writer.number(1, field: 3)
        case .absent: writer.number(1, field: 4)
        case .matches(let version): writer.data(version.bytes, field: 5)
        }
    }

    private static func write(_ result: BatchResult, to writer: inout ProtoWriter) {
        switch result {
        case .read(.found(let entry)): writer.message(field: 1) { write(entry, to: &$0) }
        case .read(.absent): writer.message(field: 2) { _ in }
        case .read(.unchanged): writer.message(field: 3) { _ in }
        case .write(.written(let version)): writer.data(version.bytes, field: 4)
        case .write(.deleted): writer.message(field: 5) { _ in }
        case .write(.conflict(let entry)):
            writer.message(field: 6) { writer in
                if let entry { writer.message(field: 1) { write(entry, to: &$0) } }
            }
        case .conflictWithoutValue(let version):
            writer.message(field: 8) { $0.data(version.bytes, field: 1) }
        case .problem(let problem): writer.data(problem.json, field: 7, isOptional: true)
        }
    }

    private static func write(_ entry: Entry, to writer: inout ProtoWriter) {
        writer.data(entry.version.bytes, field: 1)
        writer.data(entry.value, field: 2)
    }
}

extension BatchResult {
    /// The number of bytes in the value and in the JSON of a problem.
    fileprivate var valueByteCount: Int {
        switch self {
        case .read(.found(let entry)), .write(.conflict(let entry?)): entry.value.count
        case .problem(let problem): problem.detail.utf8.count + 512
        default: 0
        }
    }
}

extension BatchBody {
    /// Calls `body` with each message of the repeated field 1, the only field of both bodies.
    private static func forEachMessage(
        of bytes: some Collection<UInt8>, _ body: (RawBytes) throws(BackendError) -> Void
    ) throws(BackendError) {
        let result = Array(bytes).withUnsafeBytes { bytes in
            Result { () throws(BackendError) in try forEachMessage(in: bytes, body) }
        }
        try result.get()
    }

    private static func forEachMessage(
        in bytes: RawBytes, _ body: (RawBytes) throws(BackendError) -> Void
    ) throws(BackendError) {
        var count = 0
        try forEachField(of: bytes) { (field, value) throws(BackendError) in
            guard field == 1 else { return }
            count += 1
            guard count <= maximumOperationCount else {
                throw BackendError(.tooLarge, message: "a batch can have at most \(maximumOperationCount) operations")
            }
            try body(try data(value))
        }
    }

    private static func operation(_ bytes: RawBytes) throws(BackendError) -> BatchOperation? {
        var operation: BatchOperation?
        try forEachField(of: bytes) { (field, value) throws(BackendError) in
            switch field {
            case 1: operation = .read(try readRequest(try data(value)))
            case 2: operation = .write(try writeRequest(try data(value)))
            default: break
            }
        }
        return operation
    }

    private static func readRequest(_ bytes: RawBytes) throws(BackendError) -> ReadRequest {
        var key = ""
        var known: EntryVersion?
        try forEachField(of: bytes) { (field, value) throws(BackendError) in
            switch field {
            case 1: key = try text(value)
            case 2:
                let bytes = try data(value)
                // Empty is the default: the client knows no version.
                known = bytes.isEmpty ? nil : try version(bytes)
            default: break
            }
        }
        return ReadRequest(try EntryKey(key), unless: known)
    }

    private static func writeRequest(_ bytes: RawBytes) throws(BackendError) -> WriteRequest {
        var key = ""
        var content: [UInt8]?
        var condition: Precondition?
        try forEachField(of: bytes) { (field, value) throws(BackendError) in
            switch field {
            case 1: key = try text(value)
            case 2: content = Array(try data(value))
            case 3, 4:
                guard try number(value) == 1 else { throw damaged("a condition must be true when it is present") }
                condition = field == 3 ? .any : .absent
            case 5: condition = .matches(try version(try data(value)))
            default: break
            }
        }
        guard let condition else {
            throw damaged("a write must have a condition: any, absent or matches")
        }
        return WriteRequest(try EntryKey(key), value: content, if: condition)
    }

    private static func result(_ bytes: RawBytes) throws(BackendError) -> BatchResult? {
        var result: BatchResult?
        try forEachField(of: bytes) { (field, value) throws(BackendError) in
            switch field {
            case 1: result = .read(.found(try entry(try data(value))))
            case 2: result = .read(.absent)
            case 3: result = .read(.unchanged)
            case 4: result = .write(.written(try version(try data(value))))
            case 5: result = .write(.deleted)
            case 6: result = .write(.conflict(try conflict(try data(value))))
            case 7:
                guard let problem = Problem(json: Array(try data(value))) else { throw damaged("invalid problem JSON") }
                result = .problem(problem)
            case 8: result = .conflictWithoutValue(try conflictVersion(try data(value)))
            default: break
            }
            // Results without content are still messages, so their bytes must be well-formed.
            if [2, 3, 5].contains(field) { try forEachField(of: try data(value)) { _, _ in } }
        }
        return result
    }

    private static func conflict(_ bytes: RawBytes) throws(BackendError) -> Entry? {
        var found: Entry?
        try forEachField(of: bytes) { (field, value) throws(BackendError) in
            if field == 1 { found = try entry(try data(value)) }
        }
        return found
    }

    private static func conflictVersion(_ bytes: RawBytes) throws(BackendError) -> EntryVersion {
        var known: EntryVersion?
        try forEachField(of: bytes) { (field, value) throws(BackendError) in
            if field == 1 { known = try version(try data(value)) }
        }
        guard let known else { throw damaged("a conflict without a value must have a version") }
        return known
    }

    private static func entry(_ bytes: RawBytes) throws(BackendError) -> Entry {
        var known: EntryVersion?
        var content: [UInt8] = []
        try forEachField(of: bytes) { (field, value) throws(BackendError) in
            switch field {
            case 1: known = try version(try data(value))
            case 2: content = Array(try data(value))
            default: break
            }
        }
        guard let known else { throw damaged("an entry must have a version") }
        return Entry(value: content, version: known)
    }
}

extension BatchBody {
    private static func forEachField(
        of bytes: RawBytes, _ body: (Int, ProtoReader.Value) throws(BackendError) -> Void
    ) throws(BackendError) {
        var reader = ProtoReader(bytes)
        while let (field, value) = try proto({ () throws(ProtoError) in try reader.nextField() }) {
            try body(field, value)
        }
    }

    private static func data(_ value: ProtoReader.Value) throws(BackendError) -> RawBytes {
        try proto { () throws(ProtoError) in try value.data() }
    }

    private static func text(_ value: ProtoReader.Value) throws(BackendError) -> String {
        try proto { () throws(ProtoError) in try value.text() }
    }

    private static func number(_ value: ProtoReader.Value) throws(BackendError) -> UInt64 {
        try proto { () throws(ProtoError) in try value.number() }
    }

    private static func version(_ bytes: RawBytes) throws(BackendError) -> EntryVersion {
        guard (1...64).contains(bytes.count) else { throw damaged("a version must be 1 to 64 bytes") }
        return EntryVersion(bytes: Array(bytes))
    }

    private static func proto<Value>(_ read: () throws(ProtoError) -> Value) throws(BackendError) -> Value {
        do throws(ProtoError) {
            return try read()
        } catch {
            throw damaged(error.reason)
        }
    }

    private static func damaged(_ reason: String) -> BackendError {
        BackendError(.damaged, message: "the bytes are not a valid batch: \(reason)")
    }
}
