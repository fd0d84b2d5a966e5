public import SyncCore

/// Whether what concurrent tasks saw of one key can be explained by an order in which the operations happened one
/// after the other, each at some moment between its call and its answer.
///
/// The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993) with the states that were
/// tried already remembered, as Lowe describes ("Testing for linearizability", 2017). The model is a register with
/// versions. An operation of unknown outcome may be placed anywhere after its call, or left out.
///
/// ```swift
/// let recorder = OperationRecorder(key: key)
/// // … tasks call recorder.perform(…) …
/// let verdict = Linearizability.check(recorder.operations)
/// ```
public enum Linearizability {
    /// At most so many operations make a history that can be checked.
    public static let maximumOperationCount = 64

    /// What a check found.
    public enum Verdict: Hashable, Sendable {
        /// The operations happened as if in this order (positions in the history); those of unknown outcome that did
        /// not happen are missing.
        case linearizable(order: [Int])
        /// No order explains what was seen. One line says how far the longest attempt came.
        case notLinearizable(String)
    }

    /// Looks for an order that explains `history`.
    ///
    /// - Parameters:
    ///   - history: operations on one key, in any order; ``maximumOperationCount`` at most.
    ///   - initial: what the key held before, `nil` for nothing.
    public static func check(_ history: [RecordedOperation], from initial: Entry? = nil) -> Verdict {
        precondition(
            history.count <= maximumOperationCount, "a history has at most \(maximumOperationCount) operations")
        var search = OrderSearch(history, initial: initial)
        return search.run()
    }
}

/// What the key holds at a moment of the order that is tried.
private struct Register: Hashable {
    /// `nil` when the key holds nothing.
    var value: [UInt8]?
    /// `nil` where the version of the write that put the value there was never answered.
    var version: EntryVersion?

    static let empty = Register(value: nil, version: nil)
}

/// A depth-first search for an order, over sets of operations that have been placed.
private struct OrderSearch {
    private struct Position: Hashable {
        var placed: UInt64
        var register: Register
    }

    private let history: [RecordedOperation]
    private let initial: Register
    /// The operations that must be in the order: all that were answered.
    private let required: UInt64
    /// The versions of which the writer is known.
    private let writtenVersions: Set<EntryVersion>
    private var tried: Set<Position> = []
    private var order: [Int] = []
    private var longest: [Int] = []
    private var longestRegister: Register

    init(_ history: [RecordedOperation], initial entry: Entry?) {
        self.history = history
        initial = Register(value: entry?.value, version: entry?.version)
        longestRegister = initial
        var required: UInt64 = 0
        var versions: Set<EntryVersion> = Set([entry?.version].compactMap { $0 })
        for (index, operation) in history.enumerated() {
            if operation.ending != .unknown { required |= 1 << UInt64(index) }
            if case .changed(.written(let version)) = operation.ending { versions.insert(version) }
        }
        self.required = required
        writtenVersions = versions
    }

    mutating func run() -> Linearizability.Verdict {
        search(placed: 0, register: initial) ? .linearizable(order: order) : .notLinearizable(explanation)
    }

    private mutating func search(placed: UInt64, register: Register) -> Bool {
        if placed & required == required { return true }
        guard tried.insert(Position(placed: placed, register: register)).inserted else { return false }
        for index in candidates(placed) {
            guard let next = register.after(history[index], mayBe: mayBeUnanswered) else { continue }
            order.append(index)
            if order.count > longest.count {
                longest = order
                longestRegister = next
            }
            if search(placed: placed | 1 << UInt64(index), register: next) { return true }
            order.removeLast()
        }
        return false
    }

    /// The operations that can be next: those called before any other one that is missing was answered.
    private func candidates(_ placed: UInt64) -> [Int] {
        let missing = history.indices.filter { placed & 1 << UInt64($0) == 0 }
        let bound = missing.filter { history[$0].ending != .unknown }.map { history[$0].answered }.min() ?? .max
        return missing.filter { history[$0].called < bound }
    }

    /// Whether a write that was never answered may have got this version: one that no other write got.
    private func mayBeUnanswered(_ version: EntryVersion) -> Bool { !writtenVersions.contains(version) }

    private var explanation: String {
        let placed = longest.reduce(into: UInt64(0)) { $0 |= 1 << UInt64($1) }
        let stuck = candidates(placed).map { "\(history[$0])" }.joined(separator: "; ")
        let before = longest.suffix(3).map { "\(history[$0])" }.joined(separator: "; ")
        let holds = longestRegister.value.map { value in
            "\(brief(value)) at \(longestRegister.version.map(\.description) ?? "a version that was never answered")"
        }
        return "no order explains what was seen; after \(longest.count) of \(history.count) operations"
            + (before.isEmpty ? "" : ", the last of them (\(before)),")
            + " the key holds \(holds ?? "nothing"), and none of these can be next: \(stuck)"
    }
}

extension Register {
    /// What the key holds after `operation`, or `nil` where it cannot have ended so.
    fileprivate func after(_ operation: RecordedOperation, mayBe: (EntryVersion) -> Bool) -> Register? {
        switch (operation.call, operation.ending) {
        case (.read(let known), .read(let outcome)):
            return afterRead(outcome, unless: known, mayBe: mayBe)
        case (.read, .unknown):
            return self
        case (.write(let value, let precondition), .changed(.written(let version))):
            return allows(precondition, mayBe: mayBe) ? Register(value: value, version: version) : nil
        case (.write(let value, let precondition), .unknown):
            return allows(precondition, mayBe: mayBe) ? Register(value: value, version: nil) : nil
        case (.delete(let precondition), .changed(.deleted)), (.delete(let precondition), .unknown):
            return allows(precondition, mayBe: mayBe) ? .empty : nil
        case (.write(_, let precondition), .changed(.conflict(let entry))),
            (.delete(let precondition), .changed(.conflict(let entry))):
            guard !precondition.holds(for: entry?.version) else { return nil }
            guard let entry else { return value == nil ? self : nil }
            return holding(entry, mayBe: mayBe)
        case (.read, .changed), (.write, .read), (.write, .changed(.deleted)), (.delete, .read),
            (.delete, .changed(.written)):
            return nil
        }
    }

    private func afterRead(
        _ outcome: ReadOutcome, unless known: EntryVersion?, mayBe: (EntryVersion) -> Bool
    ) -> Register? {
        switch outcome {
        case .absent: value == nil ? self : nil
        case .found(let entry): entry.version == known ? nil : holding(entry, mayBe: mayBe)
        case .unchanged:
            if let known, let value { holding(Entry(value: value, version: known), mayBe: mayBe) } else { nil }
        }
    }

    /// The register, if what it holds can be `entry`; from then on the version is known.
    private func holding(_ entry: Entry, mayBe: (EntryVersion) -> Bool) -> Register? {
        guard value == entry.value, has(entry.version, mayBe: mayBe) else { return nil }
        return Register(value: entry.value, version: entry.version)
    }

    private func has(_ version: EntryVersion, mayBe: (EntryVersion) -> Bool) -> Bool {
        guard value != nil else { return false }
        return self.version.map { $0 == version } ?? mayBe(version)
    }

    private func allows(_ precondition: Precondition, mayBe: (EntryVersion) -> Bool) -> Bool {
        switch precondition {
        case .any: true
        case .absent: value == nil
        case .matches(let version): has(version, mayBe: mayBe)
        }
    }
}
