public import SyncCore
import Synchronization

/// A store that fails as told: by a script, by a seed, or by a closure that sees each call.
///
/// The faults are those that a real store has, with true dispositions, so whatever holds over this must hold over a
/// network. Every item of a batch is a call of its own.
///
/// ```swift
/// let flaky = FaultyBackend(MemoryBackend(), plan: .seeded(7, rate: 0.2))
/// let scripted = FaultyBackend(MemoryBackend(), plan: .scripted([nil, .transient, .lostAnswer]))
/// let watching = FaultyBackend(MemoryBackend()) { call in
///     if call.operation == .write { await otherDevice.write() }  // just before ours
///     return nil
/// }
/// ```
public final class FaultyBackend: KeyValueBackend {
    /// What goes wrong with one call.
    public enum Fault: Hashable, Sendable {
        /// Not done; the same call may succeed later.
        case transient
        /// Not done, and it never will be.
        case permanent(BackendError.Kind)
        /// Not done; nobody knows.
        case lostRequest
        /// Done; nobody knows.
        case lostAnswer
        /// Not done, as if the task had been cancelled.
        case cancelled
    }

    /// One call, as a plan sees it before it is made.
    public struct Call: Hashable, Sendable {
        /// Counted from 0 over all operations.
        public let number: Int
        /// What is asked.
        public let operation: BackendError.Operation
        /// About which key, where it is about one.
        public let key: EntryKey?
    }

    /// Decides which calls fail.
    public struct Plan: Sendable {
        fileprivate let fault: @Sendable (Call) async -> Fault?

        /// A plan that asks `fault` before each call; it may do something of its own first.
        public init(_ fault: @escaping @Sendable (Call) async -> Fault?) {
            self.fault = fault
        }

        /// The calls fail like this, in order; those after the last succeed.
        public static func scripted(_ faults: [Fault?]) -> Plan {
            Plan { call in call.number < faults.count ? faults[call.number] : nil }
        }

        /// Each call fails with probability `rate` (0 to 1) in one of the ways of `faults`.
        ///
        /// Which call fails how depends only on the seed and the call's number.
        public static func seeded(
            _ seed: UInt64, rate: Double, faults: [Fault] = [.transient, .lostRequest, .lostAnswer]
        ) -> Plan {
            Plan { call in
                var generator = SeededGenerator(seed: seed &+ UInt64(call.number) &* 0xD134_2543_DE82_EF95)
                guard Double.random(in: 0..<1, using: &generator) < rate else { return nil }
                return faults.randomElement(using: &generator)
            }
        }
    }

    /// Numbers the calls of the store and of its remote form in one sequence.
    private final class Numbering: Sendable {
        let next = Mutex(0)
    }

    private let wrapped: any KeyValueBackend
    private let plan: Plan
    private let numbering: Numbering

    /// Lets the calls to `wrapped` fail as `plan` says.
    public init(_ wrapped: any KeyValueBackend, plan: Plan) {
        self.wrapped = wrapped
        self.plan = plan
        numbering = Numbering()
    }

    private init(_ wrapped: any KeyValueBackend, plan: Plan, numbering: Numbering) {
        self.wrapped = wrapped
        self.plan = plan
        self.numbering = numbering
    }

    /// Lets the calls to `wrapped` fail as `fault` says, which is asked before each.
    public convenience init(
        _ wrapped: any KeyValueBackend, fault: @escaping @Sendable (Call) async -> Fault?
    ) {
        self.init(wrapped, plan: Plan(fault))
    }

    /// How many calls there were.
    public var callCount: Int { numbering.next.withLock { $0 } }

    /// Those of the wrapped store.
    public var capabilities: Capabilities { wrapped.capabilities }
    /// `faulty` and the label of the wrapped store.
    public var label: String { "faulty \(wrapped.label)" }
    /// The wrapped store's remote form, which fails by the same plan; its calls are numbered with these.
    public var requiringExisting: any KeyValueBackend {
        FaultyBackend(wrapped.requiringExisting, plan: plan, numbering: numbering)
    }

    /// Reads one key, unless the plan says otherwise.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try await failing(.read, key) { () async throws(BackendError) in
            try await wrapped.read(key, unless: knownVersion)
        }
    }

    /// Writes one key, unless the plan says otherwise.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await failing(.write, key) { () async throws(BackendError) in
            try await wrapped.write(value, to: key, if: precondition)
        }
    }

    /// Deletes one key, unless the plan says otherwise.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await failing(.delete, key) { () async throws(BackendError) in
            try await wrapped.delete(key, if: precondition)
        }
    }

    /// Lists a page, unless the plan says otherwise.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try await failing(.list, nil) { () async throws(BackendError) in
            try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
        }
    }

    /// Asks what changed, unless the plan says otherwise.
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await failing(.changes, nil) { () async throws(BackendError) in
            try await wrapped.changes(since: cursor, limit: limit)
        }
    }

    /// The signals of the wrapped store.
    public func signals() -> AsyncStream<Void> { wrapped.signals() }

    private func failing<Outcome>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ body: () async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        let number = numbering.next.withLock { number in
            defer { number += 1 }
            return number
        }
        guard let fault = await plan.fault(Call(number: number, operation: operation, key: key)) else {
            return try await body()
        }
        if fault == .lostAnswer { _ = try await body() }
        throw fault.error(operation, key: key)
    }
}

extension FaultyBackend.Fault {
    fileprivate func error(_ operation: BackendError.Operation, key: EntryKey?) -> BackendError {
        switch self {
        case .transient:
            BackendError(
                .unavailable, operation: operation, key: key, disposition: .transient,
                message: "injected: the store is away for a moment")
        case .permanent(let kind):
            BackendError(
                kind, operation: operation, key: key, disposition: .permanent, message: "injected: \(kind)")
        case .lostRequest, .lostAnswer:
            BackendError(
                .unavailable, operation: operation, key: key, disposition: .outcomeUnknown,
                message: "injected: the connection broke")
        case .cancelled:
            BackendError(.cancelled, operation: operation, key: key, message: "injected: cancelled")
        }
    }
}
