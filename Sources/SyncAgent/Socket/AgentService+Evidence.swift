import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore
import SyncProtocol
import SyncService

// `POST /v1/transactions`: what a store signed is verified on this device, recorded, and sent to the server.
extension AgentService {
    func record(_ request: ServiceRequest, _: String) async throws -> ServiceResponse {
        let body = try EvidenceRequest(request.body, request.head.headerFields)
        if let account = body.account, agent.store.account.name != account.name {
            throw RequestError(.conflict, "another account is logged in on this device")
        }
        var results: [JSON] = []
        for item in body.items { results.append(try await record(item, isRestore: body.isRestore).json) }
        return .json(.object([("results", .array(results))]))
    }

    private func record(
        _ item: Result<EvidenceRequest.Item, EvidenceError>, isRestore: Bool
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

    private func verified(_ item: EvidenceRequest.Item) throws(EvidenceError) -> EvidenceItem? {
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
