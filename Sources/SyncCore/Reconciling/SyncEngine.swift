/// Makes documents the same in two backends: phone and server, laptop and shared folder, two servers. Neither side is
/// special but for the checkpoints, which stand in the local one.
///
/// Several engines may work on the same stores at once, in one process or in many. The reconciler decides; this shell
/// performs.
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

    /// An engine between two stores, both of which must honour preconditions.
    ///
    /// - Parameters:
    ///   - local: the side that keeps the checkpoints.
    ///   - remote: the other side.
    ///   - merge: how documents are joined.
    ///   - remoteID: tells this remote's checkpoints from those of others; by default the remote's label.
    ///   - host: the timer and the randomness of pauses between attempts.
    ///   - maximumAttempts: how often a document is tried when others keep writing, 1 or more.
    public init(
        local: any KeyValueBackend, remote: any KeyValueBackend, merge: Merge, remoteID: String? = nil,
        host: HostServices = .system, maximumAttempts: Int = 10
    ) {
        self.local = local
        self.remote = remote
        self.merge = merge
        self.host = host
        self.remoteID = remoteID ?? remote.label
        self.maximumAttempts = maximumAttempts
    }

    /// Makes the document under `key` the same on both sides.
    ///
    /// - Throws: ``SyncError``. Whatever was merged and written before stays, and the next sync goes on from there.
    public func sync(_ key: EntryKey) async throws(SyncError) -> DocumentReport<Merge.Content> {
        try await run(key, isDryRun: false)
    }

    /// What ``sync(_:)`` would change, without writing anything.
    public func dryRun(_ key: EntryKey) async throws(SyncError) -> DocumentReport<Merge.Content> {
        try await run(key, isDryRun: true)
    }

    private func run(_ key: EntryKey, isDryRun: Bool) async throws(SyncError) -> DocumentReport<Merge.Content> {
        var reconciler = Reconciler(
            merge: merge, remoteID: remoteID, isDryRun: isDryRun, maximumAttempts: maximumAttempts)
        var effect = reconciler.start()
        var serverTime: Int64?
        while true {
            switch effect {
            case .readLocal:
                let result = await answer { () throws(BackendError) in try await local.read(key, unless: nil) }
                effect = reconciler.handle(.localRead(result.map(\.outcome)))
            case .readRemote(let version):
                let result = await answer { () throws(BackendError) in try await remote.read(key, unless: version) }
                serverTime = (try? result.get())?.serverTime ?? serverTime
                effect = reconciler.handle(.remoteRead(result.map(\.outcome)))
            case .writeRemote(let bytes, let precondition):
                let result = await answer { () throws(BackendError) in
                    try await remote.write(bytes, to: key, if: precondition)
                }
                serverTime = (try? result.get())?.serverTime ?? serverTime
                effect = reconciler.handle(.remoteWritten(result.map(\.outcome)))
            case .writeLocal(let bytes, let precondition):
                let result = await answer { () throws(BackendError) in
                    try await local.write(bytes, to: key, if: precondition)
                }
                effect = reconciler.handle(.localWritten(result.map(\.outcome)))
            case .pause(let attempt):
                try await pause(attempt: attempt)
                effect = reconciler.handle(.resumed)
            case .finish(let result):
                var report = try result.get()
                report.serverTime = serverTime
                return report
            }
        }
    }

    private func answer<Outcome: Sendable>(
        _ request: () async throws(BackendError) -> Answer<Outcome>
    ) async -> Result<Answer<Outcome>, BackendError> {
        do { return .success(try await request()) } catch { return .failure(error) }
    }

    /// Full jitter up to 5 ms × 2^attempt, at most a second: rivals that met once do not meet again.
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
