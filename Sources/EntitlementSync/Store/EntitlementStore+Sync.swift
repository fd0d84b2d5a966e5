public import Entitlements
public import SyncCore

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
        try await sync(session).report
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
        let (report, _, snapshot) = try await sync(session, restored: Set(presented))
        let purchases = report.received.compactMap(\.purchase)
        return RestoreReport(
            purchases: purchases.sorted { ($0.date, $0.transaction) < ($1.date, $1.transaction) },
            snapshot: snapshot, sync: report)
    }

    /// - Parameter restored: The evidence that the user presented to a restore, by its keys.
    /// - Returns: The report, the state that was published, and its snapshot.
    func sync(
        _ session: AccountSession, restored: Set<[UInt8]> = []
    ) async throws(EntitlementError) -> (report: SyncReport, state: LocalState, snapshot: Snapshot) {
        let engine = try engine(for: session)
        let loaded = try await load(session)
        // A contact that another process recorded must not be taken for an older one.
        try clock.checkRead()
        let before = try await completeEvidence(of: session, in: loaded)
        let snapshotBefore = try snapshot(of: before, in: session)
        // Sent first, so that the answer about the ledger names the server's newest word.
        let (answered, refusal) = try await sendEvidence(of: session, in: before, restored: restored)
        // The request took time, in which the app may have recorded something.
        let current = before.waitingEvidence.isEmpty ? before : try await session.read()
        let report: DocumentReport<Ledger>
        do throws(EntitlementError) { report = try await reconcile(engine, current, for: session) } catch {
            // A remote that refuses writes may still confirm what it has. The first error is reported.
            if !error.isTransient, let state = try? await renewGrant(of: session, in: try await session.read()) {
                _ = try? await publish(state, of: session)
            }
            throw error
        }
        if report.content.isErased {
            try await applyErasure(of: session)
            throw .erased(session.account)
        }
        let contradictions = contradictions(in: report, after: current)
        var stored = try await store(report, answered, contradictions, current, for: session)
        var failure = refusal.map { EntitlementError(remote: $0) }
        // What the sync has stored is published in any case.
        do throws(EntitlementError) { stored = try await renewGrant(of: session, in: stored) } catch {
            failure = failure ?? error
        }
        let after = try await publish(stored, of: session)
        if let failure { throw failure }
        return (
            SyncReport(
                received: report.received.map { Fact($0) }, didSend: report.remoteGains,
                accessChanges: AccessChange.between(snapshotBefore, after.snapshot),
                conflicts: contradictions.map(Conflict.contradiction), collisions: report.conflicts,
                unreadable: report.unreadable, evidence: answered.map(\.outcome)),
            after.state, after.snapshot
        )
    }

    /// Stores what a sync has found beside the account's ledger.
    ///
    /// - Returns: The state after it. The store is read again only if something was stored.
    private func store(
        _ report: DocumentReport<Ledger>, _ answered: [AnsweredEvidence], _ contradictions: [Contradiction],
        _ before: LocalState, for session: AccountSession
    ) async throws(EntitlementError) -> LocalState {
        var isChanged = false
        var known = before.serverLedger.ledger
        if let serverLedger = try await serverLedger(for: session, beyond: before.serverLedger) {
            try await session.remember(serverLedger)
            known = serverLedger.ledger
            isChanged = true
        }
        if try await finishEvidence(answered, of: session, knowing: known, after: before) { isChanged = true }
        if try await log(contradictions, after: before, in: session) { isChanged = true }
        // After the answer "unchanged" nothing was written: both sides hold the same facts.
        var held = report.remoteContent ?? report.content
        // A part that cannot be read now was read before, and is assumed to be unchanged.
        if !report.unreadable.isEmpty, let known = before.remote?.ledger { held = held.joined(with: known) }
        if try await session.remember(remote: held, after: before) { isChanged = true }
        // The unreadable parts may hold facts that this device lacks.
        if report.unreadable.isEmpty, !before.isKnownToHaveSynced {
            try await session.rememberRemote()
            isChanged = true
        }
        return isChanged ? try await session.read() : session.afterSync(before, VersionedLedger(report.held))
    }

    /// Returns the report that ``sync()`` would return, without writing anything on either side.
    ///
    /// - Throws: The errors of ``sync()``.
    public func syncDryRun() async throws(EntitlementError) -> SyncReport {
        let session = session
        let engine = try engine(for: session)
        let before = try await session.read()
        try clock.checkRead()
        let snapshotBefore = try snapshot(of: before, in: session)
        let report: DocumentReport<Ledger>
        // A dry run writes nothing, so it needs no replica id to write under and creates none.
        do { report = try await engine.writing(as: "dry-run").dryRun(session.keys.ledger) } catch {
            throw EntitlementError(error)
        }
        guard !report.content.isErased else { throw .erased(session.account) }
        let serverLedger = try await newServerLedger(for: session, beyond: before.serverLedger)
        let facts = Facts(
            account: report.content, device: before.device.ledger,
            server: serverLedger?.ledger ?? before.serverLedger.ledger,
            remote: before.remote.map { _ in report.content })
        var context = snapshotBefore.context
        context.hasRestored = true
        let after = Replay(facts, catalog: catalog, environment: environment)
            .snapshot(at: snapshotBefore.at, context: context)
        return SyncReport(
            received: report.received.map { Fact($0) }, didSend: report.remoteGains,
            accessChanges: AccessChange.between(snapshotBefore, after),
            conflicts: contradictions(in: report, after: before).map(Conflict.contradiction),
            collisions: report.conflicts, unreadable: report.unreadable)
    }

    private func engine(for session: AccountSession) throws(EntitlementError) -> SyncEngine<LedgerMerge> {
        guard let engine else { throw EntitlementError(.noRemote, "there is no remote to sync with") }
        guard !session.account.isAnonymous else {
            throw EntitlementError(.signInNeeded, "syncing needs an account, and no account is logged in")
        }
        return engine
    }

    private func contradictions(in report: DocumentReport<Ledger>, after before: LocalState) -> [Contradiction] {
        Contradiction.between(
            report.localContent, report.arrivedContent ?? Ledger(), noticedAt: now, after: before.facts.latestTime)
    }

    /// Returns the version of the server ledger that this device does not have yet; `nil` if there is none.
    ///
    /// If they cannot be read, the facts that the sync received are kept and published before the error is thrown. The
    /// remote does not count as known then, because the server ledger may hold purchases that the ledger lacks.
    private func serverLedger(
        for session: AccountSession, beyond known: VersionedLedger
    ) async throws(EntitlementError) -> FetchedServerLedger? {
        do throws(EntitlementError) {
            return try await newServerLedger(for: session, beyond: known)
        } catch {
            await publish([], in: session)
            throw error
        }
    }

    /// The maximum number of contradictions in the conflict log.
    private static let longestLog = 1_000

    /// Writes contradictions found in a merge to the conflict log, which is part of the device ledger.
    ///
    /// - Returns: `true` if there were any to write.
    private func log(
        _ contradictions: [Contradiction], after before: LocalState, in session: AccountSession
    ) async throws(EntitlementError) -> Bool {
        // The limit keeps repeated contradictions from filling the ledger. It is ample for a person who reads the log.
        guard !contradictions.isEmpty, before.facts.contradictions.count < Self.longestLog else { return false }
        _ = try await session.append(to: .device, startingWith: before) { _, _ in
            contradictions.map(Fact.contradiction)
        }
        return true
    }

    /// Returns this device's conflict log: contradictions found in merges, decisions of the account's server about
    /// purchases, statements of clients that it overrides or has not verified, and units that several devices overspent
    /// without knowing of each other.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func conflicts() async throws(EntitlementError) -> [Conflict] {
        try await session.read().replay.conflicts(at: now)
    }

    private func reconcile(
        _ engine: SyncEngine<LedgerMerge>, _ before: LocalState, for session: AccountSession
    ) async throws(EntitlementError) -> DocumentReport<Ledger> {
        var engine = engine
        if remote?.capabilities.compareAndSwap == false {
            engine = engine.writing(as: "\(try await session.createReplica())")
        }
        do throws(SyncError) {
            return try await engine.sync(session.keys.ledger, from: before.account.held)
        } catch {
            if error.hasReceived { try await finishReceiving(for: session) }
            // Part of it may have been saved before the failure.
            await publish([], in: session)
            throw EntitlementError(error)
        }
    }

    /// Completes a sync that has received the remote's facts but could not send its own: reads the server ledger.
    private func finishReceiving(for session: AccountSession) async throws(EntitlementError) {
        let known = try await session.read()
        if let serverLedger = try await serverLedger(for: session, beyond: known.serverLedger) {
            try await session.remember(serverLedger)
        }
        if !known.isKnownToHaveSynced { try await session.rememberRemote() }
    }
}

extension VersionedLedger {
    fileprivate init(_ held: HeldDocument<Ledger>) {
        self.init(
            version: held.version,
            document: LedgerDocument(ledger: held.document.content, localSection: held.document.localSection))
    }

    /// The document in the form in which a sync takes it.
    fileprivate var held: HeldDocument<Ledger> {
        HeldDocument(
            version: version, document: OpenDocument(content: ledger, localSection: document.localSection))
    }
}

extension DocumentReport<Ledger> {
    /// The records that came from the remote, were not known locally, and are part of the union.
    fileprivate var received: [Record] {
        guard let arrivedContent else { return [] }
        let new = content.records(beyond: localContent)
        // Another process may have recorded some of them during the sync.
        let arrived = new.isEmpty ? [] : Set(arrivedContent.records)
        return new.filter(arrived.contains)
    }
}
