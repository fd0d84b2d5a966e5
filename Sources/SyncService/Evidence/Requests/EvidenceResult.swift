package import EntitlementSync
package import Entitlements
import HTTPTypes
package import StoreEvidence

/// The answer to one item of `POST /v1/transactions`.
package enum EvidenceResult: Sendable {
    /// The facts that count for the caller, and the transactions or lines that belong to other accounts.
    case facts([Fact], others: [TransactionReference])
    /// The fact of a spend, none if the id was known, and the number of units that are left.
    case spent([Fact], remaining: Int64)
    case refused(EvidenceError)
    case notConfigured(EvidenceKind)
    /// The server has no catalogue, which reported items need.
    case noCatalog
    /// The policy is `verified`, under which no report of a client grants anything.
    case evidenceRequired
    /// A reported item that cannot be recorded.
    case failed(RecordingError)
    case noneLeft(EntitlementID, Access.Denial)
    case ownedByAnother(detail: String)
    case full
    /// The problem with which another server has answered.
    case problem(code: String, detail: String)

    /// The result for an item that was not recorded because of `error`; `nil` for an error of the store.
    package init?(_ error: EntitlementError) {
        let kind: RecordingError.Kind
        switch error.kind {
        case .unknownProduct: kind = .unknownProduct
        case .unknownEntitlement: kind = .unknownEntitlement
        case .invalid where error.backendError == nil: kind = .invalid
        case .contradiction: kind = .contradiction
        case .ledgerFull: kind = .ledgerFull
        default: return nil
        }
        self = .failed(RecordingError(kind, error.message))
    }

    /// The refusal of a reported purchase whose transaction another account has.
    package static let reportedByAnother = EvidenceResult.ownedByAnother(
        detail: "another account recorded this transaction first; log in to that account")

    /// The object in the answer.
    package var json: JSON {
        switch self {
        case .facts(let facts, let others):
            let rest = others.isEmpty ? [] : [("ownedByAnother", JSON.array(others.map { .object($0.members) }))]
            return .object([("facts", .array(facts.map(\.json)))] + rest)
        case .spent(let facts, let remaining):
            return .object([("facts", .array(facts.map(\.json))), ("remaining", .number(remaining))])
        case .refused(let error):
            return problem(
                "evidence-refused", .unprocessableContent, error.reason, [("check", .string(error.check.rawValue))])
        case .notConfigured(let kind):
            return problem(
                "not-configured", .notImplemented, "this server does not accept evidence of the kind \(kind.rawValue)")
        case .noCatalog:
            return problem(
                "not-configured", .notImplemented, "this server has no catalogue (syncd serve --catalog)")
        case .evidenceRequired:
            return problem(
                "evidence-required", .forbidden,
                "only what a store has signed counts for this account (policy verified); send the store's evidence")
        case .failed(let error):
            switch error.kind {
            case .unknownProduct: return problem("unknown-product", .notFound, error.message)
            case .unknownEntitlement: return problem("unknown-entitlement", .notFound, error.message)
            case .invalid: return problem("invalid", .badRequest, error.message)
            case .contradiction: return problem("contradiction", .conflict, error.message)
            case .ledgerFull: return EvidenceResult.full.json
            }
        case .noneLeft(let entitlement, let denial):
            return problem(
                "none-left", .conflict,
                "no unit of \"\(entitlement.rawValue.singleLine)\" is left: access is denied (\(denial))")
        case .ownedByAnother(let detail): return problem("owned-by-another", .conflict, detail)
        case .full:
            return problem(
                "ledger-full", .contentTooLarge, "the account has reached the largest number of purchases")
        case .problem(let code, let detail):
            return problem(code, .unprocessableContent, detail)
        }
    }

    private func problem(
        _ code: String, _ status: HTTPResponse.Status, _ detail: String, _ members: [(String, JSON)] = []
    ) -> JSON {
        .object([
            (
                "problem",
                .object(
                    [
                        ("type", .string("urn:entitlementsync:problem:\(code)")), ("title", .string(code)),
                        ("status", .number(Int64(status.code))), ("code", .string(code)), ("detail", .string(detail)),
                    ] + members)
            )
        ])
    }
}
