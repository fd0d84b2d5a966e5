#if Observed
internal import Metrics
internal import SyncCore
internal import Synchronization

/// The metrics of one store. Each is created once, because creating a metric takes longer than a read.
final class Meters: Sendable {
    private struct Name: Hashable {
        var operation: ObservedOperation
        var outcome: String
    }

    private let store: String
    private let timers = Mutex<[Name: Metrics.Timer]>([:])
    private let items = Mutex<[Name: Counter]>([:])
    private let bytesRead: Counter
    private let bytesWritten: Counter

    init(store: String) {
        self.store = store
        bytesRead = Counter(
            label: "entitlementsync_storage_bytes", dimensions: [("store", store), ("direction", "read")])
        bytesWritten = Counter(
            label: "entitlementsync_storage_bytes", dimensions: [("store", store), ("direction", "written")])
    }

    func time(_ operation: ObservedOperation, _ outcome: String, _ duration: Duration) {
        let name = Name(operation: operation, outcome: outcome)
        let timer = timers.withLock { timers in
            if let known = timers[name] { return known }
            let timer = Metrics.Timer(
                label: "entitlementsync_storage_request_duration", dimensions: dimensions(of: name))
            timers[name] = timer
            return timer
        }
        timer.recordNanoseconds(Int64(clamping: Int128(duration.attoseconds / 1_000_000_000)))
    }

    func count(_ operation: ObservedOperation, _ outcome: String) {
        let name = Name(operation: operation, outcome: outcome)
        let counter = items.withLock { items in
            if let known = items[name] { return known }
            let counter = Counter(label: "entitlementsync_storage_items", dimensions: dimensions(of: name))
            items[name] = counter
            return counter
        }
        counter.increment()
    }

    func didRead(_ outcome: ReadOutcome) {
        if case .found(let entry) = outcome { bytesRead.increment(by: entry.value.count) }
    }

    func didWrite(_ value: [UInt8]?, _ outcome: WriteOutcome) {
        switch outcome {
        case .written: if let value { bytesWritten.increment(by: value.count) }
        case .conflict(let current?): bytesRead.increment(by: current.value.count)
        case .conflict(nil), .deleted: break
        }
    }

    private func dimensions(of name: Name) -> [(String, String)] {
        [("store", store), ("operation", name.operation.rawValue), ("outcome", name.outcome)]
    }
}
#endif
