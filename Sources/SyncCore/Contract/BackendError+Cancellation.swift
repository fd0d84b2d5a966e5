extension BackendError {
    /// Throws ``Kind/cancelled`` if the calling task was cancelled. Every backend checks this before it starts an
    /// operation, while nothing has been touched.
    package static func throwIfCancelled(_ operation: Operation, key: EntryKey? = nil) throws(BackendError) {
        guard Task.isCancelled else { return }
        throw .cancelled(operation, key: key)
    }

    /// An error for an operation that had no effect because the calling task was cancelled; `cause` is the failure
    /// after which it waited to try again.
    package static func cancelled(
        _ operation: Operation, key: EntryKey? = nil, cause: (any Error)? = nil
    ) -> BackendError {
        BackendError(
            .cancelled, operation: operation, key: key, message: "the task was cancelled; nothing was done",
            cause: cause)
    }
}
