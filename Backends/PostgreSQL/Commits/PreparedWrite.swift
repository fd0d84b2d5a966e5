#if PostgreSQL
import SyncCore

/// A write or delete with everything needed to perform it, possibly more than once.
struct PreparedWrite: Sendable {
    let key: EntryKey
    /// The new value, or `nil` to delete the key.
    let value: [UInt8]?
    let precondition: Precondition
    /// The version of the new entry, or of the deletion.
    let version: EntryVersion
    /// The tag of the resulting change.
    let tag: UInt64

    init(_ request: WriteRequest, host: HostServices) {
        var generator = host.generator
        (key, value, precondition) = (request.key, request.value, request.precondition)
        version = .random(using: &generator)
        tag = generator.next()
    }

    var operation: BackendError.Operation { value == nil ? .delete : .write }

    /// The statements of the write. Each has a snapshot of its own, so that the second one sees the entry for which the
    /// first one waited.
    func statements(_ defects: Defects) -> [Statement] {
        let key = Statement.Parameter.bytes(Array(key.text.utf8))
        let version = Statement.Parameter.bytes(version.bytes)
        let tag = Statement.Parameter.integer(Int64(bitPattern: tag))
        let current = Statement(.current, key, version)
        switch (value, precondition) {
        case (let value?, .any): return [Statement(.writeAlways, key, version, .bytes(value), tag)]
        case (let value?, .absent): return [Statement(.writeAbsent, key, version, .bytes(value), tag), current]
        case (nil, .any): return [Statement(.deleteAlways, key, version, tag)]
        case (nil, .absent): return [current]
        case (_, .matches(let expected)):
            let value = value.map(Statement.Parameter.bytes) ?? .null
            let write = Statement(.writeMatching, key, .bytes(expected.bytes), version, value, tag)
            return defects.contains(.readsConflictInOneStatement) ? [write] : [write, current]
        }
    }

    /// The outcome that the rows of ``statements(_:)`` show; `nil` if another transaction changed the entry in between,
    /// so that the write must be repeated.
    func outcome(_ rows: ArraySlice<Rows>, _ defects: Defects) -> WriteOutcome? {
        guard let first = rows.first, let last = rows.last else { return nil }
        let done = value == nil ? WriteOutcome.deleted : .written(version)
        switch (value, precondition) {
        case (_, .any): return done
        case (nil, .absent):
            return Self.entry(in: first).map { .conflict($0) } ?? done
        case (_, .matches) where defects.contains(.readsConflictInOneStatement):
            return first.count == 0 ? done : .conflict(Self.entry(in: first))
        default:
            if first.count > 0 { return done }
            let current = Self.entry(in: last)
            return precondition.holds(for: current?.version) ? nil : .conflict(current)
        }
    }

    private static func entry(in rows: Rows) -> Entry? {
        guard rows.count == 1, !rows.isNull(0, 1) else { return nil }
        return Entry(value: rows.bytes(0, 1), version: EntryVersion(bytes: rows.bytes(0, 0)))
    }
}
#endif
