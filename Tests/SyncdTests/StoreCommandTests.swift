import FileStorage
import Foundation
import SQLiteStorage
import SyncCore
import Testing

@Suite("syncd store")
struct StoreCommandTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func fill(_ store: some KeyValueBackend, _ count: Int = 30) async throws {
        for number in 100..<(100 + count) {
            _ = try await store.write(Array("value \(number)".utf8), to: EntryKey("k/\(number)"), if: .absent)
        }
    }

    /// Changes a byte of `text`, which occurs only once in the file.
    private func damage(_ text: String, in name: String) throws {
        var bytes = Data(try sandbox.bytes(of: name))
        let range = try #require(bytes.range(of: Data(text.utf8)))
        bytes[range.lowerBound] ^= 1
        try sandbox.write(Array(bytes), to: name)
    }

    @Test("A second copy transfers nothing and lists entries that differ")
    func copiesAgain() async throws {
        try await fill(FileBackend(folder: sandbox.path("a")))
        #expect(try sandbox.run("store copy file:a file:c") == .done("file:c: 30 entries copied"))
        #expect(try sandbox.run("store copy file:a file:c") == .done("file:c: 0 entries copied, 30 already present"))
        _ = try await FileBackend(folder: sandbox.path("c")).write([0], to: EntryKey("k/107"), if: .any)
        let different = try sandbox.run("store copy file:a file:c")
        #expect(different.exitCode == 5)
        #expect(different.output == "file:c: 0 entries copied, 29 already present\ndifferent: k/107\n")
    }

    @Test("Damage is listed by check, and recover restores the rest", arguments: ["file", "sqlite"])
    func recovers(kind: String) async throws {
        if kind == "file" {
            try await fill(FileBackend(folder: sandbox.path("old")))
            try damage("value 117", in: "old/k/117.entry")
        } else {
            // The connection closes with the object, which merges the log into the file.
            try await fill(SQLiteBackend(path: sandbox.path("old")))
            let backup = try sandbox.run("store backup sqlite:old sqlite:copy")
            #expect(backup.exitCode == 0)
            for name in ["old-wal", "old-shm"] where FileManager.default.fileExists(atPath: sandbox.path(name)) {
                try FileManager.default.removeItem(atPath: sandbox.path(name))
            }
            try sandbox.write(sandbox.bytes(of: "copy"), to: "old")
            try damage("value 117", in: "old")
        }
        let before = try sandbox.bytes(of: kind == "file" ? "old/k/117.entry" : "old")
        let checked = try sandbox.run("store check \(kind):old")
        #expect(checked.exitCode == 1)
        #expect(checked.output.hasPrefix("\(kind):old: 29 entries intact\ndamaged: k/117"))
        let object = try #require(
            try JSONSerialization.jsonObject(with: Data(sandbox.run("store check \(kind):old --json").output.utf8))
                as? [String: Any])
        #expect(object["intact"] as? Bool == false && object["whole"] as? Int == 29)

        let recovered = try sandbox.run("store recover \(kind):old \(kind):new")
        #expect(recovered.exitCode == 1)
        #expect(recovered.output.contains("\nlost: k/117"))
        #expect(try sandbox.run("store check \(kind):new") == .done("\(kind):new: 29 entries intact"))
        #expect(try sandbox.bytes(of: kind == "file" ? "old/k/117.entry" : "old") == before)
    }

    @Test("A damaged SQLite log is reported and kept, and recover reads its intact part")
    func damagedLog() async throws {
        let store = SQLiteBackend(path: sandbox.path("live"))
        try await fill(store)
        // The state after a kill: the log holds everything that was written.
        for suffix in ["", "-wal"] { try sandbox.write(sandbox.bytes(of: "live\(suffix)"), to: "old\(suffix)") }
        var log = try sandbox.bytes(of: "old-wal")
        // In the header of the fifth frame, which precedes the commits of nearly all entries.
        log[32 + 4 * 4_120 + 17] ^= 1
        try sandbox.write(log, to: "old-wal")
        let database = try sandbox.bytes(of: "old")
        for command in ["check sqlite:old", "backup sqlite:old sqlite:copy", "copy sqlite:old file:copy"] {
            let outcome = try sandbox.run("store \(command)")
            #expect(outcome.exitCode == 1 && outcome.output.isEmpty, "\(command): \(outcome)")
            #expect(outcome.error.contains("old-wal: byte \(32 + 4 * 4_120): the log is damaged"), "\(outcome)")
        }
        #expect(try sandbox.run("store recover sqlite:old sqlite:new").exitCode == 0)
        #expect(try sandbox.run("store check sqlite:new") == .done("sqlite:new: 30 entries intact"))
        #expect(try sandbox.bytes(of: "old") == database && sandbox.bytes(of: "old-wal") == log)
        withExtendedLifetime(store) {}
    }

    @Test(
        "Unsuitable stores are refused, and nothing is created",
        arguments: [
            ("check memory:", 2, "memory: lasts only for one command: write file:DIR, sqlite:FILE or folder:DIR"),
            ("check ftp:x", 2, #"store must be file:DIR, sqlite:FILE, folder:DIR or memory:, not "ftp:x""#),
            ("copy file:a file:a", 2, "file:a and file:a are the same store: choose another target"),
            ("backup file:a file:full", 4, "file:full already exists: choose a new name"),
            ("backup sqlite:a.db sqlite:full.db", 4, "sqlite:full.db already exists: choose a new name"),
            (
                "recover sqlite:a.db file:new", 2,
                "an SQLite store is recovered into a new SQLite store: write sqlite:FILE"
            ),
        ] as [(String, Int32, String)])
    func refuses(command: String, exitCode: Int32, reason: String) async throws {
        try await fill(FileBackend(folder: sandbox.path("a")), 1)
        try await fill(FileBackend(folder: sandbox.path("full")), 1)
        for name in ["a.db", "full.db"] { try await fill(SQLiteBackend(path: sandbox.path(name)), 1) }
        // SQLite creates and removes files beside a database when it is opened and closed.
        let files = { try sandbox.tree().keys.filter { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") }.sorted() }
        let before = try files()
        #expect(try sandbox.run("store \(command)") == .refused(exitCode, reason))
        #expect(try files() == before)
    }

    @Test("A missing store is reported as not found and is not created", arguments: ["file:nope", "sqlite:nope.db"])
    func missing(url: String) throws {
        for command in ["check \(url)", "copy \(url) file:new", "backup \(url) \(url)2", "recover \(url) \(url)2"] {
            let outcome = try sandbox.run("store \(command)")
            #expect(outcome == .refused(3, "there is no store at \(url)"), "\(command)")
        }
        #expect(try sandbox.tree().isEmpty)
    }

    @Test("An app and syncd share an SQLite store and a server's store as its remote")
    func shared() async throws {
        let app = "--local sqlite:app.db --remote sqlite:server.db --account alice"
        let bought = try sandbox.run("record purchase \(Owls.couch) --transaction t1 \(app)")
        #expect(bought.exitCode == 0, "\(bought)")
        #expect(try sandbox.run("sync --create-remote \(app)").exitCode == 0)
        let other = "--local file:other --remote sqlite:server.db --account alice"
        #expect(try sandbox.run("restore \(other)").exitCode == 0)
        #expect(try sandbox.run("check couch-owl \(other)").exitCode == 0)
    }
}
