import ArgumentParser
import Foundation
import SQLiteStorage
import SyncCore

struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Look after a store: check it, back it up, recover what is whole, copy it to another.",
        discussion: """
            A store is named by a URL: file:DIR, sqlite:FILE, or folder:DIR.

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

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let url = try StoreURL(keeping: store)
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
        if !isIntact { throw ExitCode(Failure.Code.failed.rawValue) }
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

/// An entry that cannot be read, for showing.
private struct DamagedEntry {
    var key: String?
    var reason: String?

    init(key: String) { self.key = key }

    init(_ error: BackendError) { (key, reason) = (error.key?.text, error.message) }

    var line: String { [key, reason].compactMap { $0?.onOneLine }.joined(separator: ": ") }

    var json: JSON { .object([("key", JSON(key)), ("reason", JSON(reason?.onOneLine))]) }
}

extension String {
    /// All of it, on one line.
    fileprivate var onOneLine: String { split(whereSeparator: \.isNewline).joined(separator: " ") }
}

struct StoreBackup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Copy a store to a new one, while others go on using it.",
        discussion: """
            From SQLite to SQLite it is a copy of one moment. Otherwise it is entry by entry, and each is whole.
            """)

    @Argument(help: ArgumentHelp("The store.", valueName: "url"))
    var store: String
    @Argument(help: ArgumentHelp("The backup: nothing may be there yet.", valueName: "new-url"))
    var backup: String

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let (from, to) = (try StoreURL(keeping: store), try StoreURL(keeping: backup))
        guard case .sqlite(let source) = from.place, case .sqlite(let target) = to.place else {
            return try await copy(from: from, to: to, skippingDamage: false, needsNew: true, showing: output)
        }
        try from.refuseOverlap(with: to)
        try await finding(from) { () async throws(BackendError) in
            try await SQLiteBackend(path: source, creating: .never).backup(to: target)
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
            its name is still to be found.
            """)

    @Argument(help: ArgumentHelp("The damaged store.", valueName: "url"))
    var store: String
    @Argument(help: ArgumentHelp("The new store: nothing may be there yet.", valueName: "new-url"))
    var new: String

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let (from, to) = (try StoreURL(keeping: store), try StoreURL(keeping: new))
        guard case .sqlite(let source) = from.place else {
            return try await copy(from: from, to: to, skippingDamage: true, needsNew: true, showing: output)
        }
        guard case .sqlite(let target) = to.place else {
            throw Failure(.usage, "a SQLite store is recovered into a new SQLite store: name it sqlite:FILE")
        }
        try from.refuseOverlap(with: to)
        let report = try await finding(from) { () async throws(BackendError) in
            try await SQLiteBackend(path: source, creating: .never).recover(to: target)
        }
        let lines =
            ["\(to.text): \(plural(report.recoveredCount, "entry", "entries")) brought back"]
            + report.lostKeys.map { "lost: \($0.onOneLine)" }
        try output.show(
            .object([
                ("from", .string(from.text)), ("to", .string(to.text)),
                ("recovered", .number(Int64(report.recoveredCount))),
                ("lost", .array(report.lostKeys.map { .string($0) })),
            ]), or: lines.joined(separator: "\n"))
    }
}

struct StoreCopyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy", abstract: "Copy everything from one store to another, of whatever kinds they are.",
        discussion: """
            Interrupted, it goes on when it is called again. What the other store has already is left; where it has \
            something else under a key, that key is named and the exit code is 5.
            """)

    @Argument(help: ArgumentHelp("The store to copy.", valueName: "url"))
    var from: String
    @Argument(help: ArgumentHelp("Where to copy it.", valueName: "url"))
    var to: String

    @OptionGroup var output: OutputOptions

    func run() async throws {
        try await copy(
            from: try StoreURL(keeping: from), to: try StoreURL(keeping: to), skippingDamage: false, needsNew: false,
            showing: output)
    }
}

extension StoreURL {
    /// One of the stores that these commands look after: those that outlive the process.
    fileprivate init(keeping text: String) throws(Failure) {
        try self.init(text, option: "store")
        guard place != .memory else {
            throw Failure(.usage, "memory: ends with each command: name a file:DIR, sqlite:FILE or folder:DIR")
        }
    }

    /// The store, which nobody makes where it is missing.
    fileprivate func existing() -> any KeyValueBackend { open(host: .system).asRemote }
}

/// Performs `body`; a store that is missing is not one that comes back later.
private func finding<Result: Sendable>(
    _ url: StoreURL, _ body: () async throws(BackendError) -> Result
) async throws -> Result {
    do throws(BackendError) {
        return try await body()
    } catch {
        guard error.kind == .missing else { throw error }
        throw Failure(.notFound, error.message)
    }
}

/// A key that nobody has, for looking whether a store is there.
private func probe() throws(BackendError) -> EntryKey {
    do { return try EntryKey("store-check") } catch { throw BackendError(.invalidKey, message: "\(error)") }
}

private func copy(
    from: StoreURL, to: StoreURL, skippingDamage: Bool, needsNew: Bool, showing output: OutputOptions
) async throws {
    try from.refuseOverlap(with: to)
    let (source, target) = (from.existing(), to.open(host: .system, mayCreateRemote: true))
    // A source that is missing makes no target. What is damaged in it is told when it is reached.
    _ = try await finding(from) { () async throws(BackendError) in
        try await source.read(try probe()).outcome
    }
    if needsNew, try await !target.list(prefix: "", after: nil, limit: 1).outcome.items.isEmpty {
        throw Failure(.refused, "\(to.text) has something in it already: name a new store")
    }
    let progress = CopyProgress()
    let report = try await finding(from) { () async throws(BackendError) in
        try await StoreCopy(from: source, to: target, skippingDamage: skippingDamage).run {
            progress.show($0.copiedCount + $0.presentCount)
        }
    }
    progress.clear()
    var lines = ["\(to.text): \(plural(report.copiedCount, "entry", "entries")) copied"]
    if report.presentCount > 0 { lines[0] += ", \(report.presentCount) were there" }
    lines += report.damage.map { "lost: \(DamagedEntry($0).line)" }
    lines += report.differingKeys.map { "different: \($0.text.onOneLine)" }
    try output.show(
        .object([
            ("from", .string(from.text)), ("to", .string(to.text)), ("copied", .number(Int64(report.copiedCount))),
            ("present", .number(Int64(report.presentCount))), ("bytes", .number(Int64(report.byteCount))),
            ("lost", .array(report.damage.map { DamagedEntry($0).json })),
            ("different", .array(report.differingKeys.map { .string($0.text) })),
        ]), or: lines.joined(separator: "\n"))
    if !report.differingKeys.isEmpty { throw ExitCode(Failure.Code.conflict.rawValue) }
}

/// How far a copy is, on a terminal and nowhere else.
private final class CopyProgress {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var shown = 0

    func show(_ count: Int) {
        guard isTerminal, count >= shown + 1_000 else { return }
        shown = count
        FileHandle.standardError.write(Data("\r\(count) entries".utf8))
    }

    func clear() {
        if shown > 0 { FileHandle.standardError.write(Data("\r\u{1B}[K".utf8)) }
    }
}
