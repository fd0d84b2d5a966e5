package import SyncCore
import SyncCoreTesting

/// A primary with a synchronous standby, which behaves as PostgreSQL does. Single-threaded.
///
/// A write locks its key, reserves the number of its change, and goes to the log of the primary and from there to that
/// of the standby. Only then does it become visible, and only then is it acknowledged. Log order is commit order, which
/// is the order of the change feed. The standby applies its log later, and nothing reads from it.
///
/// When the primary is killed, the standby applies the rest of its log and takes over. All writes under way end with an
/// unknown outcome: those in the log of the standby survive. Another standby follows from a copy of the new primary.
/// For a while after its return the former primary receives some requests, and refuses them.
///
/// In a switchover nothing is lost: the primary refuses new writes, the standby applies all of its log and takes over.
/// The former primary stays up, and the connections to it stay open. The answer to the first request over such a
/// connection shows that the server is read-only. The connection is then closed, and the request goes to the new
/// primary.
package final class SimulatedCluster: KeyValueBackend, @unchecked Sendable {
    package let label = "simulated:cluster"
    package let capabilities: Capabilities
    private let setup: ClusterSetup
    private let host: HostServices
    private let scheduler: Scheduler
    private let random: RandomSource
    package private(set) var primary: MemoryBackend
    private(set) var standby: MemoryBackend
    /// The primary that was killed, while it runs again and some clients take it for the primary.
    private var former: MemoryBackend?
    /// The open connections to a former primary that became read-only.
    private var readOnlyConnections: Set<Int> = []
    /// The number of connections, which take turns.
    private static let connectionCount = 4
    /// True while no node accepts requests.
    package private(set) var isPromoting = false
    /// The number of failovers, and of times that the contents were replaced.
    private var epoch = 0
    /// True once faults are over.
    private var isCalm = false
    /// All unanswered writes, in the order of their requests.
    private var underWay: [PendingWrite] = []
    /// The writes to each locked key. The first one holds the lock.
    private var rows: [EntryKey: [PendingWrite]] = [:]
    /// The writes in the log of the primary that are not visible, in commit order.
    private var flushed: [PendingWrite] = []
    /// The writes in the log of the standby that it has not applied, in commit order.
    private var unapplied: [PendingWrite] = []
    private var lastNumber = 0
    private var highestVisibleNumber = 0
    private var requestCount = 0
    private var killCount = 0
    /// The times at which the last write in the log reaches each stage. No later write overtakes it.
    private var (lastReceived, lastConfirmed, lastApplied) = (Int64(0), Int64(0), Int64(0))
    /// The number of the write during which the primary is killed, and the duration of the promotion.
    private var scheduledKill: (number: Int, promotion: Int64)?
    /// Called when a write becomes visible.
    package var didCommit: (EntryKey, Entry?) -> Void = { _, _ in }
    /// Called when the roles of nodes change, with a description.
    package var didMove: (String) -> Void = { _ in }
    package var reach: (Mark) -> Void = { _ in }

    package init(
        _ setup: ClusterSetup, primary: MemoryBackend, host: HostServices, scheduler: Scheduler, random: RandomSource
    ) {
        (self.setup, self.primary, self.host, self.scheduler) = (setup, primary, host, scheduler)
        self.random = random
        standby = MemoryBackend(host: host)
        capabilities = primary.capabilities
    }

    package func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try admit(.read, key)
        return try await primary.read(key, unless: knownVersion)
    }

    package func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        var generator = host.generator
        let entry = Entry(value: value, version: .random(using: &generator))
        return try await change(PendingWrite(key, entry, tag: host.randomBits(), if: precondition))
    }

    package func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<
        WriteOutcome
    > {
        try await change(PendingWrite(key, nil, tag: host.randomBits(), if: precondition))
    }

    package func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage>
    {
        try admit(.list, nil)
        return try await primary.list(prefix: prefix, after: cursor, limit: limit)
    }

    package func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try checkServing(.changes, nil)
        return try await primary.changes(since: cursor, prefix: prefix, limit: limit)
    }

    package func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try checkServing(.changes, nil)
        return try await primary.latestCursor()
    }
}

// MARK: writes

extension SimulatedCluster {
    private func change(_ write: PendingWrite) async throws(BackendError) -> Answer<WriteOutcome> {
        try admit(write.operation, write.key)
        underWay.append(write)
        rows[write.key, default: []].append(write)
        if rows[write.key]?.count == 1 { begin(write) }
        return try await write.reply.wait().get()
    }

    /// Begins the transaction of a write that has locked its key.
    private func begin(_ write: PendingWrite) {
        if let conflict = conflict(of: write) { return end(write, .success(Answer(conflict))) }
        lastNumber += 1
        write.number = lastNumber
        write.stage = .open
        if !isCalm {
            var random = random.generator(for: 0, lastNumber, .cluster)
            write.times = CommitTimes(setup, random: &random)
            if let kill = scheduledKill, lastNumber >= kill.number {
                scheduledKill = nil
                let epoch = epoch
                after(random.pick(0...write.times.total)) { cluster in
                    if cluster.epoch == epoch, !cluster.isCalm { cluster.kill(promotion: kill.promotion) }
                }
            }
        }
        after(write.times.flush) { $0.flush(write) }
    }

    /// The conflict of a write with the visible entry of its key; `nil` if its precondition holds.
    private func conflict(of write: PendingWrite) -> WriteOutcome? {
        var current: Entry?
        if case .found(let entry)? = primary.readSynchronously(write.key, unless: nil) { current = entry }
        return write.precondition.holds(for: current?.version) ? nil : .conflict(current)
    }

    /// Writes to the log of the primary, which determines the order of commits.
    private func flush(_ write: PendingWrite) {
        guard write.stage == .open else { return }
        // Only a client outside of the run ignores the lock on a key.
        if let conflict = conflict(of: write) { return end(write, .success(Answer(conflict))) }
        write.stage = .flushed
        flushed.append(write)
        lastReceived = max(lastReceived, scheduler.now + write.times.transfer)
        after(lastReceived - scheduler.now) { $0.receive(write) }
    }

    /// Writes to the log of the standby.
    private func receive(_ write: PendingWrite) {
        guard write.stage == .flushed else { return }
        write.stage = .received
        unapplied.append(write)
        lastConfirmed = max(lastConfirmed, scheduler.now + write.times.confirmation)
        after(lastConfirmed - scheduler.now) { $0.commit(write) }
        lastApplied = max(lastApplied, scheduler.now + write.times.lag)
        after(lastApplied - scheduler.now) { $0.apply(upTo: write) }
    }

    /// Makes a write visible and acknowledges it.
    private func commit(_ write: PendingWrite) {
        guard write.stage == .received else { return }
        if write.number < highestVisibleNumber { reach(.slowCommitOvertaken) }
        highestVisibleNumber = max(highestVisibleNumber, write.number)
        primary.replay(write.key, write.entry, tag: write.tag)
        didCommit(write.key, write.entry)
        flushed.removeAll { $0 === write }
        end(write, .success(Answer(write.entry.map { .written($0.version) } ?? .deleted)))
    }

    /// Lets the standby apply its log up to a write.
    private func apply(upTo write: PendingWrite) {
        guard let index = unapplied.firstIndex(where: { $0 === write }) else { return }
        for write in unapplied[...index] { standby.replay(write.key, write.entry, tag: write.tag) }
        unapplied.removeSubrange(...index)
    }

    /// Answers a write, and lets the next one to its key begin.
    private func end(_ write: PendingWrite, _ result: Result<Answer<WriteOutcome>, BackendError>) {
        write.stage = .over
        underWay.removeAll { $0 === write }
        write.reply.resolve(result)
        guard var row = rows[write.key] else { return }
        row.removeFirst()
        rows[write.key] = row.isEmpty ? nil : row
        if let next = row.first { begin(next) }
    }

    private func after(_ microseconds: Int64, _ action: @escaping (SimulatedCluster) -> Void) {
        scheduler.at(scheduler.now + microseconds) { [self] in action(self) }
    }
}

// MARK: failover

extension SimulatedCluster {
    /// Kills the primary: at once for 0, otherwise while the write with this number from here is under way.
    ///
    /// - Parameter promotion: The duration of the promotion in microseconds.
    package func failOver(afterWrites count: Int, promotion: Int64) {
        if count > 0 { scheduledKill = (lastNumber + count, promotion) } else { kill(promotion: promotion) }
    }

    private func kill(promotion: Int64) {
        guard !isPromoting else { return }
        let survivors = flushed.filter { $0.stage == .received }
        didFailOver(survivors)
        let killed = primary
        promoteStandby()
        for write in survivors { didCommit(write.key, write.entry) }
        abandonWrites("the primary was killed")
        finishPromotion(after: promotion)
        killCount += 1
        var random = random.generator(for: 1, killCount, .cluster)
        let (pause, stay) = (random.pick(0...60_000_000), random.pick(1_000_000...3_600_000_000))
        let epoch = epoch
        after(pause) { if $0.epoch == epoch, !$0.isCalm { $0.former = killed } }
        after(pause + stay) { if $0.former === killed { $0.former = nil } }
    }

    /// Makes the primary read-only, and promotes the standby. The connections to the former primary stay open.
    ///
    /// - Parameter promotion: The duration of the promotion in microseconds.
    package func switchOver(promotion: Int64) {
        guard !isPromoting else { return }
        settle()
        let epoch = epoch
        // Their answers arrive before the promotion begins.
        after(1) { if $0.epoch == epoch, !$0.isCalm { $0.retirePrimary(promotion: promotion) } }
    }

    private func retirePrimary(promotion: Int64) {
        didMove("has a read-only primary: \(underWay.count) writes are refused")
        promoteStandby()
        abandonWrites("the server is read-only", .transient)
        finishPromotion(after: promotion)
        readOnlyConnections = Set(0..<Self.connectionCount)
    }

    /// Makes the standby the primary, and a copy of it the new standby.
    private func promoteStandby() {
        if let last = unapplied.last { apply(upTo: last) }
        primary = standby
        standby = MemoryBackend(host: host)
        standby.putBack(primary.backup())
    }

    private func finishPromotion(after duration: Int64) {
        isPromoting = true
        let epoch = epoch
        after(duration) { cluster in
            guard cluster.epoch == epoch, cluster.isPromoting else { return }
            cluster.isPromoting = false
            cluster.didMove("is served by the former standby")
        }
    }

    private func didFailOver(_ survivors: [PendingWrite]) {
        let begun = underWay.filter { $0.stage != .waiting }
        if !begun.isEmpty { reach(.failoverDuringWrite) }
        for _ in survivors { reach(.unknownSurvivedFailover) }
        for _ in 0..<(begun.count - survivors.count) { reach(.unknownLostInFailover) }
        didMove("loses its primary: of \(begun.count) writes under way \(survivors.count) survive")
    }

    /// Ends all writes under way. By default their outcome is unknown.
    private func abandonWrites(_ reason: String, _ disposition: BackendError.Disposition = .outcomeUnknown) {
        let writes = underWay
        (underWay, rows, flushed, unapplied, scheduledKill) = ([], [:], [], [], nil)
        (former, readOnlyConnections, epoch) = (nil, [], epoch + 1)
        for write in writes {
            write.stage = .over
            write.reply.resolve(.failure(.unavailable(write.operation, write.key, reason, disposition)))
        }
    }

    /// Refuses a request that the cluster cannot serve, or that went to the former primary.
    private func admit(_ operation: BackendError.Operation, _ key: EntryKey?) throws(BackendError) {
        try checkServing(operation, key)
        requestCount += 1
        if readOnlyConnections.remove(requestCount % Self.connectionCount) != nil { reach(.readOnlyConnectionClosed) }
        guard former != nil else { return }
        var random = random.generator(for: 2, requestCount, .cluster)
        guard random.happens(perMille: 300) else { return }
        reach(.formerPrimaryRefused)
        throw .unavailable(operation, key, "this node is no longer the primary")
    }

    private func checkServing(_ operation: BackendError.Operation, _ key: EntryKey?) throws(BackendError) {
        guard isPromoting else { return }
        throw .unavailable(operation, key, "a standby is being promoted")
    }

    /// Ends all faults.
    package func heal() {
        (isCalm, isPromoting, former, scheduledKill) = (true, false, nil, nil)
    }
}

// MARK: changes from outside

extension SimulatedCluster: ReplaceableStore {
    func backup() -> MemoryBackend.Backup { primary.backup() }

    /// Replaces the contents of both nodes. Writes under way end with an unknown outcome and are lost.
    func putBack(_ backup: MemoryBackend.Backup) {
        abandonWrites("the contents were replaced")
        isPromoting = false
        primary.putBack(backup)
        standby.putBack(backup)
    }

    /// Makes all writes in the log of the primary visible.
    package func settle() {
        for write in flushed {
            receive(write)
            commit(write)
        }
    }

    /// Writes an entry at once, as a client outside of the run does. The log must be settled.
    func put(_ value: [UInt8]?, under key: EntryKey) -> EntryVersion? {
        var generator = host.generator
        let entry = value.map { Entry(value: $0, version: .random(using: &generator)) }
        let write = PendingWrite(key, entry, tag: host.randomBits(), if: .any)
        primary.replay(key, entry, tag: write.tag)
        unapplied.append(write)
        apply(upTo: write)
        return entry?.version
    }
}

extension BackendError {
    fileprivate static func unavailable(
        _ operation: Operation, _ key: EntryKey?, _ reason: String, _ disposition: Disposition = .transient
    ) -> BackendError {
        BackendError(
            .unavailable, operation: operation, key: key, disposition: disposition, message: "simulated: \(reason)")
    }
}
