import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The changes of a file store")
struct ChangeTests {
    private let folder: TemporaryFolder
    private let root: String
    private let keys: [EntryKey]

    init() throws {
        folder = try TemporaryFolder()
        root = folder.path(of: "store")
        keys = try ["a/k", "b", "c/d/e"].map { try EntryKey($0) }
    }

    private func open(_ policy: ChangePolicy = ChangePolicy()) -> FileBackend {
        FileBackend(folder: root, fileSystem: POSIXFileSystem(), changePolicy: policy)
    }

    private var log: URL { URL(fileURLWithPath: "\(root)/store.changes") }

    private func marker() throws -> String {
        try String(contentsOfFile: "\(root)/store.format", encoding: .utf8)
    }

    private func changes(
        _ store: FileBackend, since cursor: ChangeCursor? = nil
    ) async throws -> (keys: [EntryKey], cursor: ChangeCursor?) {
        let page = try await store.changes(since: cursor, limit: 1_000).outcome
        for change in page.changes {
            let outcome = try await store.read(change.key, unless: change.version).outcome
            #expect(outcome == (change.version == nil ? .absent : .unchanged))
        }
        return (page.changes.map(\.key), page.cursor)
    }

    @Test("A process can follow another one: it gets each key once, in the order of its latest change")
    func following() async throws {
        let (writer, follower) = (open(), open())
        for key in keys { _ = try await writer.write([1], to: key, if: .absent) }
        let (first, cursor) = try await changes(follower)
        #expect(first == keys)
        _ = try await writer.write([2], to: keys[0], if: .any)
        _ = try await writer.delete(keys[1], if: .any)
        _ = try await writer.write([3], to: keys[2], if: .absent)
        let (second, next) = try await changes(follower, since: cursor)
        #expect(second == [keys[0], keys[1]], "a conflict is not a change")
        #expect(try await changes(follower, since: next).keys.isEmpty)
        #expect(try await changes(open(), since: cursor).keys == second, "another process returns the same changes")
    }

    @Test("A request for changes does not create a missing store")
    func nothing() async throws {
        #expect(
            try await open().changes(since: nil, limit: 10).outcome
                == ChangePage(changes: [], cursor: nil, hasMore: false))
        await expectKind(.cursorExpired) {
            try await open().changes(since: ChangeCursor(sequence: 1, tag: 1), limit: 10)
        }
        #expect(!FileManager.default.fileExists(atPath: root))
    }

    @Test("The changes of a store of an older version are all its entries, and the older version is then kept out")
    func olderStore() async throws {
        let store = open()
        for key in keys { _ = try await store.write([1], to: key, if: .absent) }
        // An older version leaves the same files without a change log.
        try FileManager.default.removeItem(at: log)
        #expect(try marker() == "EntitlementSync file store 1\n")
        let (found, cursor) = try await changes(open())
        #expect(found == keys)
        #expect(try marker() == "EntitlementSync file store 2\n")
        _ = try await open().write([2], to: keys[1], if: .any)
        #expect(try await changes(open(), since: cursor).keys == [keys[1]])
    }

    @Test("Changes made by hand in the folder are reported by the next process")
    func byHand() async throws {
        let store = open()
        for key in keys { _ = try await store.write([1], to: key, if: .absent) }
        let old = try Data(contentsOf: URL(fileURLWithPath: "\(root)/b.entry"))
        _ = try await store.write([2], to: keys[1], if: .any)
        let (_, cursor) = try await changes(store)
        try old.write(to: URL(fileURLWithPath: "\(root)/b.entry"))
        try FileManager.default.removeItem(atPath: "\(root)/c/d/e.entry")
        #expect(try await changes(open(), since: cursor).keys == [keys[1], keys[2]])
    }

    /// Makes an entry unreadable in the given way.
    private func spoil(_ name: String, _ way: String) throws {
        let path = "\(root)/\(name).entry"
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        switch way {
        case "bit": bytes[30] ^= 1
        case "format": bytes[11] = 9
        case "length": bytes = bytes.prefix(20)
        default: break
        }
        try FileManager.default.removeItem(atPath: path)
        switch way {
        case "link": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "/nowhere")
        case "folder": try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        default: try bytes.write(to: URL(fileURLWithPath: path))
        }
    }

    @Test(
        "An unreadable entry does not end the changes: it counts as changed once, and again when it is repaired",
        arguments: ["bit", "format", "length", "link", "folder"])
    func damagedEntry(way: String) async throws {
        let store = open()
        for key in keys { _ = try await store.write([1], to: key, if: .absent) }
        let (_, cursor) = try await changes(store)
        try spoil("b", way)
        let all = try await open().changes(since: nil, limit: 10).outcome
        #expect(all.changes.map(\.key) == [keys[0], keys[2], keys[1]] && all.changes.last?.version != nil)
        let news = try await open().changes(since: cursor, limit: 10).outcome
        #expect(news.changes == all.changes.suffix(1), "a second process reports the same changes")
        let error = await expectKind(nil) { try await open().read(keys[1], unless: news.changes[0].version) }
        #expect(error?.key == keys[1] && error?.disposition == .permanent)
        let listed = try await open().list(prefix: "", after: nil, limit: 10).outcome.items
        #expect(listed.map(\.key) == keys && listed[1].version == news.changes[0].version)
        // Other keys can still be written, and running processes report their changes.
        let follower = open()
        #expect(try await follower.changes(since: news.cursor, limit: 10).outcome.changes.isEmpty)
        _ = try await open().write([2], to: keys[0], if: .any)
        #expect(try await follower.changes(since: news.cursor, limit: 10).outcome.changes.map(\.key) == [keys[0]])
        if way != "folder" {
            _ = try await open().write([3], to: keys[1], if: .any)
            #expect(try await changes(open(), since: news.cursor).keys == [keys[0], keys[1]])
        }
    }

    @Test("The keys of an unreadable folder are not reported as deleted")
    func linkedFolder() async throws {
        let store = open()
        for key in keys { _ = try await store.write([1], to: key, if: .absent) }
        let (_, cursor) = try await changes(store)
        try FileManager.default.moveItem(atPath: "\(root)/c", toPath: folder.path(of: "elsewhere"))
        try FileManager.default.createSymbolicLink(
            atPath: "\(root)/c", withDestinationPath: folder.path(of: "elsewhere"))
        try FileManager.default.removeItem(atPath: "\(root)/b.entry")
        #expect(try await open().changes(since: cursor, limit: 10).outcome.changes.map(\.key) == [keys[1]])
        let page = try await open().list(prefix: "", after: nil, limit: 10).outcome
        #expect(page.items.map(\.key) == [keys[0]] && page.next == keys[0], "the keys before the folder come first")
        let error = await expectKind(.notAStore) { try await open().list(prefix: "", after: page.next, limit: 10) }
        #expect(error?.key?.text == "c/")
    }

    @Test("If a byte of the log is lost or damaged, a cursor is answered correctly or has expired")
    func damagedLog() async throws {
        let store = open()
        var cursors: [ChangeCursor?] = [nil]
        for key in keys {
            _ = try await store.write([1], to: key, if: .absent)
            cursors.append(try await changes(store).cursor)
        }
        let whole = try Data(contentsOf: log)
        for index in 0..<(2 * whole.count) {
            var bytes = whole
            if index < whole.count { bytes[index] ^= 1 } else { bytes = whole.prefix(index - whole.count) }
            try bytes.write(to: log)
            // Tests both with and without a write before the request.
            let expected: [EntryKey]
            if index % 2 == 0 {
                _ = try await open().write([UInt8(index % 250)], to: keys[0], if: .any)
                expected = [keys[1], keys[2], keys[0]]
            } else {
                expected = keys
            }
            let found = try await changes(open()).keys
            #expect(found.count == 3 && Set(found) == Set(expected), "byte \(index)")
            for (number, cursor) in cursors.enumerated() {
                do throws(BackendError) {
                    let page = try await open().changes(since: cursor, limit: 10).outcome
                    let reported = Set(page.changes.map(\.key))
                    #expect(reported.isSuperset(of: keys[number...]), "byte \(index), cursor \(number)")
                    if index % 2 == 0 { #expect(reported.contains(keys[0]), "byte \(index), cursor \(number)") }
                } catch {
                    #expect(error.kind == .cursorExpired && number > 0)
                }
            }
        }
    }

    @Test("Compaction drops superseded changes: the log stays small, new cursors stay valid, old ones expire")
    func compaction() async throws {
        let store = open(ChangePolicy(recognizedCount: 20, compactionByteCount: 4_000))
        _ = try await store.write([1], to: keys[1], if: .absent)
        let follower = open(ChangePolicy(recognizedCount: 20, compactionByteCount: 4_000))
        _ = try await store.write([1], to: keys[0], if: .absent)
        let (_, oldest) = try await changes(follower)
        var newest = oldest
        for number in 0..<300 {
            _ = try await store.write([UInt8(number % 250)], to: keys[0], if: .any)
            if number % 10 == 0 {
                let (found, next) = try await changes(follower, since: newest)
                #expect(found == [keys[0]])
                newest = next
            }
        }
        let size = try Data(contentsOf: log).count
        #expect(size < 8_000, "\(size) bytes after 300 changes of about 60")
        await expectKind(.cursorExpired) { try await open().changes(since: oldest, limit: 1) }
        #expect(try await changes(follower, since: newest).keys == [keys[0]])
        #expect(try await changes(open()).keys == [keys[1], keys[0]])
    }

    @Test(
        "A write succeeds even if the log cannot record it, and cursors then expire",
        arguments: [ENOSPC, EIO])
    func unwritableLog(code: Int32) async throws {
        let store = open()
        for key in keys { _ = try await store.write([1], to: key, if: .absent) }
        let follower = open()
        let (_, cursor) = try await changes(follower)
        let counting = FailingFileSystem(.none)
        _ = try await FileBackend(folder: root, fileSystem: counting).write([2], to: keys[1], if: .any)
        let number = try #require(counting.calls.lastIndex(of: "rename")) - 1
        #expect(counting.calls[number] == "write")
        let failing = FailingFileSystem(.once(number, code: code))
        _ = try await FileBackend(folder: root, fileSystem: failing).write([3], to: keys[1], if: .any)
        await expectKind(.cursorExpired) { try await follower.changes(since: cursor, limit: 10) }
        let found = try await changes(follower).keys
        #expect(found.count == 3)
        _ = try await store.delete(keys[0], if: .any)
        #expect(try await changes(follower).keys.last == keys[0])
    }

    @Test("After a backup is restored, its changes are reported, even to a reader that has the store open")
    func restored() async throws {
        let store = open()
        for key in keys { _ = try await store.write([1], to: key, if: .absent) }
        let (_, kept) = try await changes(store)
        try FileManager.default.copyItem(atPath: root, toPath: folder.path(of: "backup"))
        _ = try await store.write([2], to: keys[0], if: .any)
        let (_, undone) = try await changes(store)
        try FileManager.default.removeItem(atPath: root)
        try FileManager.default.moveItem(atPath: folder.path(of: "backup"), toPath: root)
        await expectKind(.cursorExpired) { try await store.changes(since: undone, limit: 10) }
        _ = try await store.write([3], to: keys[1], if: .any)
        await expectKind(.cursorExpired) { try await store.changes(since: undone, limit: 10) }
        #expect(try await changes(store, since: kept).keys == [keys[1]])
    }

    @Test("Changes made after a restored backup are not confused with the undone ones, even if they look alike")
    func restoredAndGoneOn() async throws {
        let follower = open()
        for key in keys { _ = try await open().write([1], to: key, if: .absent) }
        let (_, kept) = try await changes(follower)
        try FileManager.default.copyItem(atPath: root, toPath: folder.path(of: "backup"))
        for (undoneCount, count) in [(1, 1), (2, 4)] {
            for _ in 0..<undoneCount { _ = try await open().write([2], to: keys[1], if: .any) }
            let (_, undone) = try await changes(follower)
            let size = try Data(contentsOf: log).count
            try FileManager.default.removeItem(atPath: root)
            try FileManager.default.copyItem(atPath: folder.path(of: "backup"), toPath: root)
            // The log gets at least as long as before.
            for _ in 0..<count { _ = try await open().write([3], to: keys[1], if: .any) }
            #expect(try Data(contentsOf: log).count >= size)
            await expectKind(.cursorExpired) { try await follower.changes(since: undone, limit: 10) }
            #expect(try await changes(follower, since: kept).keys == [keys[1]])
        }
    }

    @Test("The format of the log is documented and stable")
    func layout() throws {
        let header = ChangeFile.header(name: Array(0..<16))
        #expect(Array(header.prefix(28)) == Array("ESyncChg".utf8) + [0, 0, 0, 1] + Array(0..<16))
        let link = try #require(ChangeFile.link(ofHeader: header))
        let record = ChangeFile.Record(
            cursor: ChangeCursor(sequence: 1, tag: 2), key: try EntryKey("k"),
            version: EntryVersion(bytes: Array(0..<16)))
        let (bytes, next) = ChangeFile.encode(record, after: link, isSettled: true)
        #expect(bytes.count == 59)
        let sum = withUnsafeBytes(of: link.bigEndian) { Array($0) }
        let own = withUnsafeBytes(of: next.bigEndian) { Array($0) }
        let body = [0, 0, 0, 59] + sum + [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1] + Array(0..<16) + [0x6B]
        #expect(bytes == body + own + [1, 0, 0, 0, 59])
    }
}
