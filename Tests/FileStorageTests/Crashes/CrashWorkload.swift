import FileStorage
import SyncCore
import SyncCoreTesting
import TestSupport

/// Random writes, deletions and requests for changes, and the guarantees that follow from the acknowledged ones.
struct CrashWorkload: Sendable {
    enum Step: Sendable {
        case write(EntryKey, [UInt8], conditional: Bool)
        case delete(EntryKey, conditional: Bool)
        /// A write whose precondition does not hold.
        case conflict(EntryKey)
        case follow
    }

    /// The guarantees of a store.
    struct Guarantees: Sendable {
        /// The acknowledged value of each key, `nil` after an acknowledged deletion.
        var values: [EntryKey: [UInt8]?] = [:]
        /// The step that was not acknowledged.
        var unknown: (key: EntryKey, value: [UInt8]?)?
        /// Each cursor that was returned, with the state that its reader knew.
        var cursors: [(cursor: ChangeCursor, view: [EntryKey: EntryVersion])] = []

        /// The possible values of `key`.
        func possible(_ key: EntryKey) -> [[UInt8]?] {
            let owed = values[key] ?? nil
            if let unknown, unknown.key == key { return [owed, unknown.value] }
            return [owed]
        }
    }

    static let root = "/deep/store"
    let keys: [EntryKey]
    let steps: [Step]
    private let seed: UInt64

    init(steps: [Step], seed: UInt64) throws {
        keys = try ["a/k", "a/l", "b/c/m", "r"].map { try EntryKey($0) }
        self.steps = steps
        self.seed = seed
    }

    init(seed: UInt64, stepCount: Int) throws {
        var generator = SeededGenerator(seed: seed)
        let keys = try ["a/k", "a/l", "b/c/m", "r"].map { try EntryKey($0) }
        let steps = (0..<stepCount).map { number -> Step in
            let key = keys[Int.random(in: 0..<keys.count, using: &generator)]
            let size = [0, 20, 150, 5_000][Int.random(in: 0..<4, using: &generator)]
            switch Int.random(in: 0..<10, using: &generator) {
            case 0...5:
                let value =
                    Array("\(number) ".utf8) + (0..<size).map { _ in UInt8.random(in: 1...255, using: &generator) }
                return .write(key, value, conditional: Bool.random(using: &generator))
            case 6...7: return .delete(key, conditional: Bool.random(using: &generator))
            case 8: return .conflict(key)
            default: return .follow
            }
        }
        try self.init(steps: steps, seed: seed)
    }

    /// A store on `fileSystem`. Versions and tags are the same in each run of one workload, and differ between
    /// workloads.
    func open(_ fileSystem: ModelFileSystem, life: UInt64 = 0) -> FileBackend {
        FileBackend(
            folder: Self.root, fileSystem: fileSystem, host: ManualHost(seed: seed &+ life &* 7_919).host,
            lockTimeout: .milliseconds(50), changePolicy: ChangePolicy(recognizedCount: 6, compactionByteCount: 700))
    }

    /// Performs the steps until `fileSystem` ends. An earlier error is thrown.
    func run(on fileSystem: ModelFileSystem, life: UInt64 = 0) async throws(BackendError) -> Guarantees {
        let store = open(fileSystem, life: life)
        var guarantees = Guarantees()
        var view: [EntryKey: EntryVersion] = [:]
        for step in steps {
            do throws(BackendError) {
                try await take(step, on: store, &guarantees, &view)
            } catch {
                guard fileSystem.isOver else { throw error }
                return guarantees
            }
            guarantees.unknown = nil
        }
        return guarantees
    }

    private func take(
        _ step: Step, on store: FileBackend, _ guarantees: inout Guarantees, _ view: inout [EntryKey: EntryVersion]
    ) async throws(BackendError) {
        switch step {
        case .write(let key, let value, let conditional):
            let precondition = conditional ? try await precondition(key, store) : .any
            guarantees.unknown = (key, value)
            let outcome = try await store.write(value, to: key, if: precondition).outcome
            guard case .written = outcome else { throw Self.surprise(key, outcome) }
            guarantees.values[key] = value
        case .delete(let key, let conditional):
            let precondition = conditional ? try await precondition(key, store) : .any
            guarantees.unknown = (key, nil)
            let outcome = try await store.delete(key, if: precondition).outcome
            guard outcome == .deleted else { throw Self.surprise(key, outcome) }
            guarantees.values[key] = .some(nil)
        case .conflict(let key):
            let stale = Precondition.matches(EntryVersion(bytes: [1]))
            let outcome = try await store.write([0], to: key, if: stale).outcome
            guard case .conflict = outcome else { throw Self.surprise(key, outcome) }
        case .follow:
            var cursor = guarantees.cursors.last?.cursor
            // A cursor that has expired because of the small policy starts again.
            do throws(BackendError) {
                _ = try await store.changes(since: cursor, limit: 1)
            } catch {
                guard error.kind == .cursorExpired else { throw error }
                (cursor, view) = (nil, [:])
            }
            try await Self.follow(store, from: &cursor, &view)
            if let cursor { guarantees.cursors.append((cursor, view)) }
        }
    }

    /// Applies all changes since `cursor` to `view`.
    static func follow(
        _ store: FileBackend, from cursor: inout ChangeCursor?, _ view: inout [EntryKey: EntryVersion]
    ) async throws(BackendError) {
        while true {
            let page = try await store.changes(since: cursor, limit: 2).outcome
            for change in page.changes { view[change.key] = change.version }
            cursor = page.cursor
            if !page.hasMore { return }
        }
    }

    private func precondition(_ key: EntryKey, _ store: FileBackend) async throws(BackendError) -> Precondition {
        if case .found(let entry) = try await store.read(key).outcome { .matches(entry.version) } else { .absent }
    }

    private static func surprise(_ key: EntryKey, _ outcome: WriteOutcome) -> BackendError {
        BackendError(.other, key: key, message: "no other writer exists, but the outcome is \(outcome)")
    }
}
