import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore
import SyncProtocol

extension EntitlementService {
    /// The costs of work that the request itself does not cover, in requests that may change something.
    private enum Cost {
        static let item = 1
        static let failure = 8
        /// A request to a store.
        static let lookUp = 8
        /// The number of facts that cost as much as a request.
        static let factsPerRequest = 16
    }

    /// The response to `POST /v1/transactions`.
    func transactions(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        guard !caller.isErased else { throw RequestError(.forbidden, "the account was erased") }
        let evidence = try EvidenceRequest(call.request.body, call.fields)
        if let account = evidence.account {
            guard let name = caller.account.name, name.utf8.elementsEqual(account.name.utf8),
                caller.account.incarnation.utf8.elementsEqual(account.incarnation.utf8)
            else { throw RequestError(.conflict, "the access token belongs to another account; log in again") }
        }
        charge(caller, evidence.items.count * Cost.item)
        // Verification takes time, and the caller may be on the thread of an event loop.
        return try await withTaskExecutorPreference(LongWork.executor) {
            let checked = try verify(evidence, caller, call.peer)
            var results: [EvidenceResult?] = Array(repeating: nil, count: evidence.items.count)
            // A renewal info counts only for a line that is known, which a transaction beside it may make known.
            let order = checked.filter { !$0.item.isRenewal } + checked.filter(\.item.isRenewal)
            var failure: RequestError?
            for (index, item) in order {
                results[index] = try await record(item, caller, evidence.isRestore, call.peer, &failure)
            }
            try await recordReported(in: evidence, caller, &results)
            hub.wakeUp()
            if let failure { throw failure }
            let json = JSON.object([("results", .array(results.compactMap { $0?.json }))])
            return try call.response(Array(json.text().utf8), to: caller)
        }
    }

    /// Records the reported items, after the evidence whose purchases they may be about.
    private func recordReported(
        in request: EvidenceRequest, _ caller: AccountCaller, _ results: inout [EvidenceResult?]
    ) async throws {
        var (indices, items): ([Int], [Result<ReportedItem, RecordingError>]) = ([], [])
        for case (let index, .reported(let item)) in request.items.enumerated() {
            indices.append(index)
            items.append(item)
        }
        guard !items.isEmpty else { return }
        for (index, result) in zip(indices, try await record(items, of: caller)) {
            results[index] = result
            switch result {
            case .facts(let facts, _), .spent(let facts, _): charge(caller, facts.count / Cost.factsPerRequest)
            case .ownedByAnother: charge(caller, Cost.failure)
            default: break
            }
        }
    }

    /// A piece of evidence after its verification, or the reason why it does not count.
    private enum Checked {
        case verified(VerifiedEvidence)
        case result(EvidenceResult, EvidenceNote)

        var isRenewal: Bool {
            if case .verified(let evidence) = self { evidence.kind == .appStoreRenewal } else { false }
        }
    }

    /// Verifies all evidence before any item is recorded.
    ///
    /// - Returns: The evidence with the positions of its items.
    /// - Throws: ``RequestError`` with status 503 if an item fails only because of the clocks.
    private func verify(
        _ request: EvidenceRequest, _ caller: AccountCaller, _ peer: String
    ) throws(RequestError) -> [(index: Int, item: Checked)] {
        let now = Timestamp(milliseconds: host.now())
        var checked: [(index: Int, item: Checked)] = []
        for case (let index, .signed(let item)) in request.items.enumerated() {
            var kind = EvidenceKind.appStoreTransaction
            do throws(EvidenceError) {
                let item = try item.get()
                kind = item.kind
                if let evidence = try item.verified(by: configuration.evidence, now: now) {
                    checked.append((index, .verified(evidence)))
                } else {
                    let note = EvidenceNote(kind, .notConfigured, from: peer, account: caller.name)
                    checked.append((index, .result(.notConfigured(kind), note)))
                }
            } catch {
                charge(caller, Cost.failure)
                let note = EvidenceNote(kind, error, from: peer, account: caller.name)
                guard !error.isTransient else {
                    onEvidence(note)
                    throw RequestError(clockSkew: error)
                }
                checked.append((index, .result(.refused(error), note)))
            }
        }
        return checked
    }

    /// Records one item.
    ///
    /// - Parameter failure: Receives the error with which the request is answered once all items are recorded. If there
    ///   is one, nothing is looked up.
    private func record(
        _ checked: Checked, _ caller: AccountCaller, _ isRestore: Bool, _ peer: String, _ failure: inout RequestError?
    ) async throws -> EvidenceResult {
        switch checked {
        case .result(let result, let note):
            onEvidence(note)
            return result
        case .verified(let evidence):
            charge(caller, evidence.facts.count / Cost.factsPerRequest)
            // After a failure no further look-up is tried. The client sends all items again.
            guard failure == nil, try await needsLookUp(evidence) else {
                return try await record(evidence, caller, isRestore, peer)
            }
            charge(caller, Cost.lookUp)
            return try await recordWithState(evidence, caller, peer, failure: &failure) {
                try await record(evidence, caller, isRestore, peer)
            }
        }
    }

    private func record(
        _ evidence: VerifiedEvidence, _ caller: AccountCaller, _ isRestore: Bool, _ peer: String
    ) async throws(BackendError) -> EvidenceResult {
        do throws(BackendError) {
            let outcome = try await recorder.record(evidence, from: caller.account, isRestore: isRestore)
            if evidence.kind == .appStoreRenewal, !outcome.unowned.isEmpty {
                charge(caller, Cost.failure)
                let error = EvidenceError(.app, "send a transaction of this subscription first")
                onEvidence(EvidenceNote(evidence.kind, error, from: peer, account: caller.name))
                return .refused(error)
            }
            guard outcome.facts.isEmpty, !outcome.refused.isEmpty else {
                report(evidence.kind, .recorded, peer, caller.name)
                return .facts(outcome.facts, others: outcome.refused)
            }
            charge(caller, Cost.failure)
            report(evidence.kind, .ownedByAnother, peer, caller.name)
            return .ownedByAnother(detail: owners.policy.refusal(isRestore: isRestore))
        } catch {
            guard error.cause is LedgerFull else { throw error }
            charge(caller, Cost.failure)
            report(evidence.kind, .full, peer, caller.name)
            return .full
        }
    }

    private func charge(_ caller: AccountCaller, _ writes: Int) {
        limiter.charge(account: caller.account.name ?? "", reads: 0, writes: writes, now: host.now())
    }

    func report(
        _ kind: EvidenceKind, _ outcome: EvidenceNote.Outcome, _ address: String, _ account: String? = nil,
        _ reason: String = ""
    ) {
        onEvidence(EvidenceNote(kind, outcome, from: address, account: account, reason))
    }

    /// The response with the account's token, which the server issues at the first request.
    func issuedToken(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        guard !caller.isErased else { throw RequestError(.forbidden, "the account was erased") }
        return .json([("token", .string(try await recorder.tokens.issued(to: caller.account)))])
    }

    /// Registers a token of the account that the app has chosen.
    func registerToken(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        guard !caller.isErased else { throw RequestError(.forbidden, "the account was erased") }
        let token = try call.members().text("token")
        try await recorder.tokens.register(token, for: caller.account)
        try await recorder.claimLines(waitingFor: token, for: caller.account)
        hub.wakeUp()
        return .done
    }
}

extension ServiceConfiguration.Ownership {
    /// The refusal of a claim, which advises a restore only if one can succeed.
    fileprivate func refusal(isRestore: Bool) -> String {
        let advice =
            switch (self, isRestore) {
            case (.keepWithFirst, _):
                "log in to that account, because this server keeps a purchase with its first account"
            case (.share, _):
                "log in to that account, because at most \(SyncService.Ownership.capacity) accounts share a purchase"
            case (.transfer, false): "log in to that account, or restore purchases"
            case (.transfer, true):
                "log in to that account, or restore again with a transaction that the store has signed within the last "
                    + "hour; a purchase moves at most once a day"
            }
        return "this purchase belongs to another account; \(advice)"
    }
}
