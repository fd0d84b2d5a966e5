import FileStorage
import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("syncd store with damaged and unsuitable stores", .serialized)
struct StoreRepairTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func fill(_ store: some KeyValueBackend, _ count: Int = 30) async throws {
        for number in 100..<(100 + count) {
            _ = try await store.write(Array("value \(number)".utf8), to: EntryKey("k/\(number)"), if: .absent)
        }
    }

    private func files(_ name: String) -> FileBackend { FileBackend(folder: sandbox.path(name)) }

    private func json(_ outcome: Sandbox.Outcome) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any])
    }

    @Test("A copy into the store, around it, or onto itself by another name is refused")
    func overlap() async throws {
        try await fill(files("A"), 3)
        try await fill(SQLiteBackend(path: sandbox.path("p.sqlite")), 3)
        for (link, target) in [("L", "A"), ("D", "A/new"), ("p.link", "p.sqlite")] {
            try FileManager.default.createSymbolicLink(
                atPath: sandbox.path(link), withDestinationPath: sandbox.path(target))
        }
        let here = sandbox.folder.path
        // Closing the connection removes its files.
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
                #expect(outcome.error.contains("choose a"), "\(outcome)")
            }
        }
        #expect(try tree() == before)
        #expect(try sandbox.run("store check file:A") == .done("file:A: 3 entries intact"))
        #expect(try sandbox.run("store copy file:A file:AB").exitCode == 0, "a name that begins alike is another place")
    }

    @Test(
        "kill -9 leaves no part of a backup under its name, and the next one is whole",
        arguments: [
            "backup file:A file:B", "recover file:A file:B", "backup file:A sqlite:B", "backup sqlite:S file:B",
            "backup sqlite:S sqlite:B", "recover sqlite:S sqlite:B",
        ])
    func killed(command: String) async throws {
        let count = 120
        try await fill(files("A"), count)
        if command.contains("sqlite:S") { #expect(try sandbox.run("store copy file:A sqlite:S").exitCode == 0) }
        let target = try #require(command.split(separator: " ").last)
        let seed = printedSeed("StoreRepairTests.killed")
        var timer = KillTimer(generator: SeededGenerator(seed: seed), step: 1.05)
        var (leftovers, round) = (0, 0)
        while round < 8 || (round < 60 && !(timer.hasSeen(2) && leftovers > 0)) {
            round += 1
            let exitCode = try timer.runOrKill(sandbox.start("store \(command)".split(separator: " ").map(String.init)))
            let names = try FileManager.default.contentsOfDirectory(atPath: sandbox.folder.path)
            if names.contains("B.incomplete") { leftovers += 1 }
            guard names.contains("B") else {
                #expect(exitCode == nil, "seed \(seed)")
                continue
            }
            // Killed or not, a store that has the name is complete.
            #expect(
                try sandbox.run("store check \(target)") == .done("\(target): \(count) entries intact"), "seed \(seed)")
            for name in names where name.hasPrefix("B") && name != "B.incomplete" {
                try FileManager.default.removeItem(atPath: sandbox.path(name))
            }
        }
        print("\(command): \(timer.killed) killed, \(timer.finished) finished, \(leftovers) left-overs seen")
        #expect(timer.hasSeen(1) && leftovers > 0, "seed \(seed)")
        #expect(try sandbox.run("store \(command)").exitCode == 0)
        let names = try FileManager.default.contentsOfDirectory(atPath: sandbox.folder.path)
        #expect(names.filter { $0.hasPrefix("B") && !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") } == ["B"])
        let again = try sandbox.run("store \(command)")
        #expect(again.exitCode == 4 && again.error.contains("already exists"), "\(again)")
    }

    @Test("A backup removes only files of syncd and keeps the permissions of an empty folder")
    func foreignLeftover() async throws {
        try await fill(files("A"), 3)
        try FileManager.default.createDirectory(
            atPath: sandbox.path("B.incomplete/store"), withIntermediateDirectories: true)
        try sandbox.write("thesis", to: "B.incomplete/store/thesis.txt")
        let before = try sandbox.tree()
        for note in [nil, "", "something else"] {
            if let note { try sandbox.write(note, to: "B.incomplete/lock") }
            let outcome = try sandbox.run("store backup file:A file:B")
            #expect(outcome.exitCode == 4 && outcome.error.contains("B.incomplete: not created by syncd"))
        }
        #expect(try sandbox.tree().count == before.count + 1)
        try FileManager.default.removeItem(atPath: sandbox.path("B.incomplete"))
        try FileManager.default.createDirectory(
            atPath: sandbox.path("B"), withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        #expect(try sandbox.run("store backup file:A file:B") == .done("file:B: 3 entries copied"))
        let rights = try FileManager.default.attributesOfItem(atPath: sandbox.path("B"))[.posixPermissions]
        #expect((rights as? NSNumber)?.intValue == 0o700)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("B.incomplete")))
    }

    @Test("A damaged store is not backed up, and an empty store has an empty backup")
    func strict() async throws {
        try await fill(files("A"), 30)
        try sandbox.write("broken", to: "A/k/117.entry")
        let before = try sandbox.tree()
        let outcome = try sandbox.run("store backup file:A file:B")
        #expect(outcome.exitCode == 1 && outcome.error.contains("k/117"))
        #expect(try sandbox.tree() == before)
        let empty = files("E")
        _ = try await empty.write([1], to: EntryKey("x"), if: .any)
        _ = try await empty.delete(EntryKey("x"), if: .any)
        for target in ["file:E2", "sqlite:E3"] {
            #expect(try sandbox.run("store backup file:E \(target)").exitCode == 0)
            #expect(try sandbox.run("store check \(target)") == .done("\(target): 0 entries intact"))
        }
    }

    @Test("check, copy and recover skip a link, a folder and an entry of a newer format, and end with 1")
    func oddEntries() async throws {
        try await fill(files("A"), 10)
        try FileManager.default.removeItem(atPath: sandbox.path("A/k/102.entry"))
        try FileManager.default.createSymbolicLink(
            atPath: sandbox.path("A/k/102.entry"), withDestinationPath: "/etc/passwd")
        try FileManager.default.removeItem(atPath: sandbox.path("A/k/105.entry"))
        try FileManager.default.createDirectory(
            atPath: sandbox.path("A/k/105.entry/x"), withIntermediateDirectories: true)
        var bytes = try sandbox.bytes(of: "A/k/107.entry")
        bytes.replaceSubrange(8..., with: [0, 0, 0, 9] + [UInt8](repeating: 3, count: 60))
        try sandbox.write(bytes, to: "A/k/107.entry")
        let named = [("k/102", "notAStore"), ("k/105", "notAStore"), ("k/107", "newerFormat")]
        for (command, word) in [
            ("check file:A", "damaged"), ("copy file:A file:C", "lost"), ("recover file:A file:R", "lost"),
        ] {
            let outcome = try sandbox.run("store \(command)")
            #expect(outcome.exitCode == 1 && outcome.error.isEmpty, "\(command): \(outcome)")
            let lines = outcome.output.split(separator: "\n").dropFirst()
            #expect(lines.count == 3)
            for (line, (key, kind)) in zip(lines, named) {
                #expect(line.hasPrefix("\(word): \(key) (\(kind)): "), "\(command): \(line)")
            }
        }
        for name in ["C", "R"] {
            #expect(try sandbox.run("store check file:\(name)") == .done("file:\(name): 7 entries intact"))
        }
        let object = try json(sandbox.run("store check file:A --json"))
        let damaged = try #require(object["damaged"] as? [[String: Any]])
        #expect(damaged.map { $0["kind"] as? String } == named.map(\.1) && object["whole"] as? Int == 7)
    }

    @Test("A store with a damaged or missing marker is reported and recovered", arguments: ["flipped", "lost"])
    func marker(damage: String) async throws {
        try await fill(files("A"))
        if damage == "lost" {
            try FileManager.default.removeItem(atPath: sandbox.path("A/store.format"))
        } else {
            var bytes = try sandbox.bytes(of: "A/store.format")
            bytes[3] ^= 4
            try sandbox.write(bytes, to: "A/store.format")
        }
        let before = try sandbox.tree()
        for command in ["check file:A", "copy file:A file:C", "backup file:A file:C"] {
            let outcome = try sandbox.run("store \(command)")
            #expect(outcome.exitCode == 1 && outcome.error.contains("syncd store recover"), "\(command): \(outcome)")
        }
        #expect(try sandbox.tree() == before)
        #expect(try sandbox.run("store recover file:A file:R") == .done("file:R: 30 entries copied"))
        #expect(try sandbox.run("store check file:R") == .done("file:R: 30 entries intact"))
    }

    @Test("recover creates nothing from a file that is not a store, or without intact entries")
    func nothingFound() async throws {
        try FileManager.default.createDirectory(atPath: sandbox.path("foreign/a"), withIntermediateDirectories: true)
        try sandbox.write("diary", to: "foreign/a/monday.entry")
        try sandbox.write(String(repeating: "root:x:0:0\n", count: 900), to: "passwd")
        try FileManager.default.createDirectory(atPath: sandbox.path("share"), withIntermediateDirectories: true)
        try await fill(files("A"), 2)
        for number in 100...101 { try sandbox.write("broken", to: "A/k/\(number).entry") }
        let before = try sandbox.tree()
        for command in ["file:foreign file:R", "sqlite:passwd sqlite:R", "folder:share file:R"] {
            let outcome = try sandbox.run("store recover \(command)")
            #expect(outcome.exitCode == 4 && outcome.output.isEmpty, "\(command): \(outcome)")
        }
        let outcome = try sandbox.run("store recover file:A file:R")
        #expect(
            outcome.exitCode == 1 && outcome.output.hasPrefix("file:R was not created: no entry is intact\nlost: k/100")
        )
        #expect(try sandbox.tree() == before)
    }

    @Test("recover from SQLite counts entries with unknown keys and ends with 1")
    func unnamedLosses() async throws {
        // A backup is a single file without a log.
        try await fill(SQLiteBackend(path: sandbox.path("first")), 300)
        #expect(try sandbox.run("store backup sqlite:first sqlite:old").exitCode == 0)
        let page = 4_096
        var bytes = try sandbox.bytes(of: "old")
        // Every other page from the third on, as with bad sectors.
        for start in stride(from: 2 * page, to: bytes.count - page, by: 2 * page) {
            for index in start + 100..<start + page { bytes[index] = 0xA5 }
        }
        try sandbox.write(bytes, to: "old")
        let outcome = try sandbox.run("store recover sqlite:old sqlite:new --json")
        #expect(outcome.exitCode == 1, "\(outcome)")
        let object = try json(outcome)
        let recovered = try #require(object["recovered"] as? Int)
        #expect(recovered > 0 && recovered < 300)
        #expect(try #require(object["damagedRows"] as? Int) > 0 && object["missing"] as? Int != nil)
        let text = try sandbox.run("store recover sqlite:old sqlite:new2")
        #expect(text.exitCode == 1 && text.output.contains("\ndamaged: "), "\(text)")
        #expect(try sandbox.run("store check sqlite:new") == .done("sqlite:new: \(recovered) entries intact"))
        // An intact store is recovered without loss.
        #expect(
            try sandbox.run("store recover sqlite:new sqlite:new3")
                == .done("sqlite:new3: \(recovered) entries recovered"))
    }
}
