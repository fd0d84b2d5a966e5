import HTTPTypes
public import SyncCore
import SyncProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension HTTPBackend: EvidenceReceiver {
    /// The problems that an operator may solve, so that the same evidence is accepted later.
    private static let passingProblems: Set = ["not-configured", "ledger-full"]

    private struct Body: Decodable {
        struct Result: Decodable {
            struct Refusal: Decodable {
                var code: String
                var detail: String
            }
            var problem: Refusal?
            var ownedByAnother: [EvidenceAnswer.Transaction]?

            var answer: EvidenceAnswer {
                if let problem {
                    return HTTPBackend.passingProblems.contains(problem.code)
                        ? .postponed(code: problem.code, detail: problem.detail)
                        : .refused(code: problem.code, detail: problem.detail)
                }
                guard let ownedByAnother, !ownedByAnother.isEmpty else { return .recorded }
                return .recordedInPart(ownedByAnother: ownedByAnother)
            }
        }
        var results: [Result]
    }

    /// Sends evidence with one `POST /v1/transactions`.
    ///
    /// - Throws: `BackendError.Kind.unsupported` if the server has no such path, else the error of the exchange. After
    ///   an unknown outcome, send the evidence again.
    public func submit(
        _ evidence: [[UInt8]], account: (name: String, incarnation: String), isRestore: Bool
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
        guard let results = try? JSONDecoder().decode(Body.self, from: Data(answer.body)).results else {
            throw foreign(answer, .write, nil)
        }
        return results.map(\.answer)
    }
}
