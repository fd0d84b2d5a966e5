import CurlTransport
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SQLiteStorage
import StoreEvidence
import SyncCore
import SyncCoreTesting
import SyncService
import Synchronization
import TestSupport
import Testing

@Suite("Acts of operators at a server that is killed")
struct ActKillTests {
    private static let workers = 4
    private static let accounts = max(8, Soak.actCount / 100)

    /// An act, and the repetitions that it needed.
    private struct Done: Sendable {
        var kind: Int
        var account: String
        var key: String
    }

    private final class Progress: Sendable {
        private let state = Mutex<(next: Int, done: [Done], repeated: Int)>((0, [], 0))

        var done: [Done] { state.withLock { $0.done } }
        var isComplete: Bool { state.withLock { $0.done.count == Soak.actCount } }
        var repeated: Int { state.withLock { $0.repeated } }
        /// The number of the next act; `nil` at the end.
        func next() -> Int? {
            state.withLock { state in
                guard state.next < Soak.actCount else { return nil }
                state.next += 1
                return state.next - 1
            }
        }
        func add(_ done: Done, attempts: Int) {
            state.withLock { state in
                state.done.append(done)
                if attempts > 1 { state.repeated += 1 }
            }
        }
    }

    private static func transaction(_ key: String) -> String { "act-" + hexadecimalDigest(of: key).prefix(32) }

    @Test("Each act happens once, and the audit list verifies", .timeLimit(.minutes(180)))
    func killing() async throws {
        let folder = try TemporaryFolder()
        let catalog = folder.path(of: "catalog.json")
        let json =
            #"{"products":[{"id":"day","type":"nonRenewing","group":"days","duration":"P1D"}],"#
            + #""entitlements":[{"id":"days","grantedBy":["group:days"]}]}"#
        try Data(json.utf8).write(to: URL(filePath: catalog))
        let path = folder.path(of: "store.sqlite")
        let options = ["--policy", "verified", "--catalog", catalog]
        var server = try ServerProcess(store: "sqlite:\(path)", options: options)
        let (url, port) = (server.url, server.port)
        let client = try AccountClient(server: url, transport: try CurlClient())
        for number in 0..<Self.accounts { _ = try await client.signUp("a\(number)", password: "correct horse") }
        let progress = Progress()
        let (acknowledgements, acknowledge) = AsyncStream.makeStream(of: Void.self)
        var (kills, generator) = (0, SeededGenerator(seed: 47))
        let start = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.workers {
                group.addTask {
                    while let number = progress.next() {
                        try await Self.act(number, client, progress)
                        acknowledge.yield()
                        if progress.isComplete { acknowledge.finish() }
                    }
                }
            }
            var left = Int.random(in: 5...40, using: &generator)
            for await _ in acknowledgements {
                left -= 1
                guard left <= 0 else { continue }
                #expect(server.kill() == -SIGKILL)
                kills += 1
                server = try ServerProcess(
                    store: "sqlite:\(path)", options: options + ["--listen", "127.0.0.1:\(port)"])
                left = Int.random(in: 5...(Soak.isLong || Soak.actCount > 1_000 ? 150 : 60), using: &generator)
            }
            try await group.waitForAll()
        }
        let elapsed = ContinuousClock.now - start
        #expect(server.stop() == 0)
        print(
            "\(progress.done.count) acts, \(kills) kills, \(progress.repeated) acts repeated, "
                + "\(elapsed.components.seconds) s")
        try await check(progress.done, SQLiteBackend(path: path))
    }

    /// Does an act until it is acknowledged: two grants, the refund of the second one, the end of all sessions.
    private static func act(_ number: Int, _ client: AccountClient, _ progress: Progress) async throws {
        let (kind, account, key) = (number % 4, "a\(number / 4 % accounts)", "key-\(number)")
        var members: [String: AccountClient.Member] = ["reason": .text("act \(number)")]
        switch kind {
        case 0, 1: members.merge(["group": .text("days"), "for": .text("P1D")]) { $1 }
        case 2:
            members["store"] = .text("support")
            members["transaction"] = .text(transaction("key-\(number - 1)"))
        default: break
        }
        var attempts = 0
        while true {
            attempts += 1
            do throws(AccountError) {
                _ = try await client.act(
                    ["grants", "grants", "refunds", "sessions"][kind], on: account, members, key: key
                ) { (_) throws(BackendError) in ServerProcess.operatorToken }
                return progress.add(Done(kind: kind, account: account, key: key), attempts: attempts)
            } catch {
                guard error.isTransient || error.mayHaveHappened else { throw error }
                await Task.yield()
            }
        }
    }

    private func check(_ done: [Done], _ store: SQLiteBackend) async throws {
        let log = AuditLog(store: store)
        guard case .intact(let count, _) = try await log.verify() else {
            Issue.record("\(try await log.verify())")
            return
        }
        var entries: [AuditLog.Entry] = []
        while entries.count < count { entries += try await log.entries(after: entries.count) }
        let ids = Dictionary(grouping: entries) { $0.id ?? "" }
        let expected = Set(done.map { String(hexadecimalDigest(of: $0.key).prefix(32)) })
        #expect(Set(ids.keys) == expected)
        #expect(ids.allSatisfy { $0.value.count == 1 })
        #expect(entries.allSatisfy { $0.act != "failed" && $0.reason != nil && $0.before != nil && $0.after != nil })
        var (purchases, refunds): ([String], [String]) = ([], [])
        for number in 0..<Self.accounts {
            let page = try await store.list(prefix: "accounts/a\(number)/", after: nil, limit: 100).outcome
            for item in page.items where item.key.text.hasSuffix("/decisions") {
                guard case .found(let entry) = try await store.read(item.key).outcome else { continue }
                for record in try LedgerDocument(decoding: entry.value).ledger.records {
                    switch Fact(record) {
                    case .purchase(let purchase): purchases.append(purchase.transaction.id.rawValue)
                    case .revocation(let refund): refunds.append(refund.transaction.id.rawValue)
                    default: break
                    }
                }
            }
        }
        #expect(purchases.sorted() == done.filter { $0.kind < 2 }.map { Self.transaction($0.key) }.sorted())
        #expect(refunds.sorted() == done.filter { $0.kind == 2 }.map { Self.refunded($0.key) }.sorted())
    }

    /// The transaction that the refund with `key` takes back.
    private static func refunded(_ key: String) -> String {
        transaction("key-\((Int(key.dropFirst(4)) ?? 0) - 1)")
    }
}
