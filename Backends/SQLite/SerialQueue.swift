import Dispatch
import SyncCore

/// A thread's worth of work, one piece after the other: where a store blocks for the disk, so that no task's thread
/// has to.
final class SerialQueue: Sendable {
    private let queue: DispatchQueue

    init(label: String) {
        queue = DispatchQueue(label: label, qos: .userInitiated)
    }

    /// Does `work` after everything that was handed in before.
    func start(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

    /// Does `work` and answers its result.
    func run<Result: Sendable>(
        _ work: @escaping @Sendable () throws(BackendError) -> Result
    ) async throws(BackendError) -> Result {
        let result = await withCheckedContinuation {
            (continuation: CheckedContinuation<Swift.Result<Result, BackendError>, Never>) in
            queue.async {
                do throws(BackendError) {
                    continuation.resume(returning: .success(try work()))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }
}
