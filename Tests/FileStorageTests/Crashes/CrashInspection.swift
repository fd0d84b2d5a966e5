import FileStorage
import SyncCore
import SyncCoreTesting

/// Checks that a store still has everything it guarantees after a crash, and that it can be used.
struct CrashInspection: Sendable {
    let workload: CrashWorkload
    let guarantees: CrashWorkload.Guarantees

    /// The violations found in the store on `disk`; empty if there are none.
    ///
    /// - Parameter seed: Selects the first operation, and so the state that the store must recover by itself.
    func findings(on disk: ModelDisk, seed: UInt64) async -> [String] {
        let fileSystem = ModelFileSystem(disk)
        var findings: [String] = []
        do throws(BackendError) {
            var versions = try await checkEntries(workload.open(fileSystem, life: 1), &findings)
            if !findings.isEmpty { return findings }
            if seed % 2 == 0 {
                // Writes before the first request for changes.
                let writer = workload.open(fileSystem, life: 2)
                let key = workload.keys[Int(seed / 2 % UInt64(workload.keys.count))]
                if case .written(let version) = try await writer.write([9], to: key, if: .any).outcome {
                    versions[key] = version
                }
            }
            try await checkChanges(workload.open(fileSystem, life: 3), versions, &findings)
            try await checkLeftovers(fileSystem, &findings)
        } catch {
            findings.append("\(error)")
        }
        return findings
    }

    private func checkEntries(
        _ store: FileBackend, _ findings: inout [String]
    ) async throws(BackendError) -> [EntryKey: EntryVersion] {
        var versions: [EntryKey: EntryVersion] = [:]
        for key in workload.keys {
            let entry: Entry? = if case .found(let entry) = try await store.read(key).outcome { entry } else { nil }
            if !guarantees.possible(key).contains(entry?.value) {
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

    private func checkChanges(
        _ store: FileBackend, _ versions: [EntryKey: EntryVersion], _ findings: inout [String]
    ) async throws(BackendError) {
        for (known, view) in guarantees.cursors {
            var (cursor, view) = (Optional(known), view)
            do throws(BackendError) {
                try await CrashWorkload.follow(store, from: &cursor, &view)
            } catch {
                guard error.kind == .cursorExpired else { throw error }
                continue
            }
            if view != versions {
                findings.append("a reader with cursor \(known.sequence) gets \(view.keys.sorted())")
            }
        }
        var cursor: ChangeCursor?
        var view: [EntryKey: EntryVersion] = [:]
        try await CrashWorkload.follow(store, from: &cursor, &view)
        if view != versions { findings.append("a new reader gets \(view.keys.sorted())") }
    }

    /// A write removes the temporary file of the previous writer, so after a write in each folder none is left.
    private func checkLeftovers(_ fileSystem: ModelFileSystem, _ findings: inout [String]) async throws(BackendError) {
        let store = workload.open(fileSystem, life: 4)
        for key in workload.keys { _ = try await store.write([8], to: key, if: .any) }
        let left = fileSystem.paths().filter { $0.hasSuffix(".tmp") }
        if !left.isEmpty { findings.append("left over: \(left)") }
        for key in workload.keys {
            guard case .found(let entry) = try await store.read(key).outcome, entry.value == [8] else {
                findings.append("\(key) does not have the value written after the crash")
                continue
            }
        }
    }
}
