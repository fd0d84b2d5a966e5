import Entitlements
import ArgumentParser
import Foundation
import SyncCore

/// Copies all entries of a store into another, and says what became of them.
struct StoreTransfer {
    let from: StoreURL
    let to: StoreURL
    /// The store that `from` names, in the form in which it is read.
    let source: any KeyValueBackend
    /// Whether entries that cannot be read are left out and named.
    let skipsDamage: Bool

    init(from: StoreURL, to: StoreURL, source: (any KeyValueBackend)? = nil, skippingDamage: Bool) throws(Failure) {
        try from.refuseOverlap(with: to)
        (self.from, self.to) = (from, to)
        self.source = source ?? from.existing()
        skipsDamage = skippingDamage
    }

    /// Throws where there is no source: then no target is made. What is damaged in it is told when it is reached.
    func requireSource() async throws {
        _ = try await finding(from) { () async throws(BackendError) in
            try await source.read(try probe()).outcome
        }
    }

    /// Copies into `target`, which is the store `to` or will be.
    func run(into target: any KeyValueBackend) async throws -> StoreCopy.Report {
        let progress = CopyProgress()
        defer { progress.clear() }
        return try await finding(from) { () async throws(BackendError) in
            try await StoreCopy(from: source, to: target, skippingDamage: skipsDamage).run {
                progress.show($0.copiedCount + $0.presentCount)
            }
        }
    }

    /// Copies into a new store, which is there wholly or not at all.
    ///
    /// - Returns: what was copied, and whether the new store was made: not where nothing of the old one is whole.
    func runIntoNew() async throws -> (report: StoreCopy.Report, isMade: Bool) {
        try await requireSource()
        var report = StoreCopy.Report()
        var isMade = false
        try await StagedStore.make(to) { staged in
            report = try await run(into: staged.store)
            isMade = report.copiedCount > 0 || report.damage.isEmpty
            // Any folder may be one that a tool shares; only an entry tells.
            if skipsDamage, report.copiedCount == 0, isMade, case .folder = from.place {
                throw Failure(.refused, "\(from.text): no entry was found in it; choose another folder")
            }
            if report.copiedCount == 0, isMade { try await makeEmpty(staged.store) }
            return isMade
        }
        return (report, isMade)
    }

    /// Stores are made by their first write.
    private func makeEmpty(_ store: any KeyValueBackend) async throws {
        _ = try await store.write([], to: try probe(), if: .any)
        _ = try await store.delete(try probe(), if: .any)
    }

    /// Prints the report.
    ///
    /// - Throws: the exit code 1 where something was lost, else 5 where the other store has something else.
    func show(_ report: StoreCopy.Report, isMade: Bool = true, _ output: OutputOptions) throws {
        var lines = ["\(to.text): \(plural(report.copiedCount, "entry", "entries")) copied"]
        if report.presentCount > 0 { lines[0] += ", \(report.presentCount) were there" }
        if !isMade { lines = ["\(to.text) is not made: no entry is whole"] }
        lines += report.damage.map { "lost: \(DamagedEntry($0).line)" }
        lines += report.differingKeys.map { "different: \($0.text.onOneLine)" }
        try output.show(
            .object([
                ("from", .string(from.text)), ("to", .string(to.text)), ("copied", .number(Int64(report.copiedCount))),
                ("present", .number(Int64(report.presentCount))), ("bytes", .number(Int64(report.byteCount))),
                ("lost", .array(report.damage.map { DamagedEntry($0).json })),
                ("different", .array(report.differingKeys.map { .string($0.text) })),
            ]), or: lines.joined(separator: "\n"))
        if !report.damage.isEmpty { throw ExitCode(.failed) }
        if !report.differingKeys.isEmpty { throw ExitCode(.conflict) }
    }
}

extension StoreURL {
    /// The store, which is not created if it is missing.
    func existing() -> any KeyValueBackend { open(host: .system).requiringExisting }

    /// Returns `false` if there is no store; `true` also for one that cannot be read.
    func exists() async throws -> Bool {
        do throws(BackendError) { _ = try await existing().read(try probe()) } catch {
            return error.kind != .missing
        }
        return true
    }
}

/// Performs `body`; a store that is missing is not one that comes back later.
func finding<Result: Sendable>(
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

/// An entry that cannot be read, for showing.
struct DamagedEntry {
    var key: String?
    var kind = BackendError.Kind.damaged
    var reason: String?

    init(key: String) { self.key = key }

    init(_ error: BackendError) { (key, kind, reason) = (error.key?.text, error.kind, error.message) }

    /// The key, the kind where it is no plain damage, and the reason.
    var line: String {
        let name = key?.onOneLine ?? "?"
        let start = kind == .damaged ? name : "\(name) (\(kind))"
        return reason.map { "\(start): \($0.onOneLine)" } ?? start
    }

    var json: JSON {
        .object([("key", JSON(key)), ("kind", .string("\(kind)")), ("reason", JSON(reason?.onOneLine))])
    }
}

extension String {
    /// All of it, on one line.
    var onOneLine: String { split(whereSeparator: \.isNewline).joined(separator: " ") }
}

/// How far a copy is, on a terminal and nowhere else.
final class CopyProgress {
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
