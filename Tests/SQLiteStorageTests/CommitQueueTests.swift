import Foundation
import SQLiteStorage
import SyncCore
import TestSupport
import Testing

@Suite("Group commit")
struct CommitQueueTests {
    private let folder: TemporaryFolder
    private let store: SQLiteBackend

    init() throws {
        folder = try TemporaryFolder()
        store = SQLiteBackend(path: folder.path(of: "store.sqlite"))
    }

    @Test("Concurrent writes share commits, and each is committed before it is acknowledged")
    func counted() async throws {
        let writerCount = 16
        let writesEach = 50
        let (store, path) = (store, folder.path(of: "store.sqlite"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<writerCount {
                group.addTask {
                    // A separate object sees only committed writes.
                    let other = SQLiteBackend(path: path)
                    for number in 0..<writesEach {
                        let key = try EntryKey("\(writer)/\(number)")
                        _ = try await store.write([UInt8(number)], to: key, if: .absent)
                        #expect(try await other.read(key).outcome != .absent)
                    }
                }
            }
            try await group.waitForAll()
        }
        let commits = store.commitCount
        print("group commit: \(writerCount * writesEach) writes of \(writerCount) tasks in \(commits) commits")
        #expect(commits < writerCount * writesEach / 3)
        #expect(try await store.list(prefix: "", after: nil, limit: .max).outcome.items.count == 800)
    }

    @Test("A batch is one commit in which each write has its own outcome")
    func batch() async throws {
        let keys = try ["a", "b", "c"].map { try EntryKey($0) }
        _ = try await store.write([1], to: keys[1], if: .absent)
        let before = store.commitCount
        let answers = try await store.write([
            WriteRequest(keys[0], value: [2], if: .absent), WriteRequest(keys[1], value: [2], if: .absent),
            WriteRequest(keys[2], value: [UInt8](repeating: 0, count: (64 << 20) + 1), if: .absent),
            WriteRequest(keys[2], value: [2], if: .absent), WriteRequest(keys[0], value: nil, if: .any),
        ]).outcome
        #expect(store.commitCount == before + 1)
        guard case .success(.written) = answers[0], case .success(.conflict(let entry?)) = answers[1],
            case .failure(let error) = answers[2], case .success(.written) = answers[3],
            case .success(.deleted) = answers[4]
        else {
            Issue.record("\(answers)")
            return
        }
        #expect(entry.value == [1] && error.kind == .tooLarge && error.key == keys[2])
    }

    @Test("A write that does not fit on the disk does not make the others fail")
    func independentFailures() async throws {
        let path = folder.path(of: "store.sqlite")
        _ = try await store.write([1], to: EntryKey("first"), if: .any)
        try await store.limitPages(to: 60)
        let answers = try await store.write([
            WriteRequest(EntryKey("small"), value: [1], if: .absent),
            WriteRequest(EntryKey("large"), value: [UInt8](repeating: 1, count: 1 << 20), if: .absent),
            WriteRequest(EntryKey("other"), value: [2], if: .absent),
        ]).outcome
        guard case .success(.written) = answers[0], case .failure(let error) = answers[1],
            case .success(.written) = answers[2]
        else {
            Issue.record("\(answers)")
            return
        }
        #expect(error.kind == .full && error.disposition == .permanent && error.key?.text == "large")
        #expect(error.message.hasPrefix(path))
        let other = SQLiteBackend(path: path)
        #expect(
            try await other.list(prefix: "", after: nil, limit: 9).outcome.items.map(\.key.text)
                == ["first", "other", "small"])
        #expect(try await other.integrityCheck().isIntact)
    }

    @Test("Every commit is signalled to watchers in other processes, also if several commits share a signal")
    func signals() async throws {
        let (store, path) = (store, folder.path(of: "store.sqlite"))
        _ = try await store.write([0], to: EntryKey("first"), if: .absent)
        // A commit changes the WAL. The modification time of the file signals that the commit is complete.
        let past = Date(timeIntervalSince1970: 1_000_000_000)
        for count in [1, 40, 1] {
            try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: path)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    group.addTask { _ = try await store.write([1], to: EntryKey("\(number)"), if: .any) }
                }
                try await group.waitForAll()
            }
            // Signalled before the last write is acknowledged.
            #expect(try time(of: path) > past)
        }
    }

    private func time(of path: String) throws -> Date {
        try #require(try FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date)
    }

    @Test(
        "The log grows to the configured size and not much further", arguments: [1 << 20, 5 << 20])
    func logLength(most: Int) async throws {
        let path = folder.path(of: "long.sqlite")
        let store = SQLiteBackend(path: path, logByteCount: most)
        let value = [UInt8](repeating: 7, count: 100_000)
        var longest = 0
        let count = 4 * most / value.count
        for number in 0..<count {
            _ = try await store.write(value, to: EntryKey("\(number)"), if: .absent)
            let attributes = try FileManager.default.attributesOfItem(atPath: path + "-wal")
            longest = max(longest, (attributes[.size] as? Int) ?? 0)
        }
        #expect(longest > most - 200_000 && longest < most + 200_000)
        let other = SQLiteBackend(path: path)
        #expect(try await other.list(prefix: "", after: nil, limit: .max).outcome.items.count == count)
    }
}
