import SyncCore

/// The result that a request waits for: an answer, a timeout or the end of the process, whichever comes first.
/// Single-threaded.
final class Reply<Value: Sendable>: @unchecked Sendable {
    private var continuation: UnsafeContinuation<Result<Value, BackendError>, Never>?
    private var result: Result<Value, BackendError>?

    var isResolved: Bool { result != nil }

    func wait() async -> Result<Value, BackendError> {
        await withUnsafeContinuation { continuation in
            if let result { continuation.resume(returning: result) } else { self.continuation = continuation }
        }
    }

    func resolve(_ result: Result<Value, BackendError>) {
        guard self.result == nil else { return }
        self.result = result
        continuation?.resume(returning: result)
        continuation = nil
    }
}
