import EntitlementSync
import Entitlements
import SyncCore

/// The store as one account sees it: its ledger only grows, and only the server decides about purchases.
///
/// A ledger is stored byte for byte as the client sent it, or not at all. If the server changed it, the client would
/// have a version of bytes that it has never seen. The server's decisions are in a second ledger beside it.
///
/// All requests of a caller share one object.
final class LedgerRules: ForwardingBackend {
    /// The parts that all accounts share.
    struct Environment: Sendable {
        let store: any KeyValueBackend
        /// The same store, if it reads synchronously.
        let synchronousStore: (any SynchronousReading)?
        let recorder: EvidenceRecorder
        let claims = OutstandingClaims()
        let clockGuard: ClockRollbackGuard
        let decoder: LedgerDecoder
        let limiter: RequestLimiter
        let host: HostServices
        /// Receives errors that do not make the request fail.
        var onError: @Sendable (BackendError) -> Void = { _ in }

        var owners: Owners { recorder.owners }
        var writer: ServerLedgerWriter { recorder.writer }
    }

    let environment: Environment
    let account: Account
    let keys: LedgerKeys
    let limits = LedgerLimits.standard

    /// The largest accepted difference between a purchase's date and the server's clock, in milliseconds. A purchase
    /// further in the future counts from the server's time.
    static let tolerance: Int64 = 300_000

    init(_ environment: Environment, _ account: Account, _ keys: LedgerKeys) {
        (self.environment, self.account, self.keys) = (environment, account, keys)
    }

    var base: any KeyValueBackend { environment.store }
    var host: HostServices { environment.host }
    var owners: Owners { environment.owners }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        guard key == keys.ledger else {
            if key == keys.serverLedger, policy == .verified { try await checkPolicy() }
            return try await base.read(key, unless: knownVersion)
        }
        let decoded = environment.decoder.cache.serverLedger(of: keys.serverLedger)
        // Reads both in one call, because an answer about a ledger names the version of the server ledger.
        let (outcome, serverOutcome) = try await base.read(
            ReadRequest(key, unless: knownVersion), ReadRequest(keys.serverLedger, unless: decoded?.version))
        switch (serverOutcome, decoded) {
        case (.found(let entry), _):
            if let version = try await policyVersion(replacing: entry) {
                return Answer(outcome, relatedVersion: version)
            }
            let version = await reporting(or: entry.version) { [self] () async throws(BackendError) in
                try await reconsider(try await decode(entry))
            }
            return Answer(outcome, relatedVersion: version)
        case (.unchanged, let decoded?):
            if decoded.policy != policy, let version = try await statePolicy() {
                return Answer(outcome, relatedVersion: version)
            }
            let version = await reporting(or: decoded.version) { [self] () async throws(BackendError) in
                try await reconsider(decoded)
            }
            return Answer(outcome, relatedVersion: version)
        case (.absent, _), (.unchanged, nil):
            guard policy != .trusted else { return Answer(outcome) }
            return Answer(outcome, relatedVersion: try await statePolicy())
        }
    }

    /// The version that `review` returns, or `version` if the review fails, because a read must not depend on it.
    private func reporting(
        or version: EntryVersion, _ review: () async throws(BackendError) -> EntryVersion
    ) async -> EntryVersion {
        do throws(BackendError) { return try await review() } catch {
            if !(error.cause is LimitReached) { environment.onError(error) }
            return version
        }
    }

    /// Reads like ``read(_:unless:)``, but without waiting. `nil` if the store cannot answer at once, the server
    /// ledger must be decoded, it does not state the policy yet, or refusals are due to be reconsidered.
    func readSynchronously(_ key: EntryKey, unless knownVersion: EntryVersion?) -> Answer<ReadOutcome>? {
        guard let store = environment.synchronousStore,
            let outcome = store.readSynchronously(key, unless: knownVersion)
        else { return nil }
        guard key == keys.ledger else {
            let mustBeStated = key == keys.serverLedger && policy == .verified
            return mustBeStated && !isPolicyStated(in: outcome, knownVersion: knownVersion) ? nil : Answer(outcome)
        }
        let decoded = environment.decoder.cache.serverLedger(of: keys.serverLedger)
        // Read after the ledger, because the server ledger is written before the ledger that it is about.
        switch (store.readSynchronously(keys.serverLedger, unless: decoded?.version), decoded) {
        case (.absent, _) where policy == .trusted: return Answer(outcome)
        case (.unchanged, let decoded?) where decoded.policy == policy && !isReviewDue(decoded):
            return Answer(outcome, relatedVersion: decoded.version)
        default: return nil
        }
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        guard key == keys.ledger else { return try await base.write(value, to: key, if: precondition) }
        // A ledger may be long, and the caller may be on the thread of an event loop.
        return try await withTaskExecutorPreference(LongWork.executor) { () async throws(BackendError) in
            try await writeLedger(value, if: precondition)
        }
    }

    private func writeLedger(
        _ value: [UInt8], if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        let key = keys.ledger
        let mark = environment.claims.mark()
        let entries = try await base.ledgerEntries(keys)
        let stored = entries.ledger
        var serverEntry = entries.serverLedger
        if policy == .verified { serverEntry = try await statingPolicy(serverEntry) }
        guard precondition.holds(for: stored?.version) else {
            return Answer(.conflict(stored), relatedVersion: serverEntry?.version)
        }
        // Comparing costs as much as decoding, so it is charged even if the ledger is in the cache.
        if let stored { try takeDecoding(stored.value.count, key) }
        charge(writes: value.count >> RequestLimiter.decodingShift)
        let sent = try Self.ledger(of: value, key)
        try check(sent, key)
        var known = Ledger()
        if let stored { known = try await environment.decoder.ledger(in: stored, under: key) }
        // Records cannot be removed, and nothing is merged into an erased ledger. A client whose ledger lacks records
        // gets the stored one in the answer, merges both and tries again.
        guard !Ledger.join(known, sent).rightLacks else {
            return Answer(.conflict(stored), relatedVersion: serverEntry?.version)
        }
        let newPurchases = sent.records(beyond: known).compactMap(\.purchase)
        let condition = stored.map { Precondition.matches($0.version) } ?? .absent
        // Under `verified` no purchase of a client counts, so none is claimed, refused or dated.
        guard policy == .trusted, !newPurchases.isEmpty else {
            let outcome = try await base.write(value, to: key, if: condition).outcome
            if case .written = outcome {
                await removeLeftovers(stored: (sent, mark))
                // A server that trusts clients may have stated its policy meanwhile, and has not claimed these.
                if !newPurchases.isEmpty { try await checkPolicy() }
            }
            return Answer(outcome, relatedVersion: serverEntry?.version)
        }
        return try await writeLedger(
            Change(
                value: value, sent: sent, known: known, condition: condition, newPurchases: newPurchases,
                serverEntry: serverEntry, mark: mark))
    }

    /// A change of the ledger that adds purchases.
    private struct Change {
        let value: [UInt8]
        let sent: Ledger
        let known: Ledger
        let condition: Precondition
        let newPurchases: [Purchase]
        let serverEntry: Entry?
        /// The mark that was taken before the ledger was read.
        let mark: Int
    }

    /// Stores a ledger with new purchases: claims their transactions, decides about them, and then stores it.
    private func writeLedger(_ change: Change) async throws(BackendError) -> Answer<WriteOutcome> {
        let (key, newPurchases) = (keys.ledger, change.newPurchases)
        await removeLeftovers()
        guard environment.claims.begin(newPurchases.count, of: key, limit: limits.recordCount) else {
            throw BackendError(
                .busy, operation: .write, key: key, disposition: .transient,
                message: "other writes of this ledger are not settled yet; try again", cause: LimitReached())
        }
        charge(writes: newPurchases.count / RequestLimiter.operationsPerRequest)
        var attempt = Owners.Attempt(of: account, at: host.now(), id: host.randomBits())
        var isOver = true
        let relatedVersion: EntryVersion?
        let outcome: WriteOutcome
        do throws(BackendError) {
            let version =
                try await decide(about: newPurchases, beyond: change.known, change.serverEntry, for: &attempt)
                ?? change.serverEntry?.version
            relatedVersion = try await applyFacadeRule(to: change.sent) ?? version
            isOver = false
            outcome = try await base.write(change.value, to: key, if: change.condition).outcome
        } catch {
            await end(
                change, attempt, beside: nil, isOver: isOver || error.disposition != .outcomeUnknown,
                hasClaimed: !isOver)
            throw error
        }
        switch outcome {
        case .conflict(let winner):
            // A store that repeats writes may report a conflict with this very write. If the stored ledger cannot be
            // decoded, its claims are kept.
            var held: Ledger? = Ledger()
            if let winner { held = await ledgerOrReport(winner, key) }
            await end(change, attempt, beside: held, isOver: held != nil, hasClaimed: true)
        case .written, .deleted:
            environment.claims.end(newPurchases.count, of: key)
            await removeLeftovers(stored: (change.sent, change.mark))
        }
        return Answer(outcome, relatedVersion: relatedVersion)
    }

    private func ledgerOrReport(_ entry: Entry, _ key: EntryKey) async -> Ledger? {
        chargeDecoding(entry.value.count)
        do throws(BackendError) { return try await environment.decoder.ledger(in: entry, under: key) } catch {
            environment.onError(error)
            return nil
        }
    }

    /// Ends an attempt whose ledger was not stored, or may not have been stored.
    ///
    /// - Parameters:
    ///   - ledger: The ledger that is stored, if it is known. It keeps its claims.
    ///   - isOver: True if the attempt's ledger certainly was not and will not be stored.
    ///   - hasClaimed: True if each claim was made, so that no earlier attempt holds one of them.
    private func end(
        _ change: Change, _ attempt: Owners.Attempt, beside ledger: Ledger?, isOver: Bool, hasClaimed: Bool
    ) async {
        let held = Set(ledger?.transactions ?? [])
        // No ledger is stored in place of the marker of an erasure.
        let leftover = OutstandingClaims.Leftover(
            owner: attempt.owner, transactions: attempt.transactions.filter { !held.contains($0) }, isOver: isOver,
            isComplete: ledger?.isErased == true)
        environment.claims.end(
            change.newPurchases.count, of: keys.ledger, leaving: leftover, since: hasClaimed ? change.mark : 0)
        await removeLeftovers()
    }

    /// Removes the claims that earlier attempts left behind. Claims that cannot be removed now are kept for the next
    /// attempt; the outcome of the request does not depend on them.
    ///
    /// - Parameter stored: The account's ledger, if it was just stored, and the mark of that attempt.
    private func removeLeftovers(stored: (ledger: Ledger, mark: Int)? = nil) async {
        let leftovers = environment.claims.takeRemovable(of: keys.ledger, storedSince: stored?.mark)
        guard !leftovers.isEmpty else { return }
        let held = Set(stored?.ledger.transactions ?? [])
        for (index, var leftover) in leftovers.enumerated() {
            do throws(BackendError) {
                leftover.transactions = try await owners.release(
                    leftover.transactions.filter { !held.contains($0) }, of: leftover.owner,
                    isComplete: leftover.isComplete)
                // Earlier attempts may rely on claims that this one renewed.
                leftover.isOver = false
                environment.claims.putBack([leftover], of: keys.ledger)
            } catch {
                environment.claims.putBack(Array(leftovers[index...]), of: keys.ledger)
                return
            }
        }
    }

    /// Charges the account for work. It never refuses.
    func charge(reads: Int = 0, writes: Int = 0) {
        environment.limiter.charge(account: account.name ?? "", reads: reads, writes: writes, now: host.now())
    }

    /// Charges the account for decoding `byteCount` bytes.
    ///
    /// - Throws: `BackendError.Kind.busy` if the account must wait. Nothing is charged then.
    func takeDecoding(_ byteCount: Int, _ key: EntryKey) throws(BackendError) {
        do throws(RequestError) {
            try environment.limiter.takeReads(
                byteCount >> RequestLimiter.decodingShift, account: account.name ?? "", now: host.now())
        } catch {
            throw BackendError(
                .busy, operation: .write, key: key, disposition: .transient, message: error.detail,
                cause: LimitReached(), retryAfter: error.retryAfter.map { .seconds($0) })
        }
    }

    static let incomplete = BackendError(.other, message: "the store answered only part of a request")

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        guard key != keys.ledger else {
            throw BackendError(
                .refused, operation: .delete, key: key,
                message: "a ledger is never deleted; erase the account (/v1/accounts/self/erasure)")
        }
        return try await base.delete(key, if: precondition)
    }

    /// One call of the store, unless the ledger is among the requests.
    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        guard requests.contains(where: { $0.key == keys.ledger || $0.key == keys.serverLedger && policy == .verified })
        else {
            return try await base.read(requests)
        }
        return try await OneByOne(base: self).read(requests)
    }

    /// One call of the store, unless the ledger is among the requests.
    func write(_ requests: [WriteRequest]) async throws(BackendError) -> Answer<[Result<WriteOutcome, BackendError>]> {
        if !requests.contains(where: { $0.key == keys.ledger }) { return try await base.write(requests) }
        return try await OneByOne(base: self).write(requests)
    }

    /// Sends each request of a batch by itself, as a wrapper does by default.
    private struct OneByOne: ForwardingBackend { let base: any KeyValueBackend }
}

extension LedgerRules {
    /// Decodes the ledger that a client has sent.
    private static func ledger(of value: [UInt8], _ key: EntryKey) throws(BackendError) -> Ledger {
        let document: LedgerDocument
        do throws(LedgerFormatError) { document = try LedgerDocument(decoding: value) } catch {
            throw refused(key, "the bytes are not a ledger that this server can read: \(error)")
        }
        guard document.localSection.isEmpty else {
            throw refused(key, "a server does not accept the local section of a ledger; leave it out")
        }
        return document.ledger
    }

    /// Decodes the ledger in `entry`, which a server has written.
    static func stored(_ entry: Entry, _ key: EntryKey) throws(BackendError) -> Ledger {
        do throws(LedgerFormatError) { return try LedgerDocument(decoding: entry.value).ledger } catch {
            throw BackendError(.damaged, operation: .read, key: key, message: "the stored ledger is damaged: \(error)")
        }
    }

    private func check(_ ledger: Ledger, _ key: EntryKey) throws(BackendError) {
        guard !ledger.isErased else {
            throw Self.refused(key, "only the server can erase a ledger (/v1/accounts/self/erasure)")
        }
        guard ledger.count <= limits.recordCount, ledger.byteCount <= limits.byteCount else {
            throw BackendError(
                .tooLarge, operation: .write, key: key,
                message: "a ledger can have at most \(limits.recordCount) records and \(limits.byteCount) bytes")
        }
        guard !ledger.hasServerRecord else {
            throw Self.refused(key, "only the server writes acceptance and policy records; leave them out")
        }
    }

    private static func refused(_ key: EntryKey, _ message: String) -> BackendError {
        BackendError(.refused, operation: .write, key: key, message: message)
    }
}
