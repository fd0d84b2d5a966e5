/// A store that can answer most reads of one entry on the caller's thread, without waiting.
///
/// It spares a server the switch of tasks for its most frequent request. The caller can always use
/// ``KeyValueBackend/read(_:unless:)`` instead.
package protocol SynchronousReading: KeyValueBackend {
    /// The outcome of ``KeyValueBackend/read(_:unless:)``; `nil` when that must be called because it waits or fails.
    func readSynchronously(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome?
}
