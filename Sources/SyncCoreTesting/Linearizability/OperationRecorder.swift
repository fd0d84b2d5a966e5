public import SyncCore
import Synchronization

/// Performs operations on one key for any number of tasks, and records when each was called and answered.
///
/// The tasks may use several objects that have the same store open.
public final class OperationRecorder: Sendable {
    private struct State {
        var moment = 0
        var operations: [RecordedOperation] = []
        var failures: [BackendError] = []
    }

    private let key: EntryKey
    private let state = Mutex(State())

    /// Creates a recorder of operations on `key`.
    public init(key: EntryKey) {
        self.key = key
    }

    /// The operations so far, in the order of their answers. Operations that failed without effect are left out.
    public var operations: [RecordedOperation] { state.withLock { $0.operations } }

    /// The errors of the operations that failed without effect.
    public var failures: [BackendError] { state.withLock { $0.failures } }

    /// Performs `call` through `backend`.
    ///
    /// - Returns: The result; `nil` if the operation failed without effect. A failed read has no effect; for a change
    ///   the disposition of the error decides.
    @discardableResult
    public func perform(
        _ call: RecordedOperation.Call, by task: Int, through backend: any KeyValueBackend
    ) async -> RecordedOperation.Ending? {
        let called = tick()
        do throws(BackendError) {
            let ending = try await ending(of: call, through: backend)
            add(RecordedOperation(task: task, call: call, ending: ending, called: called, answered: tick()))
            return ending
        } catch {
            if call.isChange, error.disposition == .outcomeUnknown {
                add(RecordedOperation(task: task, call: call, ending: .unknown, called: called, answered: .max))
                return .unknown
            }
            state.withLock { $0.failures.append(error) }
            return nil
        }
    }

    private func ending(
        of call: RecordedOperation.Call, through backend: any KeyValueBackend
    ) async throws(BackendError) -> RecordedOperation.Ending {
        switch call {
        case .read(let known): .read(try await backend.read(key, unless: known).outcome)
        case .write(let value, let precondition):
            .changed(try await backend.write(value, to: key, if: precondition).outcome)
        case .delete(let precondition): .changed(try await backend.delete(key, if: precondition).outcome)
        }
    }

    private func tick() -> Int {
        state.withLock { state in
            state.moment += 1
            return state.moment
        }
    }

    private func add(_ operation: RecordedOperation) {
        state.withLock { $0.operations.append(operation) }
    }
}

extension RecordedOperation.Call {
    fileprivate var isChange: Bool {
        if case .read = self { false } else { true }
    }
}
