import FileStorage
import Foundation
import SQLiteStorage
import SyncCore
import Testing

@Suite("syncd store, where something is wrong", .serialized)
struct StoreRepairTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func fill(_ store: some KeyValueBackend, _ count: Int = 30) async throws {
        for number in 100..<(100 + count) {
            _ = try await store.write(Array("value \(number)".utf8), to: EntryKey("k/\(number)"), if: .absent)
        }
    }

    private func files(_ name: String) -> FileBackend { FileBackend(folder: sandbox.path(name)) }

    @Test("copies into no place inside the store, nor around it, nor the store itself by another name")
    func overlap() async throws {
        try await fill(files("A"), 3)
        try await fill(SQLiteBackend(path: sandbox.path("p.sqlite")), 3)
        for (link, target) in [("L", "A"), ("D", "A/new"), ("p.link", "p.sqlite")] {
            try FileManager.default.createSymbolicLink(
                atPath: sandbox.path(link), withDestinationPath: sandbox.path(target))
        }
        let here = sandbox.folder.path
        // The connection's files are gone when it is closed.
        let tree = { try sandbox.tree().filter { !$0.key.hasPrefix("p.sqlite-") } }
        let before = try tree()
        let pairs = [
            ("file:A", "file:A/sub"), ("file:A", "file:\(here)/A/x/y"), ("file:A", "file:L/sub"), ("file:A", "file:L"),
            ("file:A", "file:./A/"), ("file:L", "file:\(here)/A"), ("file:A", "file:D"), ("file:A", "sqlite:A/b.db"),
            ("file:A", "folder:A/k"), ("file:A/k", "file:A"), ("file:A", "file:B/../A/sub"),
            ("sqlite:p.sqlite", "sqlite:\(here)/p.sqlite"), ("sqlite:p.sqlite", "sqlite:p.link"),
            ("sqlite:p.link", "sqlite:p.sqlite"), ("sqlite:p.sqlite", "sqlite:p.sqlite-wal"),
            ("sqlite:p.sqlite", "file:p.sqlite"),
        ]
        for (from, to) in pairs {
            for command in ["copy", "backup", "recover"] {
                if command == "recover", from.hasPrefix("sqlite"), !to.hasPrefix("sqlite") { continue }
                let outcome = try sandbox.run("store \(command) \(from) \(to)")
                #expect(outcome.exitCode == 2 && outcome.output.isEmpty, "\(command) \(from) \(to): \(outcome)")
                #expect(outcome.error.contains("name a"), "\(outcome)")
            }
        }
        #expect(try tree() == before)
        #expect(try sandbox.run("store check file:A") == .done("file:A: 3 entries whole"))
        #expect(try sandbox.run("store copy file:A file:AB").exitCode == 0, "a name that begins alike is another place")
    }
}
