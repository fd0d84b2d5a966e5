import HTTPTypes
import SyncCore

/// The address of a server.
struct ServerAddress: Sendable {
    var scheme: String
    var authority: String
    /// The prefix of all paths: empty, or with a slash at the start and none at the end.
    var path: String

    /// Parses `https://HOST[:PORT][/PATH]`.
    init(_ server: String) throws(BackendError) {
        let refused = BackendError(
            .notAStore, operation: .open,
            message: "\"\(server)\" is not the address of a server; use https://HOST or http://HOST:PORT")
        guard let mark = server.firstRange(of: "://") else { throw refused }
        let scheme = server[..<mark.lowerBound]
        let rest = server[mark.upperBound...]
        guard ["http", "https"].contains(scheme), !rest.contains(where: { "@?#\\ ".contains($0) }),
            rest.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { throw refused }
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        var path = rest[slash...]
        while path.hasSuffix("/") { path = path.dropLast() }
        guard slash > rest.startIndex else { throw refused }
        (self.scheme, self.authority, self.path) = (String(scheme), String(rest[..<slash]), String(path))
    }

    /// Creates a request to the server.
    func request(
        _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields, token: String?
    ) -> HTTPRequest {
        var fields = fields
        if let token { fields.append(HTTPField(name: .authorization, value: "Bearer \(token)")) }
        return HTTPRequest(
            method: method, scheme: scheme, authority: authority, path: self.path + path, headerFields: fields)
    }
}
