package import SyncCore

extension BackendError {
    /// The error of a store whose request did not get a complete response.
    ///
    /// - Parameter label: The store's label, which opens the message.
    package init(_ error: TransportError, operation: Operation, key: EntryKey?, label: String) {
        let isOutcomeUnknown = error.mayHaveArrived && (operation == .write || operation == .delete)
        let kind: BackendError.Kind =
            switch error.kind {
            case .cancelled: .cancelled
            case .untrusted: .permissionDenied
            case .malformed: .notAStore
            case .tooLarge: .tooLarge
            case .unreachable, .interrupted, .timedOut, .other: .unavailable
            }
        self.init(
            kind, operation: operation, key: key, disposition: isOutcomeUnknown ? .outcomeUnknown : nil,
            message: "\(label): \(error.message)", cause: error)
    }
}
