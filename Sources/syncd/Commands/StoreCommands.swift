import Entitlements
import ArgumentParser
import Foundation
import SQLiteRecovery
import SQLiteStorage
import SyncCore

struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Check, back up, recover and copy stores.",
        discussion: """
            Stores are named by URLs: file:DIR, sqlite:FILE, folder:DIR, postgres://USER@HOST/DATABASE, \
            webdavs://USER@HOST/FOLDER, or https://HOST with the operator's token.

            Examples:
              syncd store check sqlite:/var/lib/syncd/store.sqlite
              syncd store copy file:/var/lib/old sqlite:/var/lib/new.sqlite
            """,
        subcommands: [StoreCheck.self, StoreBackup.self, StoreRecover.self, StoreCopyCommand.self, StoreReindex.self])
}

struct StoreCheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Read every entry of a store and list damaged keys.",
        usage: "syncd store check <url> [<options>]",
        discussion: "Exit codes: 0 no damage, 1 some entries are damaged.")

    @Argument(help: ArgumentHelp("The store.", valueName: "url"))
    var store: String

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let url = try StoreURL(keeping: store, server)
        let findings = try await finding(url) {
            try await url.isDatabase ? Self.check(database: url.path ?? "") : check(url)
        }
        let isIntact = findings.damage.isEmpty && findings.problems.isEmpty
        let lines =
            ["\(url.text): \(plural(findings.wholeCount, "entry", "entries")) intact"]
            + findings.damage.map { "damaged: \($0.line)" } + findings.problems.map { "problem: \($0.onOneLine)" }
        try output.show(
            [
                "store": .string(url.text), "intact": .bool(isIntact), "whole": .number(findings.wholeCount),
                "damaged": .array(findings.damage.map(\.json)),
                "problems": .array(findings.problems.map { .string($0.onOneLine) }),
            ], or: lines.joined(separator: "\n"))
        if !isIntact { throw ExitCode(.failed) }
    }

    private struct Findings {
        var wholeCount: Int
        var damage: [DamagedEntry]
        var problems: [String] = []
    }

    /// Checks pages and indexes of an SQLite database as well, and finds damaged keys that stop a listing.
    private static func check(database path: String) async throws(BackendError) -> Findings {
        let report = try await SQLiteBackend(path: path, creating: .never).integrityCheck()
        return Findings(
            wholeCount: report.wholeCount, damage: report.damagedKeys.map { DamagedEntry(key: $0) },
            problems: report.problems)
    }

    private func check(_ url: StoreURL) async throws(BackendError) -> Findings {
        let progress = CopyProgress()
        defer { progress.clear() }
        let survey = try await StoreSurvey.of(url.existing()) { progress.show($0.wholeCount) }
        return Findings(wholeCount: survey.wholeCount, damage: survey.damage.map(DamagedEntry.init))
    }
}

struct StoreBackup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Copy a store to a new one while it is in use.",
        usage: "syncd store backup <url> <new-url> [<options>]",
        discussion: """
            From SQLite to SQLite the backup is a snapshot of one moment. Between other kinds, each entry is copied \
            atomically, but not all at one moment. The backup appears under its name only when it is complete. An \
            interrupted backup leaves NEW.incomplete, which the next backup of that name removes. A store with \
            unreadable entries is not backed up: use recover.
            """)

    @Argument(help: ArgumentHelp("The store.", valueName: "url"))
    var store: String
    @Argument(help: ArgumentHelp("The backup, which must not exist yet.", valueName: "new-url"))
    var backup: String

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let (from, to) = (try StoreURL(keeping: store, server), try StoreURL(new: backup))
        let transfer = try StoreTransfer(from: from, to: to, skippingDamage: false)
        guard case .local(.sqlite, let source) = from.place, case .local(.sqlite, let target) = to.place else {
            return try transfer.show(try await transfer.runIntoNew().report, output)
        }
        try await transfer.requireSource()
        _ = try await StagedStore.make(to) { staged in
            try await finding(from) {
                try await SQLiteBackend(path: source, creating: .never).backup(to: target, draftingIn: staged.folder)
            }
            return ((), false)
        }
        try output.show(
            ["from": .string(from.text), "to": .string(to.text)],
            or: "backed up: \(from.text) to \(to.text)")
    }
}

struct StoreRecover: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recover", abstract: "Copy the intact entries of a damaged store to a new one.",
        usage: "syncd store recover <url> <new-url> [<options>]",
        discussion: """
            The damaged store is not changed; do not write to it meanwhile. Lost entries are listed if their keys can \
            still be found. The new store appears under its name only when it is complete.

            Exit codes: 0 all entries recovered, 1 some entries are lost, 3 there is no such store, 4 it is not a store.
            """)

    @Argument(help: ArgumentHelp("The damaged store.", valueName: "url"))
    var store: String
    @Argument(help: ArgumentHelp("The new store, which must not exist yet.", valueName: "new-url"))
    var new: String

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let (from, to) = (try StoreURL(keeping: store, server), try StoreURL(new: new))
        if case .local(.sqlite, let source) = from.place { return try await recover(database: source, from, to) }
        let transfer = try StoreTransfer(from: from, to: to, source: from.recoverable(), skippingDamage: true)
        let (report, isMade) = try await transfer.runIntoNew()
        try transfer.show(report, isMade: isMade, output)
    }

    /// Recovers an SQLite database page by page.
    private func recover(database source: String, _ from: StoreURL, _ to: StoreURL) async throws {
        guard to.isDatabase else {
            throw Failure(.usage, "an SQLite store is recovered into a new SQLite store: write sqlite:FILE")
        }
        try from.refuseOverlap(with: to)
        let database = SQLiteBackend(path: source, creating: .never)
        // A missing source is reported before anything is created.
        try await finding(from) {
            if access(source, F_OK) != 0 { _ = try await database.integrityCheck() }
        }
        let (report, _) = try await StagedStore.make(to) { staged in
            let report = try await finding(from) { try await database.recover(to: staged.stagedPath) }
            let isMade = report.recoveredCount > 0 || !report.hasLoss
            // Without any finding the file is either an empty store, which opens, or no store, which is rejected.
            if report.recoveredCount == 0, isMade {
                _ = try await finding(from) { try await database.integrityCheck() }
            }
            return (report, isMade)
        }
        try show(report, from, to)
    }

    private func show(_ findings: RecoveryReport, _ from: StoreURL, _ to: StoreURL) throws {
        var lines = ["\(to.text): \(plural(findings.recoveredCount, "entry", "entries")) recovered"]
        if findings.recoveredCount == 0, findings.hasLoss { lines = ["\(to.text) was not created: no entry is intact"] }
        lines += findings.lostKeys.map { "lost: \($0.onOneLine)" }
        if findings.missingCount > 0 {
            lines.append("also lost: \(plural(findings.missingCount, "entry", "entries")) with unknown keys")
        }
        if findings.damagedRowCount > 0 {
            let count = plural(findings.damagedRowCount, "row")
            lines.append("damaged: \(count) of the database, with known and unknown keys")
        }
        try output.show(
            [
                "from": .string(from.text), "to": .string(to.text), "recovered": .number(findings.recoveredCount),
                "lost": .array(findings.lostKeys.map { .string($0) }), "missing": .number(findings.missingCount),
                "damagedRows": .number(findings.damagedRowCount),
            ], or: lines.joined(separator: "\n"))
        if findings.hasLoss { throw ExitCode(.failed) }
    }
}

extension RecoveryReport {
    fileprivate var hasLoss: Bool { !lostKeys.isEmpty || damagedRowCount > 0 || missingCount > 0 }
}

struct StoreCopyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy", abstract: "Copy all entries of a store to another of any kind.",
        usage: "syncd store copy <from-url> <to-url> [<options>]",
        discussion: """
            An interrupted copy continues when the command is repeated. Entries that the target already has are left \
            as they are. Unreadable entries are listed and skipped.

            With --follow, the store may be in use: what clients change and delete reaches the target, until you \
            interrupt the command. Then stop the server, and repeat the command with --finish in place of --follow. \
            syncd serve refuses the target until then. Both need a target that was empty at first, and end at the \
            first unreadable entry.

            Exit codes: 0 all entries copied, 1 some entries are unreadable, 5 the target has other values for some \
            keys.
            """)

    /// The step of moving a store that is in use.
    enum Ending: EnumerableFlag {
        case follow, finish

        static func help(for value: Self) -> ArgumentHelp? {
            switch value {
            case .follow: "Copy the store while it is in use, and then every change until you interrupt the command."
            case .finish: "Copy what a copy with --follow still lacks, and release the target for use."
            }
        }
    }

    @Argument(help: ArgumentHelp("The store to copy.", valueName: "from-url"))
    var from: String
    @Argument(help: ArgumentHelp("The target, which may exist.", valueName: "to-url"))
    var to: String
    @Flag var ending: Ending?

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let transfer = try StoreTransfer(
            from: try StoreURL(keeping: from, server), to: try StoreURL(keeping: to, server), skippingDamage: true)
        try await transfer.requireSource()
        let target = transfer.to.open(host: .system, mayCreateRemote: true)
        switch ending {
        case nil: try transfer.show(try await transfer.run(into: target), output)
        case .follow: try await transfer.follow(into: target)
        case .finish: try transfer.show(try await transfer.finish(into: target), output)
        }
    }
}

extension StoreURL {
    /// An existing store on this machine, or on a server whose operator runs the command. `memory:` is rejected.
    fileprivate init(keeping text: String, _ server: ServerOptions) throws {
        try self.init(text, option: "store") { text in
            if Self.isWebDAV(text) { return try server.webDAVStore(text, option: "store") }
            return ServerStore(backend: try server.operatorStore(text, option: "store"))
        }
        try refuseMemory()
    }

    /// A store to create on this machine.
    fileprivate init(new text: String) throws {
        try self.init(text, option: "store")
        if case .postgreSQL = place {
            throw Failure(.usage, "\(text.singleLine) cannot appear all at once: use store copy, which can be repeated")
        }
        try refuseMemory()
    }

    private func refuseMemory() throws(Failure) {
        guard place != .memory else {
            throw Failure(.usage, "memory: lasts only for one command: write file:DIR, sqlite:FILE or folder:DIR")
        }
    }
}

extension ExitCode {
    init(_ code: Failure.Code) { self.init(code.rawValue) }
}
