import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore
import SyncProtocol
import SyncService

// `POST /v1/transactions`: what a store signed is verified on this device, recorded, and sent to the server. What a
// program reports is recorded as the library does it.
extension AgentService {
    func record(_ request: ServiceRequest, _: String) async throws -> ServiceResponse {
        let body = try EvidenceRequest(request.body, request.head.headerFields)
        if let account = body.account, agent.store.account.name != account.name {
            throw RequestError(.conflict, "another account is logged in on this device")
        }
        var results: [JSON] = []
        for item in body.items {
            let result =
                switch item {
                case .signed(let item): try await record(item, isRestore: body.isRestore)
                case .reported(let item): try await record(item)
                }
            results.append(result.json)
        }
        return .json(.object([("results", .array(results))]))
    }

    private func record(
        _ item: Result<EvidenceRequest.SignedItem, EvidenceError>, isRestore: Bool
    ) async throws -> EvidenceResult {
        let verified: EvidenceItem
        do throws(EvidenceError) {
            let item = try item.get()
            guard let evidence = try self.verified(item) else { return .notConfigured(item.kind) }
            try evidence.evidence.check(agent.store.environment)
            verified = evidence
        } catch {
            return .refused(error)
        }
        do throws(EntitlementError) {
            let statement = VerifiedStatement(
                kind: verified.evidence.kind.rawValue, subject: verified.subject, data: verified.json,
                facts: verified.evidence.facts, signedDate: verified.evidence.signedDate ?? .earliest)
            guard !isRestore else {
                // Only a restore that the user has asked for may take a purchase over from another account.
                let report = try await agent.store.restore(presenting: [.verified(statement)])
                return Self.result(of: verified.evidence, report.sync.evidence)
            }
            return .facts(try await agent.store.record(.verified(statement)).newFacts, others: [])
        } catch {
            guard error.kind == .ledgerFull else { throw error }
            return .full
        }
    }

    private func record(_ item: Result<ReportedItem, RecordingError>) async throws -> EvidenceResult {
        let reported: ReportedItem
        do throws(RecordingError) { reported = try item.get() } catch { return .failed(error) }
        do throws(EntitlementError) {
            let facts = try await agent.store.replay().facts
            guard facts.policy == .trusted || !reported.mayGrant else { return .evidenceRequired }
            switch reported {
            case .evidence(let evidence):
                let receipt = try await agent.store.record(evidence)
                // The server's decision, if this device has received it.
                let isRefused = receipt.transactions.contains { transaction in
                    if case .refused? = facts.acceptances[transaction]?.decision { true } else { false }
                }
                return isRefused ? .reportedByAnother : .facts(receipt.newFacts, others: [])
            case .spend(let entitlement, let id): return try await spend(entitlement, id, knowing: facts)
            }
        } catch {
            guard let result = EvidenceResult(error) else { throw error }
            return result
        }
    }

    private func spend(
        _ entitlement: EntitlementID, _ id: SpendID, knowing facts: Facts
    ) async throws(EntitlementError) -> EvidenceResult {
        switch try await agent.store.use(entitlement, id: id) {
        case .granted: return .facts([], others: [])
        case .denied(let denial): return .noneLeft(entitlement, denial)
        case .spent(let remaining, _):
            guard !facts.spends.contains(where: { $0.id == id }) else { return .spent([], remaining: remaining) }
            let spend = try await agent.store.replay().facts.spends.first { $0.id == id }
            return .spent(spend.map { [.spend($0)] } ?? [], remaining: remaining)
        }
    }

    /// The result for evidence whose facts this device has recorded, and about which a server may have answered.
    private static func result(of evidence: VerifiedEvidence, _ outcomes: [EvidenceOutcome]) -> EvidenceResult {
        let transactions = evidence.facts.compactMap(\.purchase?.transaction)
        let outcome = outcomes.first { outcome in
            outcome.kind == evidence.kind.rawValue && Set(outcome.transactions) == Set(transactions)
        }
        switch outcome?.answer {
        case nil, .recorded: return .facts(evidence.facts, others: [])
        case .recordedInPart(ownedByAnother: let others):
            return .facts(evidence.facts, others: transactions.filter(others.contains))
        case .postponed(code: let code, detail: let detail), .refused(code: let code, detail: let detail):
            return code == "owned-by-another" ? .ownedByAnother(detail: detail) : .problem(code: code, detail: detail)
        }
    }

    private func verified(_ item: EvidenceRequest.SignedItem) throws(EvidenceError) -> EvidenceItem? {
        let now = agent.store.clockStatus.now
        switch item.kind {
        case .appStoreTransaction:
            guard let verifier = verifiers.appStore else { return nil }
            return try EvidenceItem(jws: try item.text("jws"), verifier, now: now)
        case .appStoreReceipt:
            guard let verifier = verifiers.appStore else { return nil }
            let bytes = try receiptBytes(base64: try item.text("data"))
            return try EvidenceItem(receipt: bytes, verifier, now: now, expiryTime: now)
        case .googlePlay:
            guard let verifier = verifiers.googlePlay else { return nil }
            return try EvidenceItem(
                data: try item.text("data"), signature: try item.text("signature"), verifier, now: now)
        default: return nil
        }
    }
}
