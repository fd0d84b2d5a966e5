public import EntitlementSync
public import Entitlements
import HTTPTypes
public import SyncCore
import SyncProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension HTTPBackend: EntitlementServer {
    /// The problems that an operator may solve, so that the same evidence is accepted later.
    private static let passingProblems: Set = ["not-configured", "ledger-full"]

    private struct EvidenceBody: Decodable {
        struct Result: Decodable {
            struct Refusal: Decodable {
                var code: String
                var detail: String
            }
            struct Purchase: Decodable {
                var store: String
                var environment: String
                var transactionID: String
            }
            var problem: Refusal?
            var ownedByAnother: [Purchase]?

            var answer: EvidenceAnswer {
                if let problem {
                    return HTTPBackend.passingProblems.contains(problem.code)
                        ? .postponed(code: problem.code, detail: problem.detail)
                        : .refused(code: problem.code, detail: problem.detail)
                }
                guard let ownedByAnother, !ownedByAnother.isEmpty else { return .recorded }
                return .recordedInPart(
                    ownedByAnother: ownedByAnother.map {
                        TransactionReference(
                            store: StoreID($0.store), environment: EnvironmentID($0.environment),
                            id: TransactionID($0.transactionID))
                    })
            }
        }
        var results: [Result]
    }

    /// Sends evidence with one `POST /v1/transactions`.
    ///
    /// - Throws: `BackendError.Kind.unsupported` if the server has no such path, else the error of the exchange. After
    ///   an unknown outcome, send the evidence again.
    public func submit(
        _ evidence: [[UInt8]], account: Account, isRestore: Bool
    ) async throws(BackendError) -> [EvidenceAnswer] {
        let owner: [UInt8]
        do {
            let encoder = JSONEncoder()
            owner = Array(try encoder.encode(["name": account.name, "incarnation": account.incarnation]))
        } catch {
            throw BackendError(.other, operation: .write, message: "the account's name cannot be encoded", cause: error)
        }
        var body = Array("{\"account\":".utf8) + owner
        if isRestore { body += Array(",\"restore\":true".utf8) }
        body += Array(",\"evidence\":[".utf8) + evidence.joined(separator: [UInt8(ascii: ",")]) + Array("]}".utf8)
        var fields = HTTPFields()
        fields[.contentType] = "application/json"
        let answer = try await exchange(.post, "/v1/transactions", fields, body: body, for: .write)
        switch answer.response.status.code {
        case 200: break
        case 404, 405:
            throw BackendError(
                .unsupported, operation: .write, message: "\(label) does not verify evidence; update the server")
        default: throw failure(answer, .write, nil)
        }
        guard let results = try? JSONDecoder().decode(EvidenceBody.self, from: Data(answer.body)).results else {
            throw foreign(answer, .write, nil)
        }
        return results.map(\.answer)
    }

    private struct GrantBody: Decodable { var grant: String }

    /// Asks for a grant with one `GET /v1/grants`.
    ///
    /// - Throws: `BackendError.Kind.unsupported` if the server signs no grants, else the error of the exchange.
    public func grant(device: String, environment: EnvironmentID) async throws(BackendError) -> [UInt8] {
        let path =
            "/v1/grants?device=\(WireQuery.encoded(device))&environment=\(WireQuery.encoded(environment.rawValue))"
        let answer = try await exchange(.get, path, HTTPFields(), for: .read)
        switch answer.response.status.code {
        case 200: break
        case 404, 405:
            let reason = Problem(json: answer.body)?.detail ?? "it has no such path"
            throw BackendError(
                .unsupported, operation: .read, message: "\(label) signs no grants: \(reason)")
        default: throw failure(answer, .read, nil)
        }
        guard let body = try? JSONDecoder().decode(GrantBody.self, from: Data(answer.body)) else {
            throw foreign(answer, .read, nil)
        }
        return Array(body.grant.utf8)
    }
}
