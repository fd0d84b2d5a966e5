import Entitlements
import ArgumentParser
import Foundation
import SyncCore

/// Copies all entries of a store to another and reports the result.
struct StoreTransfer {
    let from: StoreURL
    let to: StoreURL
    /// The backend that reads the store `from`.
    let source: any KeyValueBackend
    /// `true` if unreadable entries are listed and skipped.
    let skipsDamage: Bool

    init(from: StoreURL, to: StoreURL, source: (any KeyValueBackend)? = nil, skippingDamage: Bool) throws(Failure) {
        try from.refuseOverlap(with: to)
        (self.from, self.to) = (from, to)
        self.source = source ?? from.existing()
        skipsDamage = skippingDamage
    }

    /// Throws if there is no source, so that no target is created. Damaged entries are reported when they are reached.
    func requireSource() async throws {
        _ = try await finding(from) { () async throws(BackendError) in
            try await source.read(try probe()).outcome
        }
    }

    /// Copies into `target`, which is the store `to` or will be renamed to it.
    func run(into target: any KeyValueBackend) async throws -> StoreCopy.Report {
        let progress = CopyProgress()
        defer { progress.clear() }
        return try await StoreCopy(from: source, to: target, skippingDamage: skipsDamage).run {
            progress.show($0.copiedCount + $0.presentCount)
        }
    }

    /// Copies into a new store, which appears only when it is complete.
    ///
    /// - Returns: the report, and `false` for `isMade` if no entry is intact, so that no store was created.
    func runIntoNew() async throws -> (report: StoreCopy.Report, isMade: Bool) {
        try await requireSource()
        var report = StoreCopy.Report()
        var isMade = false
        try await StagedStore.make(to) { staged in
            report = try await run(into: staged.store)
            isMade = report.copiedCount > 0 || report.damage.isEmpty
            // Any folder may be shared by a file-sync tool. Only an entry identifies it as a store.
            if skipsDamage, report.copiedCount == 0, isMade, case .folder = from.place {
                throw Failure(.refused, "\(from.text): the folder has no entries; choose another folder")
            }
            if report.copiedCount == 0, isMade { try await makeEmpty(staged.store) }
            return isMade
        }
        return (report, isMade)
    }

    /// Creates an empty store, with a write and a deletion.
    private func makeEmpty(_ store: any KeyValueBackend) async throws {
        _ = try await store.write([], to: try probe(), if: .any)
        _ = try await store.delete(try probe(), if: .any)
    }

    /// Prints the report.
    ///
    /// - Throws: exit code 1 if entries were lost, otherwise 5 if the target has other values for some keys.
    func show(_ report: StoreCopy.Report, isMade: Bool = true, _ output: OutputOptions) throws {
        var lines = ["\(to.text): \(plural(report.copiedCount, "entry", "entries")) copied"]
        if report.presentCount > 0 { lines[0] += ", \(report.presentCount) already present" }
        if !isMade { lines = ["\(to.text) was not created: no entry is intact"] }
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
    /// A backend of the store that does not create it if it is missing.
    func existing() -> any KeyValueBackend { open(host: .system).requiringExisting }

    /// Returns `false` if there is no store; `true` also for one that cannot be read.
    func exists() async throws -> Bool {
        do throws(BackendError) { _ = try await existing().read(try probe()) } catch {
            return error.kind != .missing
        }
        return true
    }
}

/// Performs `body`, and reports a missing store as not found.
func finding<Result: Sendable>(
    _ url: StoreURL, _ body: () async throws(BackendError) -> Result
) async throws -> Result {
    do throws(BackendError) {
        return try await body()
    } catch {
        guard error.kind == .missing else { throw error }
        throw Failure(.notFound, "there is no store at \(url.text.singleLine)")
    }
}

/// An unused key, read to check that a store exists.
private func probe() throws(BackendError) -> EntryKey {
    do { return try EntryKey("store-check") } catch { throw BackendError(.invalidKey, message: "\(error)") }
}

/// An unreadable entry, for output.
struct DamagedEntry {
    var key: String?
    var kind = BackendError.Kind.damaged
    var reason: String?

    init(key: String) { self.key = key }

    init(_ error: BackendError) { (key, kind, reason) = (error.key?.text, error.kind, error.message) }

    /// The key, the kind of the error unless it is damage, and the reason.
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
    /// The text with its line breaks replaced by spaces.
    var onOneLine: String { split(whereSeparator: \.isNewline).joined(separator: " ") }
}

/// The progress of a copy, shown only on a terminal.
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
