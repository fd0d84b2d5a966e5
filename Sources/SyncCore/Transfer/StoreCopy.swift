/// Copies everything from one store to another, of whatever kinds they are.
///
/// It may be interrupted at any moment and simply called again: what is there already is compared and left. Values
/// arrive byte for byte; versions are the target's own, as it makes them.
///
/// ```swift
/// let report = try await StoreCopy(from: .file("/var/lib/old"), to: .sqlite("/var/lib/new.sqlite")).run()
/// ```
///
/// What others write into the source meanwhile may be missing: let them use the target first, or copy once more.
public struct StoreCopy: Sendable {
    /// Where everything is.
    public var source: any KeyValueBackend
    /// Where it is copied to.
    public var target: any KeyValueBackend
    /// Whether entries of the source that cannot be read are left out, and named in the report, instead of ending the
    /// copy.
    public var skipsDamage: Bool

    /// What was copied so far.
    public struct Report: Sendable {
        /// How many entries were written to the target.
        public var copiedCount = 0
        /// How many the target had already, with the same value.
        public var presentCount = 0
        /// How many bytes the values of both have together.
        public var byteCount = 0
        /// Keys under which the target has something else, ascending: nothing was written there.
        public var differingKeys: [EntryKey] = []
        /// What of the source could not be read, where that is skipped.
        public var damage: [BackendError] = []

        /// An empty report.
        public init() {}
    }

    /// How many entries are on their way at a time.
    static let pageSize = 100

    /// A copy that has not begun.
    public init(from source: any KeyValueBackend, to target: any KeyValueBackend, skippingDamage: Bool = false) {
        self.source = source
        self.target = target
        skipsDamage = skippingDamage
    }

    /// Copies.
    ///
    /// - Parameters:
    ///   - prefix: only keys that begin so; empty for all.
    ///   - onProgress: told now and then what was copied so far.
    /// - Throws: the first error of either store. What was copied until then stays.
    public func run(
        prefix: String = "", onProgress: (Report) -> Void = { _ in }
    ) async throws(BackendError) -> Report {
        var report = Report()
        var walk = StoreWalk(source, prefix: prefix, limit: Self.pageSize)
        while let step = try await walk.next() {
            if let error = step.damage { try note(error, in: &report) }
            guard !step.items.isEmpty else { continue }
            var values: [(key: EntryKey, value: [UInt8])] = []
            for (key, result) in try await walk.read(step.items) {
                switch result {
                case .success(.found(let entry)): values.append((key, entry.value))
                // Deleted since it was listed.
                case .success(.absent), .success(.unchanged): break
                case .failure(let error): try note(error, in: &report)
                }
            }
            try await put(values, &report)
            onProgress(report)
        }
        return report
    }

    private func note(_ error: BackendError, in report: inout Report) throws(BackendError) {
        guard skipsDamage, error.isOfTheEntry else { throw error }
        report.damage.append(error)
    }

    /// Writes what the target lacks.
    private func put(_ values: [(key: EntryKey, value: [UInt8])], _ report: inout Report) async throws(BackendError) {
        let present = try await target.read(values.map { ReadRequest($0.key) }).outcome
        var missing: [(key: EntryKey, value: [UInt8])] = []
        for (item, result) in zip(values, present) {
            switch try result.get() {
            case .found(let entry): note(entry, insteadOf: item, in: &report)
            case .absent, .unchanged: missing.append(item)
            }
        }
        guard !missing.isEmpty else { return }
        // Where nothing can be conditional, nobody else may write to the target meanwhile.
        let precondition: Precondition = target.capabilities.compareAndSwap ? .absent : .any
        let results = try await target.write(
            missing.map { WriteRequest($0.key, value: $0.value, if: precondition) }
        ).outcome
        for (item, result) in zip(missing, results) {
            switch try result.get() {
            case .written:
                report.copiedCount += 1
                report.byteCount += item.value.count
            case .conflict(let current?): note(current, insteadOf: item, in: &report)
            case .conflict(nil), .deleted:
                throw BackendError(
                    .other, operation: .write, key: item.key,
                    message: "\(target.label) answered a write of an absent key as if something stood against it")
            }
        }
    }

    private func note(_ entry: Entry, insteadOf item: (key: EntryKey, value: [UInt8]), in report: inout Report) {
        guard entry.value == item.value else { return report.differingKeys.append(item.key) }
        report.presentCount += 1
        report.byteCount += item.value.count
    }
}
