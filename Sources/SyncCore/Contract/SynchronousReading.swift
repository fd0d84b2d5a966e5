/// A backend that can answer most reads of one entry synchronously, on the calling thread.
///
/// It saves a server a task switch for its most frequent request. Callers fall back to
/// ``KeyValueBackend/read(_:unless:)``.
package protocol SynchronousReading: KeyValueBackend {
    /// Reads one key without waiting; `nil` if the caller must use ``KeyValueBackend/read(_:unless:)`` because the read
    /// would wait or fail.
    func readSynchronously(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome?
}
