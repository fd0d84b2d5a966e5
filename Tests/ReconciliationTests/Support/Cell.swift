@testable import SyncCore

/// Where versions come from: each is handed out once, whatever is wiped or restored.
struct Versions {
    private var last: UInt64 = 0

    mutating func next() -> EntryVersion {
        last += 1
        return EntryVersion(bytes: FactSetMerge().digest(of: last))
    }
}

/// One key of one store, as a value: copying it is a backup, assigning it a restore.
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

    /// The facts it holds, none where it holds nothing or nothing that can be read.
    var facts: UInt64 { document?.content ?? 0 }

    var document: OpenDocument<UInt64>? {
        guard let entry else { return nil }
        do { return try FactSetMerge().open(entry.value) } catch { return nil }
    }

    /// What `EntitlementStore.record` does: joins facts to what is there and keeps the local section.
    mutating func record(_ facts: UInt64, _ versions: inout Versions) {
        let section = document?.localSection ?? []
        let document = OpenDocument(content: self.facts | facts, localSection: section)
        entry = Entry(value: FactSetMerge().close(document), version: versions.next())
    }
}

extension Reconciler<FactSetMerge>.Effect {
    /// What is wrong with the effect if it is one that the reconciler promises never to ask for.
    var violation: String? {
        switch self {
        case .writeRemote(_, .any), .writeLocal(_, .any): "a write without a precondition"
        case .writeRemote(let bytes, _) where bytes.count != 9: "a local section is sent to the remote"
        default: nil
        }
    }
}
