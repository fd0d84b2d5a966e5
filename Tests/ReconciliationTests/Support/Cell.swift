@testable import SyncCore

/// The source of versions. Each version is issued once, even across wipes and restores.
struct Versions {
    private var last: UInt64 = 0

    mutating func next() -> EntryVersion {
        last += 1
        return EntryVersion(bytes: FactSetMerge().digest(of: last))
    }
}

/// One key of one store as a value. A copy is a backup, and an assignment is a restore.
struct Cell: Equatable {
    var entry: Entry?

    func read(unless known: EntryVersion?) -> ReadOutcome {
        guard let entry else { return .absent }
        return entry.version == known ? .unchanged : .found(entry)
    }

    mutating func write(_ bytes: [UInt8], if precondition: Precondition, _ versions: inout Versions) -> WriteOutcome {
        guard precondition.holds(for: entry?.version) else { return .conflict(entry) }
        let written = Entry(value: bytes, version: versions.next())
        entry = written
        return .written(written.version)
    }

    /// The facts in the cell; none if it is empty or unreadable.
    var facts: UInt64 { document?.content ?? 0 }

    var document: OpenDocument<UInt64>? {
        guard let entry else { return nil }
        do { return try FactSetMerge().open(entry.value) } catch { return nil }
    }

    /// Joins facts to the content and keeps the local section, as `EntitlementStore.record` does.
    mutating func record(_ facts: UInt64, _ versions: inout Versions) {
        let section = document?.localSection ?? []
        let document = OpenDocument(content: self.facts | facts, localSection: section)
        entry = Entry(value: FactSetMerge().close(document), version: versions.next())
    }
}

extension Reconciler<FactSetMerge>.Effect {
    /// The violation if the effect is one that the reconciler promises never to request, otherwise `nil`.
    var violation: String? {
        switch self {
        case .writeRemote(_, .any), .writeLocal(_, .any): "a write without a precondition"
        case .writeRemote(let bytes, _) where bytes.count != 9: "a local section is sent to the remote"
        default: nil
        }
    }
}
