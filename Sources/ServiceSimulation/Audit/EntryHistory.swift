/// The writes and deletions of one entry, to check that reads see the last one. Times are virtual, in microseconds.
struct EntryHistory {
    private struct Write {
        /// `nil` for a deletion.
        var value: [UInt8]?
        var arrival: Int64
        /// `nil` while it is unknown whether it was done.
        var completed: Int64?
        var isDone = false
    }

    private var writes: [Int: Write] = [:]
    /// The entity tags that conditional writes have replaced.
    private var replacedTags: Set<String> = []

    mutating func didArrive(_ id: Int, _ value: [UInt8]?, at time: Int64) {
        writes[id] = Write(value: value, arrival: time)
    }

    mutating func didEnd(_ id: Int, isDone: Bool, at time: Int64) {
        writes[id]?.completed = time
        writes[id]?.isDone = isDone
    }

    /// Called when a conditional write was done. Returns `false` if another one has replaced the same version.
    mutating func didReplace(_ tag: String) -> Bool { replacedTags.insert(tag).inserted }

    /// The arrival of the last write that was done; `nil` if there is none.
    var lastDone: Int64? { writes.values.filter(\.isDone).map(\.arrival).max() }

    /// Returns `true` if a read that arrived at `time` may have found `value`: no write was done after it.
    ///
    /// - Parameter value: `nil` if the read found no entry.
    func mayShow(_ value: [UInt8]?, at time: Int64) -> Bool {
        // A write that was refused has written nothing.
        let sources = writes.values.filter { $0.value == value && ($0.isDone || $0.completed == nil) }
        if value != nil, sources.isEmpty { return false }
        // The last instant at which the value may have been written. An entry is absent at the start.
        let latest = sources.map { $0.completed ?? .max }.max() ?? -1
        return !writes.values.contains { write in
            guard write.isDone, let completed = write.completed, completed < time, write.value != value else {
                return false
            }
            return write.arrival > latest
        }
    }
}
