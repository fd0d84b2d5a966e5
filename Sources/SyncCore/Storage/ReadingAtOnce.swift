/// A store that can answer most reads of one entry on the caller's thread, without waiting for anybody.
///
/// It spares a server the change of tasks for its most frequent request. Whoever uses it can always ask
/// ``KeyValueBackend/read(_:unless:)`` instead.
package protocol ReadingAtOnce: KeyValueBackend {
    /// What ``KeyValueBackend/read(_:unless:)`` would answer; `nil` where that has to be asked, because it has to wait,
    /// fails, or has more to say.
    func readAtOnce(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome?
}
