import HTTPTypes
public import SyncCore
import SyncProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension HTTPBackend: GrantIssuer {
    private struct Body: Decodable { var grant: String }

    /// Asks for a grant with one `GET /v1/grants`.
    ///
    /// - Throws: `BackendError.Kind.unsupported` if the server signs no grants, else the error of the exchange.
    public func grant(device: String, environment: String) async throws(BackendError) -> [UInt8] {
        let path =
            "/v1/grants?device=\(WireQuery.encoded(device))&environment=\(WireQuery.encoded(environment))"
        let answer = try await exchange(.get, path, HTTPFields(), for: .read)
        switch answer.response.status.code {
        case 200: break
        case 404, 405:
            let reason = Problem(json: answer.body)?.detail ?? "it has no such path"
            throw BackendError(
                .unsupported, operation: .read, message: "\(label) signs no grants: \(reason)")
        default: throw failure(answer, .read, nil)
        }
        guard let body = try? JSONDecoder().decode(Body.self, from: Data(answer.body)) else {
            throw foreign(answer, .read, nil)
        }
        return Array(body.grant.utf8)
    }
}
