import Entitlements
import ArgumentParser
import Foundation
import SQLiteStorage
import SyncCore

struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Look after a store: check it, back it up, recover what is whole, copy it to another.",
        discussion: """
            A store is named by a URL: file:DIR, sqlite:FILE, folder:DIR, webdavs://USER@HOST/FOLDER, or https://HOST \
            for its operator.

            Examples:
              syncd store check sqlite:/var/lib/syncd/store.sqlite
              syncd store copy file:/var/lib/old sqlite:/var/lib/new.sqlite
            """,
        subcommands: [StoreCheck.self, StoreBackup.self, StoreRecover.self, StoreCopyCommand.self])
}

struct StoreCheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Read everything in a store, and name the keys that are damaged.",
        discussion: "Exit codes: 0 all is whole, 1 something is damaged.")

    @Argument(help: ArgumentHelp("The store.", valueName: "url"))
    var store: String

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let url = try StoreURL(keeping: store, server)
        let findings = try await finding(url) { () async throws(BackendError) in
            if case .sqlite(let path) = url.place { try await Self.check(database: path) } else { try await check(url) }
        }
        let isIntact = findings.damage.isEmpty && findings.problems.isEmpty
        let lines =
            ["\(url.text): \(plural(findings.wholeCount, "entry", "entries")) whole"]
            + findings.damage.map { "damaged: \($0.line)" } + findings.problems.map { "problem: \($0.onOneLine)" }
        try output.show(
            .object([
                ("store", .string(url.text)), ("intact", .bool(isIntact)),
                ("whole", .number(Int64(findings.wholeCount))), ("damaged", .array(findings.damage.map(\.json))),
                ("problems", .array(findings.problems.map { .string($0.onOneLine) })),
            ]), or: lines.joined(separator: "\n"))
        if !isIntact { throw ExitCode(.failed) }
    }

    private struct Findings {
        var wholeCount: Int
        var damage: [DamagedEntry]
        var problems: [String] = []
    }

    /// SQLite also knows about pages and indexes, and names keys where a listing stops.
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
        commandName: "backup", abstract: "Copy a store to a new one, while others go on using it.",
        discussion: """
            From SQLite to SQLite it is a copy of one moment. Otherwise it is entry by entry, and each is whole. The \
            backup has its name only when all of it is there; what a killed backup leaves, NEW.incomplete, is removed \
            by the next one of that name. A store with an entry that cannot be read is not backed up: recover it.
            """)

    @Argument(help: ArgumentHelp("The store.", valueName: "url"))
    var store: String
    @Argument(help: ArgumentHelp("The backup: nothing may be there yet.", valueName: "new-url"))
    var backup: String

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let (from, to) = (try StoreURL(keeping: store, server), try StoreURL(new: backup))
        let transfer = try StoreTransfer(from: from, to: to, skippingDamage: false)
        guard case .sqlite(let source) = from.place, case .sqlite(let target) = to.place else {
            return try transfer.show(try await transfer.runIntoNew().report, output)
        }
        try await transfer.requireSource()
        try await StagedStore.make(to) { staged in
            try await finding(from) { () async throws(BackendError) in
                try await SQLiteBackend(path: source, creating: .never).backup(to: target, draftingIn: staged.folder)
            }
            return false
        }
        try output.show(
            .object([("from", .string(from.text)), ("to", .string(to.text))]), or: "\(from.text) is in \(to.text)")
    }
}

struct StoreRecover: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recover", abstract: "Bring everything that is whole in a damaged store into a new one.",
        discussion: """
            The damaged store is not changed; nobody should write to it meanwhile. What is lost is named, as far as \
            its name is still to be found. The new store has its name only when all of it is there.

            Exit codes: 0 all came back, 1 something is lost, 4 nothing of a store was found.
            """)

    @Argument(help: ArgumentHelp("The damaged store.", valueName: "url"))
    var store: String
    @Argument(help: ArgumentHelp("The new store: nothing may be there yet.", valueName: "new-url"))
    var new: String

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let (from, to) = (try StoreURL(keeping: store, server), try StoreURL(new: new))
        if case .sqlite(let source) = from.place { return try await recover(database: source, from, to) }
        let transfer = try StoreTransfer(from: from, to: to, source: from.recoverable(), skippingDamage: true)
        let (report, isMade) = try await transfer.runIntoNew()
        try transfer.show(report, isMade: isMade, output)
    }

    /// SQLite's pages are looked at one by one.
    private func recover(database source: String, _ from: StoreURL, _ to: StoreURL) async throws {
        guard case .sqlite = to.place else {
            throw Failure(.usage, "a SQLite store is recovered into a new SQLite store: name it sqlite:FILE")
        }
        try from.refuseOverlap(with: to)
        let database = SQLiteBackend(path: source, creating: .never)
        // Before anything is made beside the new store's place.
        try await finding(from) { () async throws(BackendError) in
            if access(source, F_OK) != 0 { _ = try await database.integrityCheck() }
        }
        var findings = Findings()
        try await StagedStore.make(to) { staged in
            findings = Findings(
                try await finding(from) { () async throws(BackendError) in
                    try await database.recover(to: staged.stagedPath)
                })
            // An empty store that can be opened is one; a file in which nothing is found is none.
            if findings.isEmpty {
                try await finding(from) { () async throws(BackendError) in _ = try await database.integrityCheck() }
            }
            return findings.recoveredCount > 0 || !findings.hasLoss
        }
        try show(findings, from, to)
    }

    /// What a recovery of a database found.
    private struct Findings {
        var recoveredCount = 0
        var lostKeys: [String] = []
        /// Rows that cannot be believed, named or not.
        var damagedRowCount = 0
        /// Keys that are known to have been there, and are neither back nor named.
        var missingCount = 0

        init() {}

        init(_ report: RecoveryReport) {
            recoveredCount = report.recoveredCount
            lostKeys = report.lostKeys
            damagedRowCount = report.damagedRowCount
            missingCount = report.missingCount
        }

        var hasLoss: Bool { !lostKeys.isEmpty || damagedRowCount > 0 || missingCount > 0 }
        var isEmpty: Bool { recoveredCount == 0 && !hasLoss }
    }

    private func show(_ findings: Findings, _ from: StoreURL, _ to: StoreURL) throws {
        var lines = ["\(to.text): \(plural(findings.recoveredCount, "entry", "entries")) brought back"]
        if findings.recoveredCount == 0, findings.hasLoss { lines = ["\(to.text) is not made: no entry is whole"] }
        lines += findings.lostKeys.map { "lost: \($0.onOneLine)" }
        if findings.missingCount > 0 {
            lines.append("lost besides: \(plural(findings.missingCount, "entry", "entries")), whose keys are not told")
        }
        if findings.damagedRowCount > 0 {
            lines.append("damaged: \(plural(findings.damagedRowCount, "row", "rows")) of the database, named or not")
        }
        try output.show(
            .object([
                ("from", .string(from.text)), ("to", .string(to.text)),
                ("recovered", .number(Int64(findings.recoveredCount))),
                ("lost", .array(findings.lostKeys.map { .string($0) })),
                ("missing", .number(Int64(findings.missingCount))),
                ("damagedRows", .number(Int64(findings.damagedRowCount))),
            ]), or: lines.joined(separator: "\n"))
        if findings.hasLoss { throw ExitCode(.failed) }
    }
}

struct StoreCopyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy", abstract: "Copy everything from one store to another, of whatever kinds they are.",
        discussion: """
            Interrupted, it goes on when it is called again. What the other store has already is left; where it has \
            something else under a key, that key is named and the exit code is 5. An entry that cannot be read is \
            named, the others are copied, and the exit code is 1.
            """)

    @Argument(help: ArgumentHelp("The store to copy.", valueName: "url"))
    var from: String
    @Argument(help: ArgumentHelp("Where to copy it.", valueName: "url"))
    var to: String

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let transfer = try StoreTransfer(
            from: try StoreURL(keeping: from, server), to: try StoreURL(keeping: to, server), skippingDamage: true)
        try await transfer.requireSource()
        try transfer.show(try await transfer.run(into: transfer.to.open(host: .system, mayCreateRemote: true)), output)
    }
}

extension StoreURL {
    /// One of the stores that these commands look after: those that outlive the process, of this machine or of a server
    /// whose operator this is.
    fileprivate init(keeping text: String, _ server: ServerOptions) throws {
        try self.init(text, option: "store") { text in
            if Self.isWebDAV(text) { return try server.webDAVStore(text, option: "store") }
            return ServerStore(backend: try server.operatorStore(text, option: "store"))
        }
        try refuseMemory()
    }

    /// A store that is to be made on this machine.
    fileprivate init(new text: String) throws {
        try self.init(text, option: "store")
        try refuseMemory()
    }

    private func refuseMemory() throws(Failure) {
        guard place != .memory else {
            throw Failure(.usage, "memory: ends with each command: name a file:DIR, sqlite:FILE or folder:DIR")
        }
    }
}

extension ExitCode {
    init(_ code: Failure.Code) { self.init(code.rawValue) }
}
