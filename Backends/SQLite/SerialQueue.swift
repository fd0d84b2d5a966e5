import Dispatch
import SyncCore

/// A serial queue on which a store blocks for the disk, so that no thread of the concurrency pool has to.
final class SerialQueue: Sendable {
    private let queue: DispatchQueue

    init(label: String) {
        queue = DispatchQueue(label: label, qos: .userInitiated)
    }

    /// Starts `work` after all work that was started earlier.
    func start(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

    /// Performs `work` and returns its result.
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
