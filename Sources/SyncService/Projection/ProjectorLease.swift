import EntitlementSync
import SyncCore

/// The lease that makes one server at a time write a projection, under `server/projector`.
///
/// The holder renews the lease. Another server takes it over if it saw no renewal for ``term`` by its own timer, so
/// clocks need not agree. A server that was frozen may still believe that it holds the lease; its transactions fail,
/// because each take-over begins a new epoch in the database.
struct ProjectorLease: Sendable {
    /// The time without a renewal after which a lease is taken over.
    static let term = Duration.seconds(15)
    /// The pause between two renewals.
    static let renewal = Duration.seconds(4)

    private struct Record: Codable, Hashable, Sendable {
        /// The process that holds the lease; `nil` after it was given up.
        var holder: String?
        var epoch: Int64
        /// The number of renewals in this epoch.
        var renewals: Int64
    }

    /// The lease as this process saw it last.
    private struct Sighting: Sendable {
        var record: Record
        var since: Duration
    }

    private let records: RecordStore
    private let id: String
    private let elapsed: @Sendable () -> Duration
    private var sighting: Sighting?
    private var held: Record?
    private var renewed = Duration.zero

    init(_ store: any KeyValueBackend, host: HostServices) {
        records = RecordStore(backend: store)
        (id, elapsed) = (host.randomUUID(), host.stopwatch())
    }

    private static func key() throws(BackendError) -> EntryKey { try EntryKey(KeyScope.serverPrefix + "projector") }

    /// Takes the lease, or keeps it.
    ///
    /// - Parameter latest: The epoch of the database. If it is later than that of the lease, the lease gets a new one.
    /// - Returns: The epoch; `nil` if another server holds the lease.
    mutating func hold(after latest: Int64) async throws(BackendError) -> Int64? {
        let now = elapsed()
        if let held, held.epoch >= latest, now - renewed < Self.renewal { return held.epoch }
        let key = try Self.key()
        let known = try await records.read(key, as: Record.self)
        var next: Record
        if let held, known?.value == held {
            next = held
            next.renewals += 1
            if held.epoch < latest { next.epoch = latest + 1 }
        } else {
            self.held = nil
            if let record = known?.value, record.holder != nil, !isStale(record, now) { return nil }
            next = Record(holder: id, epoch: max(known?.value.epoch ?? 0, latest) + 1, renewals: 0)
        }
        guard try await records.replace(key, with: next, if: known?.version) else {
            held = nil
            return nil
        }
        (held, renewed) = (next, now)
        return next.epoch
    }

    /// Returns `true` if `record` was not renewed during ``term``.
    ///
    /// - Parameter start: The time before the record was read.
    private mutating func isStale(_ record: Record, _ start: Duration) -> Bool {
        if let sighting, sighting.record == record { return start - sighting.since >= Self.term }
        // It may have been renewed while it was read.
        sighting = Sighting(record: record, since: elapsed())
        return false
    }

    /// Gives the lease up, so that another server can take it at once.
    mutating func release() async throws(BackendError) {
        guard var record = held else { return }
        held = nil
        let key = try Self.key()
        guard let known = try await records.read(key, as: Record.self), known.value == record else { return }
        record.holder = nil
        _ = try await records.replace(key, with: record, if: known.version)
    }
}
