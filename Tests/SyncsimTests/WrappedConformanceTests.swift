import Foundation
import TestSupport
import Testing

@testable import syncsim

@Suite("syncsim conformance of wrapped stores")
struct WrappedConformanceTests {
    private let program: Program

    init() throws {
        program = try Program()
    }

    private func printed(_ command: String) throws -> ConformanceOutput {
        let outcome = try program.run("conformance \(command) --seed 7 --json")
        #expect(outcome.exitCode == 0 && outcome.error == "", "\(outcome)")
        return try outcome.decoded(as: ConformanceOutput.self)
    }

    /// A key file that only its owner may read.
    private func makeKey(_ name: String) throws {
        let digits = (0..<32).map { String(100 + 4 * $0, radix: 16) }.joined()
        try program.write(digits + "\n", to: name)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: program.path(name))
    }

    private let killed = "processes that are killed while writing"
    private let failing = "after an error the store is as the error's disposition says"

    @Test("--retried retries, also in killed processes, and is named in the table")
    func retried() throws {
        let table = try program.run("conformance memory: --retried --seed 7")
        #expect(table.exitCode == 0)
        #expect(table.lines.last?.hasSuffix("skipped, seed 7, store memory:, retried") == true)
        let file = try printed("file:new --retried --kills 2")
        #expect(file.retried && !file.sealed && file.failed == 0)
        #expect(file.result(of: killed) == "passed" && file.result(of: failing) == "passed")
        #expect(!FileManager.default.fileExists(atPath: program.path("new")))
        let plain = try printed("memory:")
        #expect(!plain.retried && !plain.sealed)
    }

    #if Sealed
    @Test("--sealed works alone and with --retried, in memory and in files with killed processes")
    func sealed() throws {
        try makeKey("key")
        let table = try program.run("conformance memory: --sealed key --seed 7")
        #expect(table.exitCode == 0)
        #expect(table.lines.last?.hasSuffix("skipped, seed 7, store memory:, sealed") == true)
        let file = try printed("file:new --retried --sealed key --kills 2")
        #expect(file.retried && file.sealed && file.failed == 0)
        #expect(file.result(of: killed) == "passed" && file.result(of: failing) == "passed")
    }

    @Test("--sealed rejects a file without a key, or one that others may read, before it creates anything")
    func badKeys() throws {
        try makeKey("open")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: program.path("open"))
        try makeKey("short")
        // Written in place, to keep the permissions.
        try Data("0f".utf8).write(to: URL(filePath: program.path("short")))
        for (name, reason) in [
            ("open", "open is readable by other users: run chmod 600 on it and use a new key"),
            ("missing", "missing cannot be read as a key: No such file or directory"),
            ("short", "short: a key must be 64 hexadecimal digits or 32 bytes"),
        ] {
            let outcome = try program.run("conformance file:new --sealed \(name)")
            #expect(outcome == .refused(2, "--sealed: \(reason)"))
        }
        #expect(!FileManager.default.fileExists(atPath: program.path("new")))
    }
    #else
    @Test("--sealed explains how to build it if it is not built in")
    func notSealed() throws {
        try makeKey("key")
        let outcome = try program.run("conformance file:new --sealed key")
        #expect(
            outcome
                == .refused(
                    2,
                    "--sealed: this syncsim was built without sealing; build it with "
                        + "swift build --traits Sealed --product syncsim"))
        #expect(!FileManager.default.fileExists(atPath: program.path("new")))
    }
    #endif

    @Test("--sealed without a file is a usage error")
    func noFile() throws {
        let outcome = try program.run("conformance memory: --sealed")
        #expect(outcome == .refused(2, "Missing value for '--sealed <keyfile>' (see syncsim conformance --help)"))
    }
}

extension ConformanceOutput {
    fileprivate func result(of prefix: String) -> String? { checks.first { $0.check.hasPrefix(prefix) }?.result }
}
