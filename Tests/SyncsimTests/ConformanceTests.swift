import Foundation
import TestSupport
import Testing

@testable import syncsim

@Suite("syncsim conformance")
struct ConformanceTests {
    private let program: Program

    init() throws {
        program = try Program()
    }

    private func names(in folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
    }

    @Test("Text output has a line for each check and a summary, and the exit code is 0")
    func memory() throws {
        let outcome = try program.run("conformance memory: --seed 7")
        #expect(outcome.exitCode == 0)
        #expect(outcome.error == "")
        let lines = outcome.lines
        #expect(lines.first?.contains(#/^check +result +reason$/#) == true)
        #expect(lines.contains { $0.contains(#/^a key that was never written is absent +passed$/#) })
        #expect(
            lines.contains {
                $0.contains(#/^a store without changes throws `unsupported` +skipped  the store declares changes$/#)
            }
        )
        #expect(lines.last?.contains(#/^\d+ passed, 0 failed, \d+ skipped, seed 7, store memory:$/#) == true)
        let column = try #require(lines.first?.firstRange(of: "result")).lowerBound.utf16Offset(in: lines[0])
        for line in lines.dropLast() {
            let result = line.dropFirst(column).prefix { $0 != " " }
            #expect(["passed", "skipped", "result"].contains(result), "\(line)")
        }
    }

    @Test("JSON output has the same checks")
    func json() throws {
        let outcome = try program.run("conformance memory: --seed 7 --json")
        #expect(outcome.exitCode == 0)
        let printed = try outcome.decoded(as: ConformanceOutput.self)
        #expect(printed.store == "memory:" && printed.seed == 7 && printed.failed == 0)
        #expect(
            outcome.members == ["checks", "failed", "passed", "retried", "sealed", "seed", "skipped", "store"])
        #expect(printed.checks.count == printed.passed + printed.skipped)
        #expect(printed.checks.count { $0.result == "passed" } == printed.passed)
        #expect(printed.checks.allSatisfy { ($0.reason == nil) == ($0.result == "passed") && $0.milliseconds >= 0 })
    }

    @Test("Stores in a folder are tested, with killed processes, and the folder is restored")
    func folders() throws {
        let empty = try program.folder.freshFolder()
        let outcome = try program.run("conformance file:\(empty) --kills 3 --json")
        #expect(outcome.exitCode == 0, "\(outcome.output)")
        let printed = try outcome.decoded(as: ConformanceOutput.self)
        #expect(printed.failed == 0)
        let killed = printed.checks.first { $0.check.hasPrefix("processes that are killed while writing") }
        #expect(killed?.result == "passed")
        #expect(try names(in: empty) == [])

        let inner = printed.checks.filter { check in Self.reallyFailing.contains { check.check.hasPrefix($0) } }
        #expect(inner.count == 3 && inner.allSatisfy { $0.result == "passed" }, "\(inner)")

        let missing = try program.run("conformance folder:new --kills 3")
        #expect(missing.exitCode == 0, "\(missing.output)")
        #expect(missing.lines.contains { $0.contains("skipped  the store declares no compare-and-swap") })
        #expect(!FileManager.default.fileExists(atPath: program.path("new")))
    }

    /// The checks with real system errors, and the one that starts processes.
    private static let reallyFailing = [
        "an operation of unknown outcome", "after an error the store is", "no process reuses a version",
    ]

    @Test("A database is tested, with real system errors")
    func sqlite() throws {
        let empty = try program.folder.freshFolder()
        let outcome = try program.run("conformance sqlite:\(empty) --kills 2 --json")
        #expect(outcome.exitCode == 0, "\(outcome.output)")
        let printed = try outcome.decoded(as: ConformanceOutput.self)
        let inner = printed.checks.filter { check in Self.reallyFailing.contains { check.check.hasPrefix($0) } }
        #expect(inner.count == 3 && inner.allSatisfy { $0.result == "passed" }, "\(inner)")
        #expect(try names(in: empty) == [])
    }

    @Test("A folder that is not empty is rejected and left unchanged")
    func notEmpty() throws {
        let folder = try program.folder.freshFolder()
        try Data("mine".utf8).write(to: URL(filePath: "\(folder)/letter"))
        let outcome = try program.run("conformance file:\(folder)")
        #expect(outcome == .refused(2, "\(folder) is not empty; name an empty or a new folder"))
        #expect(try names(in: folder) == ["letter"])
        let file = try program.run("conformance file:\(folder)/letter")
        #expect(
            file == .refused(2, "\(folder)/letter is not a folder; name an empty or a new folder"))
        let nowhere = try program.run("conformance file:\(folder)/a/b")
        #expect(nowhere.exitCode == 1)
        #expect(nowhere.error.hasPrefix("syncsim: \(folder)/a/b: cannot create stores there: "))
        #expect(nowhere.error.count { $0 == "\n" } == 1)
    }

    private static let noStore =
        "is not a store that can be tested; use one of memory:, file:DIR, sqlite:DIR, folder:DIR"

    @Test(
        "Wrong usage is reported in one line",
        arguments: [
            ("memory", "\"memory\" \(Self.noStore)"),
            ("memory:x", "\"memory:x\" \(Self.noStore)"),
            ("file:", "\"file:\" \(Self.noStore)"),
            ("ftp:x", "\"ftp:x\" \(Self.noStore)"),
            ("file://host/x", "\"file://host/x\" names a host; write file:DIR for a local folder"),
            ("memory: --seed -1", "Missing value for '--seed <number>' (see syncsim conformance --help)"),
            ("memory: --seed many", "--seed must be a number from 0 to 18446744073709551615, not \"many\""),
            ("memory: --kills 0", "--kills must be 1 to 100000, not 0"),
            ("", "Missing expected argument '<url>' (see syncsim conformance --help)"),
        ])
    func refused(arguments: String, reason: String) throws {
        #expect(try program.run("conformance \(arguments)") == .refused(2, reason))
    }

    @Test("A failed check is reported and the exit code is 1, with files limited to 100 KiB")
    func failing() throws {
        let folder = try program.folder.freshFolder()
        let outcome = try program.runWithSmallFiles("conformance file:\(folder) --seed 1 --kills 1")
        #expect(outcome.exitCode == 1)
        #expect(outcome.error == "")
        let large = outcome.lines.first { $0.hasPrefix("values of up to 1 MiB are read back") }
        #expect(large?.contains(#/failed   write "large": .*File too large/#) == true, "\(large ?? "")")
        #expect(outcome.lines.contains { $0.contains(#/^a written value is read back .* +passed$/#) })
        #expect(outcome.lines.last?.contains(#/^\d+ passed, 1 failed, /#) == true)
        #expect(try names(in: folder) == [])
    }
}
