public import Entitlements
public import SyncCore
import Synchronization

/// What a sync did, or in a dry run would do.
public struct SyncReport: Sendable {
    /// Facts that came from the remote and that this device did not have.
    public var received: [Fact]
    /// Whether the remote lacked something that this device has.
    public var didSend: Bool
    /// Entitlements whose access changed by it.
    public var accessChanges: [AccessChange]
    /// What was not a plain union: one transaction id with two contents, of which the stronger counts.
    public var conflicts: [Conflict]
    /// How often a write met somebody else's and was merged.
    public var collisions: Int
    /// What the remote holds of other devices and could not be read, by key; all else was merged. Only a remote that
    /// keeps an entry for each device has such parts.
    public var unreadable: [UnreadableEntry]
}

/// What a restore brought back.
public struct RestoreReport: Sendable {
    /// Purchases that this device did not know, in ascending order of date.
    public var purchases: [Purchase]
    /// All that holds afterwards.
    public var snapshot: Snapshot
    /// What the sync underneath did.
    public var sync: SyncReport
}

extension EntitlementStore {
    /// Makes this device and the remote hold the same facts.
    ///
    /// Safe to repeat, to interrupt and to run on many devices at once.
    ///
    /// - Throws: ``EntitlementError`` of kind `noRemote`, `signInNeeded`, `sync` (what was recorded is safe on this
    ///   device), `storage` or `damaged`.
    @discardableResult
    public func sync() async throws(EntitlementError) -> SyncReport {
        try await sync(session, isDryRun: false)
    }

    /// What ``sync()`` would do, without writing anything on either side.
    ///
    /// - Throws: as ``sync()``.
    public func syncDryRun() async throws(EntitlementError) -> SyncReport {
        try await sync(session, isDryRun: true)
    }

    /// Brings back what the account bought: syncs, and tells what is new.
    ///
    /// Subscriptions and unlocks come back on any device; units of consumables do under `ConsumableScope.shared`.
    ///
    /// - Throws: as ``sync()``.
    @discardableResult
    public func restore() async throws(EntitlementError) -> RestoreReport {
        let session = session
        let report = try await sync(session, isDryRun: false)
        let purchases = report.received.compactMap { if case .purchase(let purchase) = $0 { purchase } else { nil } }
        return RestoreReport(
            purchases: purchases.sorted { ($0.date, $0.transaction) < ($1.date, $1.transaction) },
            snapshot: try await snapshot(of: try await session.ledgers.current(), in: session), sync: report)
    }

    func sync(_ session: AccountSession, isDryRun: Bool) async throws(EntitlementError) -> SyncReport {
        guard let engine else { throw EntitlementError(.noRemote, "there is no remote to sync with") }
        guard !session.account.isAnonymous else {
            throw EntitlementError(.signInNeeded, "only an account is synced, and nobody is signed in")
        }
        // So that a contact of another process is not taken for older than ours.
        try await clock.load()
        let before = try await session.ledgers.current()
        let snapshotBefore = try await snapshot(of: before, in: session)
        let report = try await reconcile(engine, for: session, isDryRun: isDryRun)
        if report.content.isErased {
            if !isDryRun { try await learnOfErasure(of: session) }
            throw .erased(session.account)
        }
        let decisions = try await decisions(for: session, beyond: before.decisions, isDryRun: isDryRun)
        let contradictions = Contradiction.between(
            report.localContent, report.arrivedContent ?? Ledger(), noticedAt: now, after: before.facts.latestTime)
        let after: Snapshot
        if isDryRun {
            let facts = Facts(
                account: report.content, device: before.device.ledger,
                server: decisions?.ledger ?? before.decisions.ledger,
                remote: before.remote.map { _ in report.content })
            let replay = Replay(facts, catalog: catalog, environment: environment)
            after = replay.snapshot(at: snapshotBefore.at, context: AccessContext())
        } else {
            if let decisions { try await session.ledgers.note(decisions) }
            try await log(contradictions, in: session)
            // Nothing was written there where the remote answered "unchanged": it holds what this device holds.
            var held = report.remoteContent ?? report.content
            // What cannot be read now was read before, and is still there as far as anyone knows.
            if !report.unreadable.isEmpty, let known = before.remote?.ledger { held = held.joined(with: known) }
            try await session.ledgers.note(remote: held)
            // What could not be read may be what this device misses.
            if report.unreadable.isEmpty { try await noteMeeting(for: session) }
            after = try await snapshot(of: try await tell(session), in: session)
        }
        return SyncReport(
            received: report.received.map { Fact($0) }, didSend: report.remoteGains,
            accessChanges: AccessChange.between(snapshotBefore, after),
            conflicts: contradictions.map(Conflict.contradiction), collisions: report.conflicts,
            unreadable: report.unreadable)
    }

    /// What the account's server has decided since this device heard of it. Where that cannot be read, all else that
    /// the sync brought is kept and told.
    private func decisions(for session: AccountSession, beyond known: VersionedLedger, isDryRun: Bool)
        async throws(EntitlementError) -> Decisions?
    {
        do throws(EntitlementError) {
            return try await newDecisions(for: session, beyond: known)
        } catch {
            if !isDryRun {
                try await noteMeeting(for: session)
                await tell(of: [], in: session)
            }
            throw error
        }
    }

    /// The most contradictions that are noted.
    private static let longestLog = 1_000

    /// Notes what merging dropped, in the ledger that stays on this device.
    private func log(_ contradictions: [Contradiction], in session: AccountSession) async throws(EntitlementError) {
        // The log is for people, who read no more than this; a rival who goes on contradicting fills no ledger.
        let known = try await session.ledgers.current().facts.contradictions.count
        guard !contradictions.isEmpty, known < Self.longestLog else { return }
        _ = try await session.ledgers.append(to: .device) { _ in contradictions.map(Fact.contradiction) }
    }

    /// The conflict log of this device: what merging dropped, what the account's server decided about purchases, and
    /// what devices that did not know of each other overspent.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func conflicts() async throws(EntitlementError) -> [Conflict] {
        try await session.ledgers.current().replay.conflicts(at: now)
    }

    private func reconcile(_ engine: SyncEngine<LedgerMerge>, for session: AccountSession, isDryRun: Bool)
        async throws(EntitlementError) -> DocumentReport<Ledger>
    {
        do throws(SyncError) {
            // A dry run writes nothing, so it needs no name to write under, and makes none.
            if isDryRun { return try await engine.writing(as: "nobody").dryRun(session.keys.ledger) }
        } catch {
            throw EntitlementError(error)
        }
        var engine = engine
        if remote?.capabilities.compareAndSwap == false {
            engine = engine.writing(as: "\(try await session.ledgers.replica())")
        }
        do throws(SyncError) {
            return try await engine.sync(session.keys.ledger)
        } catch {
            if error.hasReceived { try await noteMeeting(for: session) }
            // Some of it may have been saved before the failure.
            await tell(of: [], in: session)
            throw EntitlementError(error)
        }
    }

    /// Whether the facts at hand are the account's, as far as anyone can know: there is no remote, or it was met. What
    /// nobody bought is on no remote.
    func hasMetRemote(for session: AccountSession) async throws(EntitlementError) -> Bool {
        guard let remote, !session.account.isAnonymous, !session.hasMet.withLock({ $0 }) else { return true }
        do {
            guard case .found(let entry) = try await local.read(session.keys.knownRemotes).outcome else { return false }
            let met = Self.knownRemotes(in: entry).contains(Self.line(naming: remote))
            if met { session.hasMet.withLock { $0 = true } }
            return met
        } catch {
            throw EntitlementError(error)
        }
    }

    /// Remembers that the remote was met, also where it held nothing: from then on "not purchased" is an answer.
    private func noteMeeting(for session: AccountSession) async throws(EntitlementError) {
        guard let remote, try await !hasMetRemote(for: session) else { return }
        let key = session.keys.knownRemotes
        do {
            for _ in 0..<10 {
                var labels: [String] = []
                var precondition = Precondition.absent
                if case .found(let entry) = try await local.read(key).outcome {
                    labels = Self.knownRemotes(in: entry)
                    precondition = .matches(entry.version)
                }
                labels.append(Self.line(naming: remote))
                let value = Array(labels.joined(separator: "\n").utf8)
                if case .written = try await local.write(value, to: key, if: precondition).outcome { break }
            }
        } catch let error where error.disposition == .outcomeUnknown {
            // Only a hint: written or not, the next sync looks again.
        } catch {
            throw EntitlementError(error)
        }
        session.hasMet.withLock { $0 = true }
    }

    /// A remote's label as one line, whatever its path has in it.
    private static func line(naming remote: any KeyValueBackend) -> String {
        String(remote.label.map { $0.isNewline ? " " : $0 })
    }

    /// Labels of remotes, one a line.
    private static func knownRemotes(in entry: Entry) -> [String] {
        String(decoding: entry.value, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}

extension DocumentReport<Ledger> {
    /// The records that came from the remote, were not there before, and stood their ground in the union.
    fileprivate var received: [Record] {
        guard let arrivedContent else { return [] }
        let arrived = Set(arrivedContent.records)
        let mine = Set(localContent.records)
        return content.records.filter { arrived.contains($0) && !mine.contains($0) }
    }
}
