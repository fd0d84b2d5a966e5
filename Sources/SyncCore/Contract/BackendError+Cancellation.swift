extension BackendError {
    /// Throws ``Kind/cancelled`` when the calling task was cancelled: the check that every backend makes before it
    /// starts, while nothing has been touched yet.
    package static func throwIfCancelled(_ operation: Operation, key: EntryKey? = nil) throws(BackendError) {
        guard Task.isCancelled else { return }
        throw .cancelled(operation, key: key)
    }

    /// The calling task was cancelled and the operation had no effect; `cause` is what it was waiting to overcome.
    package static func cancelled(
        _ operation: Operation, key: EntryKey? = nil, cause: (any Error)? = nil
    ) -> BackendError {
        BackendError(
            .cancelled, operation: operation, key: key, message: "the task was cancelled; nothing was done",
            cause: cause)
    }
}
