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
        _ = try await finding(from) { try await source.read(probe()).outcome }
    }

    /// Copies into `target`, which is the store `to` or will be renamed to it.
    func run(into target: any KeyValueBackend) async throws -> StoreCopy.Report {
        let progress = CopyProgress()
        defer { progress.clear() }
        return try await StoreCopy(from: source, to: target, skippingDamage: skipsDamage).run {
            progress.show($0.copiedCount + $0.presentCount)
        }
    }

    /// Makes `target` equal to the source, and applies every change until the process is ended.
    func follow(into target: any KeyValueBackend) async throws {
        var mirror = try await mirrored(in: target)
        try await mirror.follow()
        warn("copied; \(from.text) may be in use, and its changes follow until you interrupt the command")
        let host = HostServices.system
        while true {
            try await mirror.follow()
            try await host.sleep(for: .milliseconds(200))
        }
    }

    /// Makes `target` equal to the source, which nothing may write to any more, and releases it for use.
    func finish(into target: any KeyValueBackend) async throws -> StoreMirror.Report {
        var mirror = try await mirrored(in: target)
        try await mirror.finish()
        return mirror.report
    }

    private func mirrored(in target: any KeyValueBackend) async throws -> StoreMirror {
        var mirror = try await StoreMirror(from: source, to: target)
        guard !mirror.isComplete else { return mirror }
        let progress = CopyProgress()
        defer { progress.clear() }
        progress.total = try await source.keyCount { progress.show($0) }
        try await mirror.copy { progress.show($0.comparedCount) }
        return mirror
    }

    /// Copies into a new store, which appears only when it is complete.
    ///
    /// - Returns: the report, and `false` for `isMade` if no entry is intact, so that no store was created.
    func runIntoNew() async throws -> (report: StoreCopy.Report, isMade: Bool) {
        try await requireSource()
        return try await StagedStore.make(to) { staged in
            let report = try await run(into: staged.store)
            let isMade = report.copiedCount > 0 || report.damage.isEmpty
            // Any folder may be shared by a file-sync tool. Only an entry identifies it as a store.
            if skipsDamage, report.copiedCount == 0, isMade, case .local(.folder, _) = from.place {
                throw Failure(.refused, "\(from.text): the folder has no entries; choose another folder")
            }
            if report.copiedCount == 0, isMade {
                // A write and a deletion create an empty store.
                _ = try await staged.store.write([], to: probe(), if: .any)
                _ = try await staged.store.delete(probe(), if: .any)
            }
            return (report, isMade)
        }
    }

    /// Prints the report of a mirror.
    func show(_ report: StoreMirror.Report, _ output: OutputOptions) throws {
        try output.show(
            [
                "from": .string(from.text), "to": .string(to.text), "compared": .number(report.comparedCount),
                "copied": .number(report.writtenCount), "deleted": .number(report.deletedCount),
                "bytes": .number(report.byteCount),
            ],
            or: "\(to.text): equal to \(from.text), and ready for use; "
                + "\(plural(report.writtenCount, "entry", "entries")) copied, \(report.deletedCount) deleted")
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
            [
                "from": .string(from.text), "to": .string(to.text), "copied": .number(report.copiedCount),
                "present": .number(report.presentCount), "bytes": .number(report.byteCount),
                "lost": .array(report.damage.map { DamagedEntry($0).json }),
                "different": .array(report.differingKeys.map { .string($0.text) }),
            ], or: lines.joined(separator: "\n"))
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
func finding<Result: Sendable>(_ url: StoreURL, _ body: () async throws -> Result) async throws -> Result {
    do { return try await body() } catch let error as BackendError where error.kind == .missing {
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
        ["key": JSON(key), "kind": "\(kind)", "reason": JSON(reason?.onOneLine)]
    }
}

extension String {
    /// The text with its line breaks replaced by spaces.
    var onOneLine: String { split(whereSeparator: \.isNewline).joined(separator: " ") }
}

extension KeyValueBackend {
    /// Counts the keys, by listing them.
    fileprivate func keyCount(onProgress: (Int) -> Void) async throws(BackendError) -> Int {
        var (count, cursor): (Int, EntryKey?) = (0, nil)
        repeat {
            let page = try await list(prefix: "", after: cursor, limit: 10_000).outcome
            count += page.items.count
            onProgress(count)
            cursor = page.next
        } while cursor != nil
        return count
    }
}

/// The progress of a copy, shown only on a terminal.
final class CopyProgress {
    /// The number of items to expect; `nil` if it is unknown.
    var total: Int? { didSet { shown = 0 } }
    /// The name of the items.
    private let noun: String
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var shown = 0

    init(of noun: String = "entries") { self.noun = noun }

    func show(_ count: Int) {
        guard isTerminal, count >= shown + 1_000 else { return }
        shown = count
        FileHandle.standardError.write(Data("\r\u{1B}[K\(text(count))".utf8))
    }

    private func text(_ count: Int) -> String {
        guard let total, total > 0 else { return "\(count) \(noun)" }
        return "\(Self.bar(count, of: total)), \(count) of \(total) \(noun)"
    }

    /// A bar and a percentage.
    static func bar(_ count: Int, of total: Int) -> String {
        let part = min(count, total)
        let bar = String(repeating: "#", count: part * 30 / max(1, total))
        return "[\(bar.padding(toLength: 30, withPad: ".", startingAt: 0))] \(part * 100 / max(1, total)) %"
    }

    func clear() {
        if shown > 0 { FileHandle.standardError.write(Data("\r\u{1B}[K".utf8)) }
    }
}
