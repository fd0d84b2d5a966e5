/// Moves a store that is in use to another place: makes the target equal to the source, and keeps it equal.
///
/// Unlike ``StoreCopy``, it overwrites entries of the target that differ, and deletes those that the source does not
/// have. The target must be empty at first, and nothing else may write to it. The target has an entry named
/// `server/copy` until ``finish()``. It tells a server that the copy is incomplete, and the next copy where to
/// continue.
///
/// ```swift
/// var mirror = try await StoreMirror(from: old, to: new)
/// try await mirror.copy()
/// while !isServerStopped { try await mirror.follow() }
/// try await mirror.finish()
/// ```
public struct StoreMirror: Sendable {
    private let source: any KeyValueBackend
    private let target: any KeyValueBackend
    /// The version of the mark in the target.
    private var markVersion: EntryVersion?
    /// The position in the source up to which its changes were applied; `nil` before the copy begins, or if the source
    /// has never changed.
    private var position: ChangeCursor?

    /// True if all entries were copied, so that only changes are missing.
    public private(set) var isComplete = false
    /// The progress so far.
    public private(set) var report = Report()

    /// The progress of a mirror.
    public struct Report: Hashable, Sendable {
        /// The number of entries that were compared.
        public var comparedCount = 0
        /// The number of entries written to the target.
        public var writtenCount = 0
        /// The number of entries deleted from the target.
        public var deletedCount = 0
        /// The size in bytes of the written values.
        public var byteCount = 0
    }

    /// The key of the entry that marks an incomplete copy.
    package static var mark: EntryKey {
        get throws(BackendError) {
            do { return try EntryKey("server/copy") } catch { throw BackendError(.invalidKey, message: "\(error)") }
        }
    }

    /// The number of entries that are compared at a time.
    private static let pageSize = 500

    /// Marks the target, or continues the copy that was interrupted.
    ///
    /// - Throws: ``BackendError/Kind/unsupported`` for a source without a sequence of changes, and for a target without
    ///   compare-and-swap; ``BackendError/Kind/permissionDenied`` for a target with entries but without a mark, and for
    ///   a source that is the target of an unfinished copy.
    public init(from source: any KeyValueBackend, to target: any KeyValueBackend) async throws(BackendError) {
        (self.source, self.target) = (source, target)
        guard source.capabilities.changes else {
            throw BackendError(
                .unsupported, operation: .changes,
                message: "\(source.label) keeps no sequence of changes, so a copy cannot follow it")
        }
        guard target.capabilities.compareAndSwap else {
            throw BackendError(
                .unsupported, operation: .write,
                message: "\(target.label) checks no preconditions, so a copy cannot own it")
        }
        let mark = try Self.mark
        if case .found = try await source.read(mark).outcome {
            throw BackendError(
                .permissionDenied, operation: .read,
                message: "\(source.label) is itself the target of an unfinished copy; finish that one first")
        }
        switch try await target.read(mark).outcome {
        case .found(let entry):
            markVersion = entry.version
            try await resume(at: entry.value)
        case .absent, .unchanged:
            guard try await target.list(prefix: "", after: nil, limit: 1).outcome.items.isEmpty else {
                throw BackendError(
                    .permissionDenied, operation: .write,
                    message: "\(target.label) has entries that no unfinished copy has written; name an empty store")
            }
            try await save(nil)
        }
    }

    /// Continues at the position in the mark, if the source still recognizes it.
    private mutating func resume(at text: [UInt8]) async throws(BackendError) {
        guard let cursor = Self.cursor(text) else { return }
        do throws(BackendError) {
            _ = try await source.changes(since: cursor, limit: 1)
            (position, isComplete) = (cursor, true)
        } catch {
            guard error.kind == .cursorExpired else { throw error }
        }
    }

    /// Copies all entries that differ, and deletes from the target what the source lacks. Does nothing if a previous
    /// copy was complete. Applies the changes of the source meanwhile, because it forgets old ones.
    ///
    /// - Parameter onProgress: Called with the report so far after each batch of entries.
    /// - Throws: The first error of either store. What was copied until then stays.
    public mutating func copy(onProgress: (Report) -> Void = { _ in }) async throws(BackendError) {
        guard !isComplete else { return }
        position = try await source.latestCursor().outcome
        try await removeSurplus()
        try await source.forEachPage(limit: Self.pageSize) { (page) async throws(BackendError) in
            try await equalize(page.items.map(\.key))
            try await applyChanges()
            onProgress(report)
        }
        isComplete = true
        try await save(position)
    }

    /// Applies the changes of the source since the last call.
    ///
    /// - Returns: The number of changed keys.
    /// - Throws: ``BackendError/Kind/cursorExpired`` if the source was restored, or changed faster than it was
    ///   followed; copy again then.
    @discardableResult
    public mutating func follow() async throws(BackendError) -> Int {
        precondition(isComplete, "copy() must be complete first")
        return try await applyChanges()
    }

    /// Applies the changes of the source since ``position``, and returns the number of changed keys.
    @discardableResult
    private mutating func applyChanges() async throws(BackendError) -> Int {
        var count = 0
        while true {
            let page = try await source.changes(since: position, limit: Self.pageSize).outcome
            try await equalize(page.changes.map(\.key))
            count += page.changes.count
            if page.cursor != position {
                position = page.cursor
                // A position in the mark states that the copy is complete.
                if isComplete { try await save(position) }
            }
            if !page.hasMore { return count }
        }
    }

    /// Applies the last changes and removes the mark. Nothing may write to the source any more.
    public mutating func finish() async throws(BackendError) {
        try await follow()
        do throws(BackendError) {
            let outcome = try await target.delete(Self.mark, if: markPrecondition).outcome
            guard case .deleted = outcome else { throw Self.rival(target) }
        } catch {
            // The answer may have been lost after the mark was removed.
            guard error.disposition == .outcomeUnknown, case .absent = try await target.read(Self.mark).outcome
            else { throw error }
        }
        markVersion = nil
    }

    /// Deletes the entries that only the target has, which an interrupted copy has left.
    private mutating func removeSurplus() async throws(BackendError) {
        try await target.forEachPage(limit: Self.pageSize) { (page) async throws(BackendError) in
            try await equalize(page.items.map(\.key))
            try await applyChanges()
        }
    }

    /// Makes the entries of `keys` in the target equal to those of the source.
    private mutating func equalize(_ keys: [EntryKey]) async throws(BackendError) {
        let mark = try Self.mark
        let keys = keys.filter { $0 != mark }
        guard !keys.isEmpty else { return }
        let requests = keys.map { ReadRequest($0) }
        let wanted = try await source.read(requests).outcome
        let present = try await target.read(requests).outcome
        var writes: [WriteRequest] = []
        for (key, (wanted, present)) in zip(keys, zip(wanted, present)) {
            let (wanted, present) = (try wanted.get().entry, try present.get().entry)
            guard wanted?.value != present?.value else { continue }
            writes.append(
                WriteRequest(key, value: wanted?.value, if: present.map { .matches($0.version) } ?? .absent))
        }
        report.comparedCount += keys.count
        guard !writes.isEmpty else { return }
        for (write, result) in zip(writes, try await target.write(writes).outcome) {
            switch try result.get() {
            case .written:
                report.writtenCount += 1
                report.byteCount += write.value?.count ?? 0
            case .deleted: report.deletedCount += 1
            case .conflict: throw Self.rival(target)
            }
        }
    }

    private var markPrecondition: Precondition { markVersion.map { .matches($0) } ?? .absent }

    /// Writes the mark, which also detects another copy to the same target.
    private mutating func save(_ cursor: ChangeCursor?) async throws(BackendError) {
        let text = cursor.map { "\($0.sequence) \($0.tag)" } ?? ""
        let outcome = try await target.write(Array(text.utf8), to: Self.mark, if: markPrecondition).outcome
        guard case .written(let version) = outcome else { throw Self.rival(target) }
        markVersion = version
    }

    private static func cursor(_ text: [UInt8]) -> ChangeCursor? {
        let numbers = String(decoding: text, as: UTF8.self).split(separator: " ").compactMap { UInt64($0) }
        return numbers.count == 2 ? ChangeCursor(sequence: numbers[0], tag: numbers[1]) : nil
    }

    private static func rival(_ target: any KeyValueBackend) -> BackendError {
        BackendError(
            .other, operation: .write,
            message: "\(target.label): another process writes to the target of this copy; stop it, and repeat the copy")
    }
}

extension ReadOutcome {
    /// The entry; `nil` if the key is absent.
    fileprivate var entry: Entry? { if case .found(let entry) = self { entry } else { nil } }
}
