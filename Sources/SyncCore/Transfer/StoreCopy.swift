/// Copies all entries from one store to another, between any two kinds of backend.
///
/// A copy can be interrupted at any time and started again: entries that already exist in the target are compared and
/// left alone. Values are copied byte for byte; the target assigns its own versions.
///
/// ```swift
/// let report = try await StoreCopy(from: .file("/var/lib/old"), to: .sqlite("/var/lib/new.sqlite")).run()
/// ```
///
/// Writes that other clients make to the source during the copy may be missed. Switch the clients to the target first,
/// or copy again afterwards.
public struct StoreCopy: Sendable {
    /// The store to copy from.
    public var source: any KeyValueBackend
    /// The store to copy to.
    public var target: any KeyValueBackend
    /// True if entries of the source that cannot be read are skipped and reported. Otherwise the first of them ends the
    /// copy.
    public var skipsDamage: Bool

    /// The progress of a copy.
    public struct Report: Sendable {
        /// The number of entries written to the target.
        public var copiedCount = 0
        /// The number of entries that the target already had with the same value.
        public var presentCount = 0
        /// The size in bytes of the values of both together.
        public var byteCount = 0
        /// Keys under which the target has another value, in ascending order. Nothing was written there.
        public var differingKeys: [EntryKey] = []
        /// The errors of unreadable entries in the source, if those are skipped.
        public var damage: [BackendError] = []

        /// Creates an empty report.
        package init() {}
    }

    /// The number of entries that are read and written at a time.
    static let pageSize = 100

    /// Creates a copy; ``run(prefix:onProgress:)`` starts it.
    public init(from source: any KeyValueBackend, to target: any KeyValueBackend, skippingDamage: Bool = false) {
        self.source = source
        self.target = target
        skipsDamage = skippingDamage
    }

    /// Runs the copy.
    ///
    /// - Parameters:
    ///   - prefix: The beginning of the keys to copy; empty for all.
    ///   - onProgress: Called with the report so far after each batch of entries.
    /// - Throws: The first error of either store. Entries copied until then stay.
    public func run(
        prefix: String = "", onProgress: (Report) -> Void = { _ in }
    ) async throws(BackendError) -> Report {
        var report = Report()
        var walk = StoreWalk(source, prefix: prefix, limit: Self.pageSize)
        while let step = try await walk.next() {
            if let error = step.damage { try addDamage(error, to: &report) }
            guard !step.items.isEmpty else { continue }
            var values: [(key: EntryKey, value: [UInt8])] = []
            for (key, result) in try await walk.read(step.items) {
                switch result {
                case .success(.found(let entry)): values.append((key, entry.value))
                // Deleted after it was listed.
                case .success(.absent), .success(.unchanged): break
                case .failure(let error): try addDamage(error, to: &report)
                }
            }
            try await put(values, &report)
            onProgress(report)
        }
        return report
    }

    private func addDamage(_ error: BackendError, to report: inout Report) throws(BackendError) {
        guard skipsDamage, error.concernsSingleEntry else { throw error }
        report.damage.append(error)
    }

    /// Writes the entries that the target lacks.
    private func put(_ values: [(key: EntryKey, value: [UInt8])], _ report: inout Report) async throws(BackendError) {
        let present = try await target.read(values.map { ReadRequest($0.key) }).outcome
        var missing: [(key: EntryKey, value: [UInt8])] = []
        for (item, result) in zip(values, present) {
            switch try result.get() {
            case .found(let entry): count(entry, insteadOf: item, in: &report)
            case .absent, .unchanged: missing.append(item)
            }
        }
        guard !missing.isEmpty else { return }
        // If the target cannot check preconditions, it must have no other writers during the copy.
        let precondition: Precondition = target.capabilities.compareAndSwap ? .absent : .any
        let results = try await target.write(
            missing.map { WriteRequest($0.key, value: $0.value, if: precondition) }
        ).outcome
        for (item, result) in zip(missing, results) {
            switch try result.get() {
            case .written:
                report.copiedCount += 1
                report.byteCount += item.value.count
            case .conflict(let current?): count(current, insteadOf: item, in: &report)
            case .conflict(nil), .deleted:
                throw BackendError(
                    .other, operation: .write, key: item.key,
                    message: "\(target.label) reported a conflict without an entry, or a deletion, for a write")
            }
        }
    }

    private func count(_ entry: Entry, insteadOf item: (key: EntryKey, value: [UInt8]), in report: inout Report) {
        guard entry.value == item.value else { return report.differingKeys.append(item.key) }
        report.presentCount += 1
        report.byteCount += item.value.count
    }
}
