import Entitlements
import SyncCore
import SyncService

// Batches, and the recognition of repeated requests.
extension ParseServer {
    /// The largest number of requests of a batch.
    private static let batchLimit = 50

    /// The mark by which a repetition of a request is recognized.
    func mark(of request: ParseRequest) -> RequestMark {
        let installation = request.installationID ?? request.sessionToken.map { gateway.digest(of: $0) } ?? ""
        return RequestMark(
            digest: gateway.digest(of: installation + "\n" + request.content),
            id: request.requestID.map { String(gateway.digest(of: $0).prefix(16)) }, at: gateway.host.now())
    }

    func batch(_ request: ParseRequest, _: [String]) async throws -> Reply {
        guard case .array(let items)? = request.body["requests"] else {
            throw ParseError(107, "requests must be an array")
        }
        guard [nil, .null, .bool(false)].contains(request.body["transaction"]) else {
            throw ParseError(102, "transactions are not supported; send the batch without \"transaction\"")
        }
        guard items.count <= Self.batchLimit else {
            throw ParseError(107, "a batch can have at most \(Self.batchLimit) requests, not \(items.count)")
        }
        var inner: [ParseRequest] = []
        for item in items {
            guard let members = item.members, let method = members["method"]?.string,
                let target = members["path"]?.string, let path = parts(of: target), path.first != "batch"
            else {
                throw ParseError(107, "each request of a batch needs a method and a path below \(configuration.path)")
            }
            let body = members["body"]?.members ?? [:]
            inner.append(ParseRequest(method: method.uppercased(), path: path, body: body, in: request))
        }
        var answers: [JSON] = []
        let digest = gateway.digest(of: inner.map(\.content).joined(separator: "\n"))
        for (index, one) in inner.enumerated() {
            var one = one
            one.part = "\(digest) \(index)"
            one.requestID = request.requestID.map { "\($0) \(index)" }
            do {
                if index > 0 { try gateway.count(request.peer) }
                answers.append(.object(["success": try await reply(to: one).body]))
            } catch {
                answers.append(.object(["error": parseError(error).json]))
            }
        }
        return Reply(body: .array(answers))
    }

    /// The parts of a path below that of the API. SDKs write `/1/…` for the API of parse.com.
    private func parts(of target: String) -> [String]? {
        for root in [configuration.path + "/", "/1/"] where target.utf8.starts(with: root.utf8) {
            let rest = target.dropFirst(root.count)
            guard !rest.contains("?") else { return nil }
            return rest.split(separator: "/").map(String.init)
        }
        return nil
    }
}
