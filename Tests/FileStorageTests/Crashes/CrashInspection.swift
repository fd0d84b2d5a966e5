import FileStorage
import SyncCore
import SyncCoreTesting

/// Looks whether a store still has what it owes after a crash, and works on.
struct CrashInspection: Sendable {
    let workload: CrashWorkload
    let debt: CrashWorkload.Debt

    /// What is wrong with the store on `disk`; nothing, if it is as it should be.
    ///
    /// - Parameter seed: decides what is done first, and so what the store has to find out by itself.
    func findings(on disk: ModelDisk, seed: UInt64) async -> [String] {
        let fileSystem = ModelFileSystem(disk)
        var findings: [String] = []
        do throws(BackendError) {
            var versions = try await lookAtEntries(workload.open(fileSystem, life: 1), &findings)
            if !findings.isEmpty { return findings }
            if seed % 2 == 0 {
                // Somebody writes before anybody asks for changes.
                let writer = workload.open(fileSystem, life: 2)
                let key = workload.keys[Int(seed / 2 % UInt64(workload.keys.count))]
                if case .written(let version) = try await writer.write([9], to: key, if: .any).outcome {
                    versions[key] = version
                }
            }
            try await lookAtChanges(workload.open(fileSystem, life: 3), versions, &findings)
            try await lookAtLeftovers(fileSystem, &findings)
        } catch {
            findings.append("\(error)")
        }
        return findings
    }

    private func lookAtEntries(
        _ store: FileBackend, _ findings: inout [String]
    ) async throws(BackendError) -> [EntryKey: EntryVersion] {
        var versions: [EntryKey: EntryVersion] = [:]
        for key in workload.keys {
            let entry: Entry? = if case .found(let entry) = try await store.read(key).outcome { entry } else { nil }
            if !debt.possible(key).contains(entry?.value) {
                findings.append("\(key) has \(entry.map { "\($0.value.count) bytes" } ?? "nothing")")
            }
            versions[key] = entry?.version
        }
        let listed = try await store.list(prefix: "", after: nil, limit: 100).outcome.items
        if listed.map(\.key) != workload.keys.filter({ versions[$0] != nil })
            || listed.contains(where: { versions[$0.key] != $0.version })
        {
            findings.append("listed: \(listed.map(\.key))")
        }
        return versions
    }

    private func lookAtChanges(
        _ store: FileBackend, _ versions: [EntryKey: EntryVersion], _ findings: inout [String]
    ) async throws(BackendError) {
        for (known, view) in debt.cursors {
            var (cursor, view) = (Optional(known), view)
            do throws(BackendError) {
                try await CrashWorkload.follow(store, from: &cursor, &view)
            } catch {
                guard error.kind == .cursorExpired else { throw error }
                continue
            }
            if view != versions {
                findings.append("whoever knew change \(known.sequence) believes \(view.keys.sorted())")
            }
        }
        var cursor: ChangeCursor?
        var view: [EntryKey: EntryVersion] = [:]
        try await CrashWorkload.follow(store, from: &cursor, &view)
        if view != versions { findings.append("a new follower believes \(view.keys.sorted())") }
    }

    /// A write removes what its forerunner left where it wrote, and one in each folder leaves none at all.
    private func lookAtLeftovers(_ fileSystem: ModelFileSystem, _ findings: inout [String]) async throws(BackendError) {
        let store = workload.open(fileSystem, life: 4)
        for key in workload.keys { _ = try await store.write([8], to: key, if: .any) }
        let left = fileSystem.paths().filter { $0.hasSuffix(".tmp") }
        if !left.isEmpty { findings.append("left over: \(left)") }
        for key in workload.keys {
            guard case .found(let entry) = try await store.read(key).outcome, entry.value == [8] else {
                findings.append("\(key) is not what was written after the crash")
                continue
            }
        }
    }
}
