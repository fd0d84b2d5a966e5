import EntitlementSync
import Entitlements
import HTTPTypes
import SyncProtocol
import SyncService
import Synchronization

/// A request in the form that all SDKs' requests have in common.
///
/// The SDK of iOS sends a read with parameters as POST with `_method`. The SDK of JavaScript sends everything in a body
/// of the type `text/plain`, also what other SDKs put into header fields.
struct ParseRequest: Sendable {
    var method: String
    /// The parts of the path below that of the API.
    var path: [String]
    /// The parameters of a read.
    var parameters: [String: JSON] = [:]
    /// The members of the body, without those that begin with an underscore.
    var body: [String: JSON] = [:]
    var applicationID: String?
    var sessionToken: String?
    var installationID: String?
    /// The SDK and its version, such as `i4.1.1`.
    private var clientVersion: String?
    /// The id that the request shares with its repetitions only; `nil` without one.
    var requestID: String?
    var peer: String
    /// The length of the body in bytes.
    var byteCount = 0
    /// The digest of the batch and the index in it, for a request of a batch.
    var part: String?
    /// The caller, once it is known. The requests of a batch share it.
    let noted: NotedCaller

    /// The name of a caller, for the log, and the account whose erasure has begun.
    final class NotedCaller: Sendable {
        private let value = Mutex<(name: String?, erased: Account?)>((nil, nil))

        var name: String? { value.withLock { $0.name } }
        var erased: Account? { value.withLock { $0.erased } }

        func set(_ name: String) { value.withLock { $0.name = name } }
        func set(erased account: Account) { value.withLock { $0.erased = account } }
    }

    /// The text that two requests have in common if one may be a repetition of the other. It lacks the password of a
    /// user, of which no fast digest may be kept.
    var content: String {
        let isOfObject = path.first == "classes" && path.dropFirst().first != "_User"
        let members = JSON.object(body.filter { isOfObject || $0.key != "password" }).canonicalText
        return [method, path.joined(separator: "/"), part ?? "", members].joined(separator: "\n")
    }

    /// The longest body, in bytes.
    static let byteLimit = 1 << 16

    /// Reads a request whose path is below `root`.
    ///
    /// - Throws: ``ParseError`` for a malformed request.
    init(_ request: ServiceRequest, root: String) throws(ParseError) {
        noted = NotedCaller()
        let fields = request.head.headerFields
        let target = request.head.path ?? ""
        let path = target.prefix { $0 != "?" }
        self.path = path.dropFirst(root.count).split(separator: "/").map(String.init)
        method = request.head.method.rawValue
        peer = request.peer
        applicationID = Self.field("X-Parse-Application-Id", fields)
        sessionToken = Self.field("X-Parse-Session-Token", fields)
        installationID = Self.field("X-Parse-Installation-Id", fields)
        requestID = Self.field("X-Parse-Request-Id", fields)
        clientVersion = Self.field("X-Parse-Client-Version", fields)
        byteCount = request.body.count
        guard byteCount <= Self.byteLimit else {
            throw ParseError(116, "the body must have at most \(Self.byteLimit) bytes, not \(byteCount)", status: 413)
        }
        try readBody(request.body)
        try readQuery(target.dropFirst(path.count + 1))
        if method == "GET" { parameters.merge(body) { $1 } }
        if Self.hasProcessID(clientVersion) { requestID = nil }
    }

    /// A request of a batch, with the session and the installation of `outer`.
    init(method: String, path: [String], body: [String: JSON], in outer: ParseRequest) {
        (self.method, self.path, noted) = (method, path, outer.noted)
        self.body = body.filter { !$0.key.hasPrefix("_") }
        (applicationID, sessionToken) = (outer.applicationID, outer.sessionToken)
        (installationID, peer) = (outer.installationID, outer.peer)
        byteCount = 0
        if method == "GET" { parameters = self.body }
    }

    /// Returns `true` for the SDK of Apple's platforms. From 4.1.0 on, it sends one request id in all requests of a
    /// process, also in one that an earlier process has stored on the disk.
    private static func hasProcessID(_ clientVersion: String?) -> Bool {
        let name = clientVersion?.prefix { !$0.isNumber } ?? ""
        return ["i", "osx", "apple-tv", "apple-watch"].contains(name)
    }

    private mutating func readBody(_ bytes: [UInt8]) throws(ParseError) {
        guard !bytes.isEmpty else { return }
        let value: JSON
        do throws(InputError) { value = try JSON(parsing: bytes) } catch {
            throw ParseError(107, "the body must be a JSON object: \(error)")
        }
        guard case .object(let members) = value else {
            throw ParseError(107, "the body must be a JSON object, not \(value.typeName)")
        }
        for (name, member) in members {
            switch name {
            case "_method": if method == "POST", let text = member.string { method = text.uppercased() }
            case "_ApplicationId": applicationID = applicationID ?? member.string
            case "_SessionToken": sessionToken = sessionToken ?? member.string
            case "_InstallationId": installationID = installationID ?? member.string
            case "_RequestId": requestID = requestID ?? member.string
            case "_ClientVersion": clientVersion = clientVersion ?? member.string
            case _ where name.hasPrefix("_"): break
            default: body[name] = member
            }
        }
    }

    private mutating func readQuery(_ text: Substring) throws(ParseError) {
        guard !text.isEmpty else { return }
        // In a query of a form, a plus sign is a space.
        let plain = String(text.map { $0 == "+" ? " " : $0 })
        guard let query = WireQuery(plain[...]) else {
            throw ParseError(107, "the query must be percent-encoded UTF-8")
        }
        for pair in query.pairs where !pair.name.hasPrefix("_") { parameters[pair.name] = .string(pair.value) }
    }

    private static func field(_ name: String, _ fields: HTTPFields) -> String? {
        guard let name = HTTPField.Name(name), let value = fields[name], (1...256).contains(value.utf8.count) else {
            return nil
        }
        return value
    }
}
