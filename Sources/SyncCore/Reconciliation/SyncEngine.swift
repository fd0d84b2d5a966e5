/// Synchronizes documents between two backends: a phone and a server, a laptop and a shared folder, or two servers.
///
/// Both sides are treated alike, except that the local one stores the checkpoints.
///
/// Several engines may use the same stores at once, in one process or in many. Keep an engine instead of creating one
/// for each sync: it remembers the state of the remote and does not fetch unchanged content again. A pure state
/// machine, `Reconciler`, makes the decisions; the engine performs them.
///
/// **A remote without compare-and-swap** (a folder that a file-sync tool shares, a cloud key-value store) keeps the
/// document `KEY` as one entry per replica, `KEY/<replica>`. A replica writes only its own entry, without a
/// precondition, and joins all entries that it reads. For such a remote the engine needs the name of the replica; see
/// ``writing(as:)``. Unreadable entries are reported and do not affect the others. A sync without changes costs one
/// listing. If two processes of one replica sync at the same moment, the older of two states may remain in the
/// replica's entry; the next sync of either process repairs it.
///
/// ```swift
/// let engine = SyncEngine(local: phone, remote: server, merge: LedgerMerge())
/// let report = try await engine.sync(key)
/// ```
public struct SyncEngine<Merge: DocumentMerge>: Sendable {
    private let local: any KeyValueBackend
    private let remote: any KeyValueBackend
    private let merge: Merge
    private let host: HostServices
    private let remoteID: String
    private let maximumAttempts: Int
    private let memory = SyncMemory<Merge>()
    private var replica: String?

    /// Creates an engine between two stores. The local one must support preconditions.
    ///
    /// - Parameters:
    ///   - local: The side that stores the checkpoints.
    ///   - remote: The other side. The engine uses its ``KeyValueBackend/requiringExisting``.
    ///   - merge: The operations on the documents.
    ///   - remoteID: A name that distinguishes the checkpoints of this remote from those of other remotes. The default
    ///     is the remote's label.
    ///   - replica: The name of this replica, for a remote without compare-and-swap; see ``writing(as:)``.
    ///   - host: The timer and the randomness of the pauses between attempts.
    ///   - maximumAttempts: The number of attempts for a document while other writers interfere, 1 or more.
    public init(
        local: any KeyValueBackend, remote: any KeyValueBackend, merge: Merge, remoteID: String? = nil,
        replica: String? = nil, host: HostServices = .system, maximumAttempts: Int = 10
    ) {
        self.local = local
        self.remote = remote.requiringExisting
        self.merge = merge
        self.host = host
        self.remoteID = remoteID ?? remote.label
        self.replica = replica
        self.maximumAttempts = maximumAttempts
    }

    /// Returns a copy of the engine that writes under the name `replica` to a remote without compare-and-swap. Both
    /// engines share their memory of the remote.
    ///
    /// - Parameter replica: A name that no other replica uses and that is the same in all processes of this replica: 1
    ///   or more bytes without a slash, for example 32 hexadecimal digits.
    public func writing(as replica: String) -> SyncEngine {
        var engine = self
        engine.replica = replica
        return engine
    }

    /// Synchronizes the document under `key`.
    ///
    /// - Throws: ``SyncError``. Changes that were already merged and written are kept, and the next sync continues from
    ///   there.
    public func sync(_ key: EntryKey) async throws(SyncError) -> DocumentReport<Merge.Content> {
        try await run(key, from: nil, isDryRun: false)
    }

    /// Synchronizes the document under `key`, of which the caller has just read the local side.
    ///
    /// The local side is read only if another writer has changed it since.
    ///
    /// - Throws: ``SyncError``, as ``sync(_:)`` does.
    package func sync(
        _ key: EntryKey, from held: HeldDocument<Merge.Content>
    ) async throws(SyncError) -> DocumentReport<Merge.Content> {
        try await run(key, from: held, isDryRun: false)
    }

    /// Returns `true` if the local side holds content under `key` that the remote is not known to hold.
    ///
    /// Reads only the local side.
    ///
    /// - Throws: ``SyncError`` if the local side cannot be read.
    public func hasUnsent(_ key: EntryKey) async throws(SyncError) -> Bool {
        let outcome: ReadOutcome
        do { outcome = try await local.read(key).outcome } catch { throw SyncError(.backend(error), side: .local) }
        guard case .found(let entry) = outcome else { return false }
        do {
            let document = try merge.open(entry.value)
            let digest = merge.digest(of: document.content)
            let known = Checkpoints(section: document.localSection)[remoteID]?.contentDigest
            return known == nil ? digest != merge.digest(of: merge.empty) : known != digest
        } catch {
            throw SyncError(.document(error), side: .local)
        }
    }

    /// Reports what ``sync(_:)`` would change, without writing anything.
    ///
    /// - Throws: ``SyncError`` if a side cannot be read.
    public func dryRun(_ key: EntryKey) async throws(SyncError) -> DocumentReport<Merge.Content> {
        try await run(key, from: nil, isDryRun: true)
    }

    private func run(
        _ key: EntryKey, from held: HeldDocument<Merge.Content>?, isDryRun: Bool
    ) async throws(SyncError) -> DocumentReport<Merge.Content> {
        let notes = memory[key]
        var entries = try replicaEntries(of: key, known: notes.entries)
        var reconciler = Reconciler(
            merge: merge, remoteID: remoteID, form: entries == nil ? .oneEntry : .entryPerReplica,
            seen: notes.lastSeen, isDryRun: isDryRun, maximumAttempts: maximumAttempts)
        var effect = reconciler.start(from: held)
        var serverTime: Int64?
        while true {
            switch effect {
            case .readLocal:
                let result = await answer { () throws(BackendError) in try await local.read(key, unless: nil) }
                effect = reconciler.handle(.localRead(result.map(\.outcome)))
            case .readRemote, .writeRemote:
                let event =
                    entries == nil
                    ? await ask(effect, of: key, &serverTime)
                    : await ask(effect, of: &entries, &serverTime)
                effect = reconciler.handle(event)
            case .writeLocal(let bytes, let precondition):
                let result = await answer { () throws(BackendError) in
                    try await local.write(bytes, to: key, if: precondition)
                }
                effect = reconciler.handle(.localWritten(result.map(\.outcome)))
            case .pause(let attempt):
                try await pause(attempt: attempt)
                effect = reconciler.handle(.resumed)
            case .finish(let result):
                memory[key] = SyncMemory.Notes(
                    lastSeen: reconciler.lastSeen, entries: entries?.known ?? notes.entries)
                var report = try result.get()
                report.serverTime = serverTime
                report.unreadable = (entries?.unreadable ?? [:]).sorted { $0.key < $1.key }.map {
                    UnreadableEntry(key: $0.key, reason: $0.value)
                }
                return report
            }
        }
    }

    private func replicaEntries(
        of key: EntryKey, known: [EntryKey: ReplicaEntries<Merge>.Known]
    ) throws(SyncError) -> ReplicaEntries<Merge>? {
        guard !remote.capabilities.compareAndSwap else { return nil }
        guard let replica, !replica.isEmpty, !replica.utf8.contains(UInt8(ascii: "/")) else {
            let error = BackendError(
                .unsupported,
                message: "\(remote.label) cannot write conditionally; pass a replica name without a slash")
            throw SyncError(.backend(error), side: .remote)
        }
        return ReplicaEntries(merge: merge, key: key, replica: replica, known: known)
    }

    /// Performs an effect on a remote with one entry per document.
    private func ask(
        _ effect: Reconciler<Merge>.Effect, of key: EntryKey, _ serverTime: inout Int64?
    ) async -> Reconciler<Merge>.Event {
        switch effect {
        case .writeRemote(let bytes, let precondition):
            let result = await answer { () throws(BackendError) in
                try await remote.write(bytes, to: key, if: precondition)
            }
            return .remoteWritten(outcome(of: result, &serverTime))
        case .readRemote(let version):
            let result = await answer { () throws(BackendError) in try await remote.read(key, unless: version) }
            return .remoteRead(outcome(of: result, &serverTime))
        case .readLocal, .writeLocal, .pause, .finish:
            preconditionFailure("this effect does not concern the remote")
        }
    }

    /// Performs an effect on a remote with one entry per replica.
    private func ask(
        _ effect: Reconciler<Merge>.Effect, of entries: inout ReplicaEntries<Merge>?, _ serverTime: inout Int64?
    ) async -> Reconciler<Merge>.Event {
        guard var machine = entries else { preconditionFailure("the remote has one entry per document") }
        defer { entries = machine }
        var request = machine.begin(effect)
        while true {
            switch request {
            case .list(let prefix, let after):
                let result = await answer { () throws(BackendError) in
                    try await remote.list(prefix: prefix, after: after, limit: 1_000)
                }
                request = machine.handle(.listed(outcome(of: result, &serverTime)))
            case .read(let keys):
                let result = await answer { () throws(BackendError) in
                    try await remote.read(keys.map { ReadRequest($0) })
                }
                request = machine.handle(.read(outcome(of: result, &serverTime)))
            case .write(let bytes, let key):
                let result = await answer { () throws(BackendError) in
                    try await remote.write(bytes, to: key, if: .any)
                }
                request = machine.handle(.written(outcome(of: result, &serverTime)))
            case .answer(let event):
                return event
            }
        }
    }

    /// Returns the outcome of a request to the remote and records the remote's time.
    private func outcome<Outcome: Sendable>(
        of result: Result<Answer<Outcome>, BackendError>, _ serverTime: inout Int64?
    ) -> Result<Outcome, BackendError> {
        if case .success(let answer) = result { serverTime = answer.serverTime ?? serverTime }
        return result.map(\.outcome)
    }

    private func answer<Outcome: Sendable>(
        _ request: () async throws(BackendError) -> Answer<Outcome>
    ) async -> Result<Answer<Outcome>, BackendError> {
        do { return .success(try await request()) } catch { return .failure(error) }
    }

    /// Pauses for a random time of up to 5 ms × 2^attempt, limited to one second, so that competing writers spread out.
    private func pause(attempt: Int) async throws(SyncError) {
        let longest = min(1_000_000, 5_000 << min(attempt, 10))
        var generator = host.generator
        do {
            try await host.sleep(for: .microseconds(Int.random(in: 0...longest, using: &generator)))
        } catch {
            let cancelled = BackendError(.cancelled, message: "the sync was cancelled", cause: error)
            throw SyncError(.backend(cancelled), side: .remote)
        }
    }
}
