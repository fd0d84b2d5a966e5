public import SyncCore
import Synchronization

/// A wrapper that makes calls fail. A script, a seed or a closure decides which.
///
/// The faults are those of real stores, with correct dispositions, so code that works with this wrapper works over a
/// network. Every item of a batch is a separate call. Signals and evidence are passed on without faults.
///
/// ```swift
/// let flaky = FaultyBackend(MemoryBackend(), plan: .seeded(7, rate: 0.2))
/// let scripted = FaultyBackend(MemoryBackend(), plan: .scripted([nil, .transient, .lostAnswer]))
/// let watching = FaultyBackend(MemoryBackend()) { call in
///     if call.operation == .write { await otherDevice.write() }  // just before ours
///     return nil
/// }
/// ```
public final class FaultyBackend: ForwardingBackend {
    /// A fault of one call.
    public enum Fault: Hashable, Sendable {
        /// The operation is not done; the same call may succeed later.
        case transient
        /// The operation is not done; the same call may succeed after this time.
        case overloaded(retryAfter: Duration)
        /// The operation is not done, and the same call never succeeds.
        case permanent(BackendError.Kind)
        /// The operation is not done; the caller gets an unknown outcome.
        case lostRequest
        /// The operation is done; the caller gets an unknown outcome.
        case lostAnswer
        /// The operation is not done, as if the task had been cancelled.
        case cancelled
    }

    /// A call, as a plan sees it beforehand.
    public struct Call: Hashable, Sendable {
        /// The number of the call, counted from 0 over all operations.
        public let number: Int
        /// The operation.
        public let operation: BackendError.Operation
        /// The key, if the operation concerns one.
        public let key: EntryKey?
    }

    /// A rule that decides which calls fail.
    public struct Plan: Sendable {
        fileprivate let fault: @Sendable (Call) async -> Fault?

        /// Creates a plan that asks `fault` before each call. The closure may perform actions of its own first.
        public init(_ fault: @escaping @Sendable (Call) async -> Fault?) {
            self.fault = fault
        }

        /// A plan that applies these faults to the calls in order. Calls after the last fault succeed.
        public static func scripted(_ faults: [Fault?]) -> Plan {
            Plan { call in call.number < faults.count ? faults[call.number] : nil }
        }

        /// A plan in which each call fails with probability `rate` (0 to 1) with one of `faults`.
        ///
        /// The outcome depends only on the seed and the number of the call.
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

    /// The common numbering of the calls of a backend and of its ``requiringExisting`` form.
    private final class Numbering: Sendable {
        let next = Mutex(0)
    }

    /// The wrapped backend.
    public let base: any KeyValueBackend
    private let plan: Plan
    private let numbering: Numbering

    /// Creates a wrapper in which calls to `base` fail according to `plan`.
    public convenience init(_ base: any KeyValueBackend, plan: Plan) {
        self.init(base, plan: plan, numbering: Numbering())
    }

    private init(_ base: any KeyValueBackend, plan: Plan, numbering: Numbering) {
        self.base = base
        self.plan = plan
        self.numbering = numbering
    }

    /// Creates a wrapper in which calls to `base` fail according to `fault`, which is asked before each call.
    public convenience init(
        _ base: any KeyValueBackend, fault: @escaping @Sendable (Call) async -> Fault?
    ) {
        self.init(base, plan: Plan(fault))
    }

    /// The number of calls so far.
    public var callCount: Int { numbering.next.withLock { $0 } }

    /// `faulty` and the label of the wrapped backend.
    public var label: String { "faulty \(base.label)" }
    /// The ``requiringExisting`` form of the wrapped backend, with the same plan and one numbering for both.
    public var requiringExisting: any KeyValueBackend {
        FaultyBackend(base.requiringExisting, plan: plan, numbering: numbering)
    }

    /// Performs a call, unless the plan lets it fail.
    public func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        let number = numbering.next.withLock { number in
            defer { number += 1 }
            return number
        }
        guard let fault = await plan.fault(Call(number: number, operation: operation, key: key)) else {
            return try await call(base)
        }
        if fault == .lostAnswer { _ = try await call(base) }
        throw fault.error(operation, key: key)
    }
}

extension FaultyBackend.Fault {
    fileprivate func error(_ operation: BackendError.Operation, key: EntryKey?) -> BackendError {
        let (kind, disposition, message): (BackendError.Kind, BackendError.Disposition, String) =
            switch self {
            case .transient: (.unavailable, .transient, "the store is temporarily unavailable")
            case .overloaded: (.unavailable, .transient, "the store is overloaded")
            case .permanent(let kind): (kind, .permanent, "\(kind)")
            case .lostRequest, .lostAnswer: (.unavailable, .outcomeUnknown, "the connection broke")
            case .cancelled: (.cancelled, .permanent, "cancelled")
            }
        let pause: Duration? = if case .overloaded(let retryAfter) = self { retryAfter } else { nil }
        return BackendError(
            kind, operation: operation, key: key, disposition: disposition, message: "injected: \(message)",
            retryAfter: pause)
    }
}
