public import Entitlements
import SyncCore

/// The answer of the account's server to evidence that this device sent.
public struct EvidenceOutcome: Hashable, Sendable {
    /// The kind of the evidence: `app-store-transaction`, `app-store-receipt`, `google-play`.
    public var kind: String
    /// The transactions of the purchases that the evidence states.
    public var transactions: [TransactionReference]
    /// The answer.
    public var answer: EvidenceAnswer
}

extension EntitlementStore {
    /// The number of pieces of evidence in one request.
    private static let requestCount = 32

    /// Evidence of this account that waits for an answer of its server.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func waitingEvidenceCount() async throws(EntitlementError) -> Int {
        try await session.read().waitingEvidence.count
    }

    /// Records the facts of waiting evidence that a crash kept out of the account's ledger, and returns the state then.
    func completeEvidence(
        of session: AccountSession, in before: LocalState
    ) async throws(EntitlementError) -> LocalState {
        let waiting = before.waitingEvidence
        guard !waiting.isEmpty else { return before }
        var plan = emptyPlan
        plan.verified = waiting.map { VerifiedStatement($0) }
        plan.isCompletion = true
        let (now, completion) = (now, plan)
        var state = before
        for target in [DeviceLedgers.Target.account, .device] {
            state = try await session.append(to: target, startingWith: state) {
                (state, replica) throws(EntitlementError) in
                try facts(of: completion, for: target, in: state, replica, now: now)
            }.state
        }
        return state
    }

    /// Sends the waiting evidence of the account to its server.
    ///
    /// Evidence stays in the outbox until ``finishEvidence(_:of:knowing:after:)``: what it proves must not stop
    /// counting before this device has the server's word.
    ///
    /// - Parameter restored: The evidence that the user presented to a restore, by its keys.
    /// - Returns: The evidence with its answers, empty if nothing waits or if the server does not verify evidence; and
    ///   the error with which the server refused a request. The rest of the sync may find the reason of that, for
    ///   example that the account was erased.
    /// - Throws: ``EntitlementError`` of kind `sync` if the server cannot be reached.
    func sendEvidence(
        of session: AccountSession, in state: LocalState, restored: Set<[UInt8]>
    ) async throws(EntitlementError) -> (answered: [AnsweredEvidence], refusal: BackendError?) {
        guard session.account.name != nil else { return ([], nil) }
        let waiting = state.waitingEvidence.filter { evidence in
            // A guest's recorded evidence waits for the account that adopts it.
            restored.contains(Fact.evidence(evidence).record.key) || !session.account.isGuest
                || !evidence.isStated(by: state.serverLedger.ledger)
        }
        let presented = waiting.filter { restored.contains(Fact.evidence($0).record.key) }
        let others = waiting.filter { !restored.contains(Fact.evidence($0).record.key) }
        let first = try await send(presented, of: session, isRestore: true)
        guard first.refusal == nil else { return first }
        let second = try await send(others, of: session, isRestore: false)
        return (first.answered + second.answered, second.refusal)
    }

    private func send(
        _ waiting: [StoredEvidence], of session: AccountSession, isRestore: Bool
    ) async throws(EntitlementError) -> (answered: [AnsweredEvidence], refusal: BackendError?) {
        guard let server else { return ([], nil) }
        var answered: [AnsweredEvidence] = []
        for start in stride(from: 0, to: waiting.count, by: Self.requestCount) {
            let chunk = waiting[start..<min(start + Self.requestCount, waiting.count)]
            let answers: [EvidenceAnswer]
            do throws(BackendError) {
                answers = try await server.submit(
                    chunk.map(\.data), account: session.account, isRestore: isRestore)
            } catch {
                // The server has no verifiers, or is of an earlier version.
                if error.kind == .unsupported { return (answered, nil) }
                if error.isRefusal { return (answered, error) }
                throw EntitlementError(remote: error)
            }
            guard answers.count == chunk.count else {
                throw EntitlementError(
                    .sync, "the server answered \(answers.count) of \(chunk.count) pieces of evidence")
            }
            answered += zip(chunk, answers).map { AnsweredEvidence(evidence: $0, answer: $1) }
        }
        return (answered, nil)
    }

    /// Removes answered evidence from the outbox. Evidence that the server has accepted stays until this device's copy
    /// of the server ledger has its purchases. Evidence that the server postponed stays too. The device ledger keeps
    /// the reasons of refusals, which explain denials under the policy `verified`.
    ///
    /// Recorded evidence of a guest stays until another account adopts it, and is then sent for that account: the
    /// server forgets the guest's copy when it erases the guest.
    ///
    /// - Parameters:
    ///   - serverLedger: This device's copy of the server ledger.
    ///   - state: The state before the answers.
    /// - Returns: `true` if there was any to remove.
    func finishEvidence(
        _ answered: [AnsweredEvidence], of session: AccountSession, knowing serverLedger: Ledger,
        after state: LocalState
    ) async throws(EntitlementError) -> Bool {
        guard !answered.isEmpty else { return false }
        let isGuest = session.account.isGuest
        let finished = answered.filter { $0.isFinished(serverLedger) && !(isGuest && $0.answer == .recorded) }
        guard !finished.isEmpty else { return false }
        let (now, time) = (now, state.facts.latestTime.next(at: now))
        let refusals = finished.flatMap { $0.refusals(at: now, time) }
        try await session.removeEvidence(finished.map { Fact.evidence($0.evidence).record }, adding: refusals)
        return true
    }
}

/// Evidence with the answer of the account's server.
struct AnsweredEvidence: Sendable {
    var evidence: StoredEvidence
    var answer: EvidenceAnswer

    /// Returns `true` if the evidence need not be sent again, and this device has the server's statement about it.
    ///
    /// - Parameter known: This device's copy of the server ledger.
    fileprivate func isFinished(_ known: Ledger) -> Bool {
        let others: Set<TransactionReference>
        switch answer {
        case .refused: return true
        case .postponed: return false
        case .recorded: others = []
        case .recordedInPart(let transactions): others = Set(transactions)
        }
        return evidence.isStated(by: known, except: others)
    }

    var outcome: EvidenceOutcome {
        EvidenceOutcome(kind: evidence.kind, transactions: transactions.sorted(), answer: answer)
    }

    private var transactions: [TransactionReference] { VerifiedStatement(evidence).transactions }

    /// The server's refusals of the purchases that the evidence states.
    fileprivate func refusals(at now: Timestamp, _ time: LogicalTime) -> [Acceptance] {
        let (reason, refused): (String, [TransactionReference])
        switch answer {
        case .recorded, .postponed: return []
        case .recordedInPart(let others):
            let facts = VerifiedStatement(evidence).facts.filter { $0.concerns(Set(others)) }
            (reason, refused) = (Acceptance.provedByAnother, facts.compactMap(\.purchase?.transaction))
        case .refused(let code, let detail):
            reason = code == "owned-by-another" ? Acceptance.provedByAnother : detail
            refused = transactions
        }
        return refused.map { Acceptance(transaction: $0, decision: .refused(reason), date: now, logicalTime: time) }
    }
}

extension StoredEvidence {
    /// Returns `true` if the server ledger `known` states everything that this evidence proves, except for `others`.
    fileprivate func isStated(by known: Ledger, except others: Set<TransactionReference> = []) -> Bool {
        facts.records.allSatisfy { stated in
            if let held = known[stated.key], !held.order.lexicographicallyPrecedes(stated.order) { return true }
            return Fact(stated).concerns(others)
        }
    }
}

extension Fact {
    /// Returns `true` for a statement about one of these purchases, or about its subscription.
    fileprivate func concerns(_ transactions: Set<TransactionReference>) -> Bool {
        switch self {
        case .purchase(let purchase):
            transactions.contains(purchase.transaction) || transactions.contains(purchase.line)
        case .revocation(let revocation): transactions.contains(revocation.transaction)
        case .renewalState(let state): transactions.contains(state.line)
        default: false
        }
    }
}
