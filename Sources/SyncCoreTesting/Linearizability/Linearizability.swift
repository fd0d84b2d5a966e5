public import SyncCore

/// Checks that concurrent operations on one key are linearizable: a sequential order explains them in which each
/// operation takes effect at some moment between its call and its answer.
///
/// The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993) with memoised states, as
/// described by Lowe ("Testing for linearizability", 2017). The model is a register with versions. An operation of
/// unknown outcome may be placed anywhere after its call, or left out.
///
/// ```swift
/// let recorder = OperationRecorder(key: key)
/// // … tasks call recorder.perform(…) …
/// let verdict = Linearizability.check(recorder.operations)
/// ```
public enum Linearizability {
    /// The maximum number of operations in a history that can be checked.
    public static let maximumOperationCount = 64

    /// The result of a check.
    public enum Verdict: Hashable, Sendable {
        /// The operations are explained by this order (positions in the history). Operations of unknown outcome that
        /// did not happen are not part of it.
        case linearizable(order: [Int])
        /// No order explains the results. One line describes the longest partial order.
        case notLinearizable(String)
    }

    /// Searches for an order that explains `history`.
    ///
    /// - Parameters:
    ///   - history: Operations on one key, in any order; at most ``maximumOperationCount``.
    ///   - initial: The entry before the first operation; `nil` for an absent key.
    public static func check(_ history: [RecordedOperation], from initial: Entry? = nil) -> Verdict {
        precondition(
            history.count <= maximumOperationCount, "a history must have at most \(maximumOperationCount) operations")
        var search = OrderSearch(history, initial: initial)
        return search.run()
    }
}

/// The state of the key at one point of a candidate order.
private struct Register: Hashable {
    /// `nil` if the key is absent.
    var value: [UInt8]?
    /// `nil` if the version is unknown, because the write of this value was never acknowledged.
    var version: EntryVersion?

    static let empty = Register(value: nil, version: nil)
}

/// A depth-first search for an order, over sets of placed operations.
private struct OrderSearch {
    private struct Position: Hashable {
        var placed: UInt64
        var register: Register
    }

    private let history: [RecordedOperation]
    private let initial: Register
    /// The operations that must be part of the order: all that were answered.
    private let required: UInt64
    /// The versions whose write is known.
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

    /// The operations that can be next: those that were called before any other remaining operation was answered.
    private func candidates(_ placed: UInt64) -> [Int] {
        let missing = history.indices.filter { placed & 1 << UInt64($0) == 0 }
        let bound = missing.filter { history[$0].ending != .unknown }.map { history[$0].answered }.min() ?? .max
        return missing.filter { history[$0].called < bound }
    }

    /// Returns `true` if an unanswered write may have received this version, because no answered write did.
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
    /// Returns the state after `operation`, or `nil` if its result is impossible in this state.
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

    /// Returns the register with the version of `entry` if it can hold that entry, otherwise `nil`.
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
