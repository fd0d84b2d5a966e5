public import Entitlements
public import SyncCore
import Synchronization

/// The result of a sync, or of a dry run.
public struct SyncReport: Sendable {
    /// The facts from the remote that this device did not have.
    public var received: [Fact]
    /// True if the remote lacked facts that this device has.
    public var didSend: Bool
    /// The entitlements whose access changed through the sync.
    public var accessChanges: [AccessChange]
    /// Contradictions found in the merge: one transaction id with two contents, of which the stronger counts.
    public var conflicts: [Conflict]
    /// The number of writes that collided with another client's write and were merged.
    public var collisions: Int
    /// Parts of the remote that were written by other devices and could not be read, by key. Everything else was
    /// merged. Only a remote that keeps one entry per device has such parts.
    public var unreadable: [UnreadableEntry]
    /// The answers of the server to evidence that this device had verified and kept.
    public var evidence: [EvidenceOutcome] = []
}

/// The result of a restore.
public struct RestoreReport: Sendable {
    /// The purchases that this device did not know, in ascending order of date.
    public var purchases: [Purchase]
    /// The snapshot after the restore.
    public var snapshot: Snapshot
    /// The report of the underlying sync.
    public var sync: SyncReport
}

extension EntitlementStore {
    /// Merges the facts of this device and of the remote, and stores the result on both sides.
    ///
    /// A sync can be repeated, interrupted, and run on many devices at the same time.
    ///
    /// - Returns: The facts received, and the changes they caused.
    /// - Throws: ``EntitlementError`` of kind `noRemote`, `signInNeeded`, `accountErased`, `sync` (recorded facts stay
    ///   safe on this device), `storage` or `damaged`.
    @discardableResult
    public func sync() async throws(EntitlementError) -> SyncReport {
        try await sync(session, isDryRun: false)
    }

    /// Returns the report that ``sync()`` would return, without writing anything on either side.
    ///
    /// - Throws: The errors of ``sync()``.
    public func syncDryRun() async throws(EntitlementError) -> SyncReport {
        try await sync(session, isDryRun: true)
    }

    /// Restores the account's purchases on this device: syncs and reports the new ones.
    ///
    /// Subscriptions and unlocks are restored on every device. Units of consumables are restored only under
    /// `ConsumableScope.shared`.
    ///
    /// - Parameter evidence: What the app's store has just reported as the user's purchases, for example all current
    ///   entitlements of StoreKit. It is recorded first. Where the server's owners policy is `transfer`, only evidence
    ///   in a restore can move a purchase from another account to this one.
    /// - Throws: The errors of ``sync()`` and ``record(_:)-(Evidence)``.
    @discardableResult
    public func restore(presenting evidence: [Evidence] = []) async throws(EntitlementError) -> RestoreReport {
        if !evidence.isEmpty { try await record(evidence, isRestore: true) }
        let session = session
        let presented = evidence.compactMap { item -> [UInt8]? in
            guard case .verified(let statement) = item.content else { return nil }
            return Fact.evidence(statement.evidence).record.key
        }
        let report = try await sync(session, isDryRun: false, restored: Set(presented))
        let purchases = report.received.compactMap { if case .purchase(let purchase) = $0 { purchase } else { nil } }
        return RestoreReport(
            purchases: purchases.sorted { ($0.date, $0.transaction) < ($1.date, $1.transaction) },
            snapshot: try await snapshot(of: try await session.ledgers.current(), in: session), sync: report)
    }

    /// - Parameter restored: The evidence that the user presented to a restore, by its keys.
    func sync(
        _ session: AccountSession, isDryRun: Bool, restored: Set<[UInt8]> = []
    ) async throws(EntitlementError) -> SyncReport {
        guard let engine else { throw EntitlementError(.noRemote, "there is no remote to sync with") }
        guard !session.account.isAnonymous else {
            throw EntitlementError(.signInNeeded, "syncing needs an account, and no account is logged in")
        }
        // Load first, so that a contact recorded by another process is not taken for an older one.
        try await clock.load()
        if !isDryRun { try await completeEvidence(of: session) }
        let before = try await session.ledgers.current()
        let snapshotBefore = try await snapshot(of: before, in: session)
        // Sent first, so that the answer about the ledger names the server's newest word.
        let (answered, refusal) = isDryRun ? ([], nil) : try await sendEvidence(of: session, restored: restored)
        let report = try await reconcile(engine, for: session, isDryRun: isDryRun)
        if report.content.isErased {
            if !isDryRun { try await applyErasure(of: session) }
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
            try await finishEvidence(answered, of: session)
            try await log(contradictions, in: session)
            // After the answer "unchanged" nothing was written: both sides hold the same facts.
            var held = report.remoteContent ?? report.content
            // A part that cannot be read now was read before, and is assumed to be unchanged.
            if !report.unreadable.isEmpty, let known = before.remote?.ledger { held = held.joined(with: known) }
            try await session.ledgers.note(remote: held)
            // The unreadable parts may hold facts that this device lacks.
            if report.unreadable.isEmpty { try await rememberRemote(for: session) }
            after = try await snapshot(of: try await publish(session), in: session)
        }
        if let refusal { throw EntitlementError(remote: refusal) }
        return SyncReport(
            received: report.received.map { Fact($0) }, didSend: report.remoteGains,
            accessChanges: AccessChange.between(snapshotBefore, after),
            conflicts: contradictions.map(Conflict.contradiction), collisions: report.conflicts,
            unreadable: report.unreadable, evidence: answered.map(\.outcome))
    }

    /// Returns the decisions of the account's server that this device does not have yet; `nil` if there are none.
    ///
    /// If they cannot be read, the facts that the sync received are kept and published before the error is thrown. The
    /// remote does not count as known then, because the server ledger may hold purchases that the ledger lacks.
    private func decisions(for session: AccountSession, beyond known: VersionedLedger, isDryRun: Bool)
        async throws(EntitlementError) -> Decisions?
    {
        do throws(EntitlementError) {
            return try await newDecisions(for: session, beyond: known)
        } catch {
            if !isDryRun { await publish([], in: session) }
            throw error
        }
    }

    /// The maximum number of contradictions in the conflict log.
    private static let longestLog = 1_000

    /// Writes contradictions found in a merge to the conflict log, which is part of the device ledger.
    private func log(_ contradictions: [Contradiction], in session: AccountSession) async throws(EntitlementError) {
        // The limit keeps repeated contradictions from filling the ledger. It is ample for a person who reads the log.
        let known = try await session.ledgers.current().facts.contradictions.count
        guard !contradictions.isEmpty, known < Self.longestLog else { return }
        _ = try await session.ledgers.append(to: .device) { _ in contradictions.map(Fact.contradiction) }
    }

    /// Returns this device's conflict log: contradictions found in merges, decisions of the account's server about
    /// purchases, and units that several devices overspent without knowing of each other.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func conflicts() async throws(EntitlementError) -> [Conflict] {
        try await session.ledgers.current().replay.conflicts(at: now)
    }

    private func reconcile(_ engine: SyncEngine<LedgerMerge>, for session: AccountSession, isDryRun: Bool)
        async throws(EntitlementError) -> DocumentReport<Ledger>
    {
        do throws(SyncError) {
            // A dry run writes nothing, so it needs no replica id to write under and creates none.
            if isDryRun { return try await engine.writing(as: "dry-run").dryRun(session.keys.ledger) }
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
            if error.hasReceived { try await noteReceived(for: session) }
            // Part of it may have been saved before the failure.
            await publish([], in: session)
            throw EntitlementError(error)
        }
    }

    /// Completes a sync that has received the remote's facts but could not send its own: reads the server's decisions.
    private func noteReceived(for session: AccountSession) async throws(EntitlementError) {
        let known = try await session.ledgers.current().decisions
        if let decisions = try await decisions(for: session, beyond: known, isDryRun: false) {
            try await session.ledgers.note(decisions)
        }
        try await rememberRemote(for: session)
    }

    /// Returns `true` if the local facts are the account's facts as far as can be known: there is no remote, the
    /// account is anonymous, or this device has synced with the remote before.
    func hasSyncedWithRemote(for session: AccountSession) async throws(EntitlementError) -> Bool {
        guard let remote, !session.account.isAnonymous, !session.hasSynced.withLock({ $0 }) else { return true }
        do {
            guard case .found(let entry) = try await local.read(session.keys.knownRemotes).outcome else { return false }
            let isKnown = Self.knownRemotes(in: entry).contains(Self.singleLineLabel(of: remote))
            if isKnown { session.hasSynced.withLock { $0 = true } }
            return isKnown
        } catch {
            throw EntitlementError(error)
        }
    }

    /// Remembers that this device has synced with the remote, even if the remote held nothing: from now on access is
    /// denied as "not purchased" instead of "restore needed".
    private func rememberRemote(for session: AccountSession) async throws(EntitlementError) {
        guard let remote, try await !hasSyncedWithRemote(for: session) else { return }
        let key = session.keys.knownRemotes
        do {
            for _ in 0..<10 {
                var labels: [String] = []
                var precondition = Precondition.absent
                if case .found(let entry) = try await local.read(key).outcome {
                    labels = Self.knownRemotes(in: entry)
                    precondition = .matches(entry.version)
                }
                labels.append(Self.singleLineLabel(of: remote))
                let value = Array(labels.joined(separator: "\n").utf8)
                if case .written = try await local.write(value, to: key, if: precondition).outcome { break }
            }
        } catch let error where error.disposition == .outcomeUnknown {
            // This is only a hint. The next sync checks whether it was written.
        } catch {
            throw EntitlementError(error)
        }
        session.hasSynced.withLock { $0 = true }
    }

    /// The remote's label on a single line: line breaks are replaced with spaces.
    private static func singleLineLabel(of remote: any KeyValueBackend) -> String {
        String(remote.label.map { $0.isNewline ? " " : $0 })
    }

    /// Returns the labels of the known remotes. The entry holds one per line.
    private static func knownRemotes(in entry: Entry) -> [String] {
        String(decoding: entry.value, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}

extension DocumentReport<Ledger> {
    /// The records that came from the remote, were not known locally, and are part of the union.
    fileprivate var received: [Record] {
        guard let arrivedContent else { return [] }
        let arrived = Set(arrivedContent.records)
        let mine = Set(localContent.records)
        return content.records.filter { arrived.contains($0) && !mine.contains($0) }
    }
}
