import EntitlementSync
import Foundation
import ServiceTestSupport
import SyncCore
import Synchronization
import Testing

@testable import SyncService

@Suite("Stores of earlier versions")
struct EarlierStoreTests {
    private func open(
        _ store: HookedBackend, _ onError: @escaping @Sendable (BackendError) -> Void = { _ in }
    ) async throws {
        try await OwnersMigration(records: RecordStore(backend: store), onError: onError).run()
    }

    /// The records of owners, and those of earlier versions.
    private func records(in store: HookedBackend) async throws -> [String: String] {
        var records: [String: String] = [:]
        for key in try await store.keys() {
            guard ["owners/", "tx/", "lines/", "server/transfers/", "server/layout"].contains(where: key.hasPrefix),
                case .found(let entry) = try await store.read(try EntryKey(key)).outcome
            else { continue }
            records[key] = String(decoding: entry.value, as: UTF8.self)
        }
        return records
    }

    /// The facts that a description has and another one lacks.
    private func facts(in words: some StringProtocol, beyond other: some StringProtocol) -> [String] {
        func parts(_ words: some StringProtocol) -> [String] {
            String(words).replacing("] ", with: "; ").split(separator: "; ").map(String.init)
        }
        return parts(words).filter { !parts(other).contains($0) }
    }

    @Test("A server gives the same owners and answers as the version that wrote the store, but for new rules")
    func sameAnswers() async throws {
        let expected = try String(contentsOf: EarlierStore.answersFile, encoding: .utf8).split(separator: "\n")
        let answers = try await EarlierStore.answers { try await EarlierStore.load() }
        #expect(answers.count == expected.count)
        var new: [String] = []
        for (answer, former) in zip(answers, expected) {
            #expect(facts(in: former, beyond: answer) == [], "missing")
            new += facts(in: answer, beyond: former).map { "\(answer.prefix { $0 != ":" }): \($0)" }
        }
        let recorded = #"refused("another account recorded this transaction first")"#
        let proved = #"refused("another account has proved this purchase")"#
        #expect(
            new == [
                // The first transaction of a line belongs to the owners of the line.
                "zoe: app-store/production/30 \(recorded)", "zoe: app-store/production/e1 \(recorded)",
                "zoe: app-store/production/30 \(recorded)", "zoe: app-store/production/e1 \(recorded)",
                // A refusal that was not written is not forgotten when the line moves.
                "bob: app-store/production/d1 \(proved)", "bob: app-store/production/d1 \(proved)",
                // A restore takes a shared line from all of its owners.
                "erin: app-store/production/30 transferred(to: \"\")",
                "erin: app-store/production/31 transferred(to: \"\")",
            ])
    }

    @Test("A migration that is killed at any change continues at the next start, with the same records")
    func killed() async throws {
        let whole = try await EarlierStore.load()
        try await open(whole)
        let expected = try await records(in: whole)
        #expect(expected.keys.allSatisfy { !$0.hasPrefix("tx/") && !$0.hasPrefix("lines/") })
        #expect(expected.keys.count { $0.hasPrefix("server/transfers/") } == 2)
        var (step, isDone) = (0, false)
        while !isDone {
            let store = try await EarlierStore.load()
            store.fail(after: step)
            do {
                try await open(store)
                isDone = true
            } catch {
                store.before(nil)
                try await open(store)
            }
            #expect(try await records(in: store) == expected, "after \(step) changes")
            step += 1
        }
        #expect(step > 50)
        let interrupted = try await EarlierStore.load()
        interrupted.fail(after: step / 2)
        try? await open(interrupted)
        interrupted.before(nil)
        let answers = try await EarlierStore.answers { try await copy(of: interrupted) }
        let uninterrupted = try await EarlierStore.answers { try await EarlierStore.load() }
        #expect(answers == uninterrupted)
    }

    private func copy(of store: HookedBackend) async throws -> HookedBackend {
        let copy = HookedBackend()
        for key in try await store.keys() {
            guard case .found(let entry) = try await store.read(try EntryKey(key)).outcome else { continue }
            _ = try await copy.write(entry.value, to: try EntryKey(key), if: .any)
        }
        return copy
    }

    @Test("Several servers migrate a store at the same time")
    func together() async throws {
        let (store, alone) = (try await EarlierStore.load(), try await EarlierStore.load())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<3 { group.addTask { try await open(store) } }
            try await group.waitForAll()
        }
        try await open(alone)
        #expect(try await records(in: store) == records(in: alone))
    }

    @Test("A record that cannot be read is reported, and its purchase stays reserved")
    func damaged() async throws {
        let store = try await EarlierStore.load()
        for key in ["tx/app-store/production/x", "lines/app-store/production/y", "server/transfers/00"] {
            _ = try await store.write([1], to: try EntryKey(key), if: .any)
        }
        let errors = Mutex<[String?]>([])
        try await open(store) { error in errors.withLock { $0.append(error.key?.text) } }
        #expect(
            errors.withLock { $0 } == [
                "server/transfers/00", "lines/app-store/production/y", "tx/app-store/production/x",
            ])
        for id in ["x", "y"] {
            let key = try EntryKey("owners/app-store/production/" + id)
            #expect(try await store.read(key).outcome.entry?.value == [1])
        }
    }

    @Test("Programs beside a server refuse a store before its migration, and servers that of a later version")
    func otherLayouts() async throws {
        let store = try await EarlierStore.load()
        let records = RecordStore(backend: store)
        await #expect(throws: SupportError.self) { try await OwnersMigration(records: records) { _ in }.check() }
        try await open(store)
        try await OwnersMigration(records: records) { _ in }.check()
        _ = try await store.write(Array(#"{"version":3}"#.utf8), to: try EntryKey("server/layout"), if: .any)
        let error = await #expect(throws: BackendError.self) { try await open(store) }
        #expect(error?.kind == .unsupported)
    }
}
