import FileWatching
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite("Folder watching")
struct FolderWatchTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func write(_ name: String) throws {
        try Data([1]).write(to: URL(fileURLWithPath: folder.path(of: name)))
    }

    @Test("Creating, changing and removing a file are reported")
    func changes() async throws {
        let stream = try FolderWatch.changes(inFolder: folder.path)
        var iterator = stream.makeAsyncIterator()
        try write("a")
        #expect(await iterator.next() != nil)
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: folder.path(of: "a")))
        try handle.write(contentsOf: Data([2, 3]))
        #expect(await iterator.next() != nil)
        try FileManager.default.removeItem(atPath: folder.path(of: "a"))
        #expect(await iterator.next() != nil)
    }

    @Test("Each watcher is notified only of changes to its own files")
    func names() async throws {
        let counts = Counts()
        let onlyA = try FolderWatch(folder: folder.path, names: ["a"]) { counts.raise("a") }
        let all = try FolderWatch(folder: folder.path) { counts.raise("all") }
        try write("b")
        await counts.wait { $0["all", default: 0] > 0 }
        #expect(counts.now["a"] == nil)
        all.cancel()
        try write("a")
        await counts.wait { $0["a", default: 0] > 0 }
        onlyA.cancel()
    }

    @Test("Other streams continue when one ends, and watching restarts after the last one has ended")
    func endings() async throws {
        let other = try TemporaryFolder()
        for _ in 0..<3 {
            let first = try FolderWatch.changes(inFolder: folder.path)
            var second = try FolderWatch.changes(inFolder: folder.path).makeAsyncIterator()
            var third = try FolderWatch.changes(inFolder: other.path).makeAsyncIterator()
            try write("a")
            for await _ in first { break }
            #expect(await second.next() != nil)
            try Data([1]).write(to: URL(fileURLWithPath: other.path(of: "x")))
            #expect(await third.next() != nil)
            try write("b")
            #expect(await second.next() != nil)
        }
    }

    @Test("Watching a missing folder throws an error")
    func missing() {
        #expect(throws: FolderWatchError.self) { try FolderWatch.changes(inFolder: folder.path(of: "none")) }
    }
}

/// Counts notifications by watcher, and waits for them without a clock.
private final class Counts: Sendable {
    private let counts = Mutex<[String: Int]>([:])
    private let (stream, continuation) = AsyncStream.makeStream(of: Void.self)

    var now: [String: Int] { counts.withLock { $0 } }

    func raise(_ name: String) {
        counts.withLock { $0[name, default: 0] += 1 }
        continuation.yield()
    }

    func wait(until condition: ([String: Int]) -> Bool) async {
        for await _ in stream where condition(now) { return }
    }
}
