import EntitlementSync
package import HTTPTypes
import SyncCore
import SyncProtocol

/// The target of a request: the path and the query of its request line, parsed once.
struct WireTarget: Sendable {
    /// The resources under `/v1`.
    enum Place: Hashable, Sendable {
        case keys
        case key(EntryKey)
        case batch
        case changes
        case accounts
        case ownAccount
        case ownPassword
        case ownRecoveryCodes
        case ownErasure
        case ownToken
        case ownExport
        case transactions
        case notifications(NotifyingStore)
        case recoveryCode(of: String)
        case erasure(of: String)
        case sessions
        case devices
        case approvals
        case entitlements
        case grants
        case contentSessions
        case contentCheck
        case keySet
        case catalog
    }

    /// The path of the server's public keys (RFC 8615).
    static let keySetPath = "/.well-known/jwks.json"

    let place: Place
    let query: WireQuery

    /// The reason why a request line has no target.
    enum Failure: Error {
        case absent
        case malformed(String)
    }

    /// Parses the request line of `request`.
    init(_ request: HTTPRequest) throws(Failure) {
        let path = request.path ?? ""
        guard let mark = path.utf8.firstIndex(of: UInt8(ascii: "?")) else {
            query = WireQuery()
            place = try Self.place(path)
            return
        }
        guard let query = WireQuery(path[path.utf8.index(after: mark)...]) else {
            throw .malformed("the query must be percent-encoded UTF-8")
        }
        self.query = query
        place = try Self.place(String(path[..<mark]))
    }

    private static let fixed: [String: Place] = [
        "/v1/kv": .keys, "/v1/batch": .batch, "/v1/changes": .changes, "/v1/accounts": .accounts,
        "/v1/accounts/self": .ownAccount, "/v1/accounts/self/password": .ownPassword,
        "/v1/accounts/self/recovery-codes": .ownRecoveryCodes, "/v1/accounts/self/erasure": .ownErasure,
        "/v1/accounts/self/token": .ownToken, "/v1/accounts/self/export": .ownExport,
        "/v1/transactions": .transactions, "/v1/notifications/app-store": .notifications(.appStore),
        "/v1/notifications/google-play": .notifications(.googlePlay),
        "/v1/notifications/stripe": .notifications(.stripe),
        "/v1/sessions": .sessions, "/v1/devices": .devices, "/v1/devices/approvals": .approvals,
        "/v1/entitlements": .entitlements, "/v1/grants": .grants,
        WireTarget.keySetPath: .keySet, "/v1/content-sessions": .contentSessions, "/v1/content-check": .contentCheck,
        "/v1/catalog": .catalog,
    ]

    private static func place(_ path: String) throws(Failure) -> Place {
        if path.utf8.starts(with: WirePath.prefix.utf8) {
            do throws(BackendError) {
                return .key(try WirePath.key(ofPath: path))
            } catch {
                throw .malformed(error.message)
            }
        }
        if let place = fixed[path] { return place }
        let parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count == 5, path.utf8.starts(with: "/v1/accounts/".utf8) else { throw .absent }
        // An ampersand is an ordinary character in a path.
        let part = String(decoding: parts[3], as: UTF8.self).replacing("&", with: "%26")
        guard let name = WireQuery(("name=" + part)[...])?["name"], !name.isEmpty
        else { throw .malformed("an account's name must be percent-encoded UTF-8") }
        switch String(decoding: parts[4], as: UTF8.self) {
        case "recovery-code": return .recoveryCode(of: name)
        case "erasure": return .erasure(of: name)
        default: throw .absent
        }
    }
}

extension WireTarget {
    /// Refuses unknown query parameters of listings and of the operator's routes, where a misspelt parameter would lead
    /// to a wrong answer. Other routes ignore unknown parameters.
    func checkQuery(_ method: HTTPRequest.Method) throws(RequestError) {
        switch place {
        case .keys: try query.check(known: ["prefix", "after", "limit"])
        case .changes: try query.check(known: ["prefix", "after", "limit"])
        case .accounts where method == .get: try query.check(known: ["after", "limit"])
        case .recoveryCode, .erasure: try query.check(known: [])
        default: break
        }
    }
}

extension WireTarget.Place {
    /// The name of the account that an operator's request concerns, if it concerns one.
    var subject: String? {
        switch self {
        case .recoveryCode(let name), .erasure(let name): return name
        case .key(let key) where key.hasPrefix(LedgerKeys.accountPrefix):
            let name = key.text.dropFirst(LedgerKeys.accountPrefix.count).prefix { $0 != "/" }
            return String(name).replacing("%2F", with: "/").replacing("%25", with: "%")
        default: return nil
        }
    }

    /// True if the request erases an account.
    var isErasure: Bool {
        switch self {
        case .ownErasure, .erasure: true
        default: false
        }
    }

    /// The path as in the OpenAPI document.
    var route: String {
        switch self {
        case .keys: "/v1/kv"
        case .key: "/v1/kv/{key}"
        case .batch: "/v1/batch"
        case .changes: "/v1/changes"
        case .accounts: "/v1/accounts"
        case .ownAccount: "/v1/accounts/self"
        case .ownPassword: "/v1/accounts/self/password"
        case .ownRecoveryCodes: "/v1/accounts/self/recovery-codes"
        case .ownErasure: "/v1/accounts/self/erasure"
        case .ownToken: "/v1/accounts/self/token"
        case .ownExport: "/v1/accounts/self/export"
        case .transactions: "/v1/transactions"
        case .notifications(let store): "/v1/notifications/\(store.rawValue)"
        case .recoveryCode: "/v1/accounts/{name}/recovery-code"
        case .erasure: "/v1/accounts/{name}/erasure"
        case .sessions: "/v1/sessions"
        case .devices: "/v1/devices"
        case .approvals: "/v1/devices/approvals"
        case .entitlements: "/v1/entitlements"
        case .grants: "/v1/grants"
        case .contentSessions: "/v1/content-sessions"
        case .contentCheck: "/v1/content-check"
        case .keySet: WireTarget.keySetPath
        case .catalog: "/v1/catalog"
        }
    }

    /// The accepted methods, in addition to `HEAD` and `OPTIONS`.
    var methods: [HTTPRequest.Method] {
        switch self {
        case .keys, .changes, .ownAccount, .ownExport, .entitlements, .grants, .contentCheck, .keySet, .catalog: [.get]
        case .key: [.get, .put, .delete]
        case .batch, .ownRecoveryCodes, .ownErasure, .recoveryCode, .erasure, .devices, .approvals, .transactions,
            .notifications, .contentSessions:
            [.post]
        case .accounts, .ownToken: [.get, .post]
        case .ownPassword: [.put]
        case .sessions: [.post, .delete]
        }
    }

    /// The value of `Allow`. `HEAD` is accepted wherever `GET` is, and `OPTIONS` everywhere.
    var allowed: String {
        let names = methods.flatMap { $0 == .get ? [.get, .head] : [$0] } + [.options]
        return names.map(\.rawValue).joined(separator: ", ")
    }
}

extension EntitlementService {
    /// All paths under `/v1` as in the OpenAPI document, with their methods.
    package static var routes: [(path: String, methods: [HTTPRequest.Method])] {
        let name = "a"
        guard let key = try? EntryKey(name) else { return [] }
        let places: [WireTarget.Place] = [
            .keys, .key(key), .batch, .changes, .accounts, .ownAccount, .ownPassword, .ownRecoveryCodes, .ownErasure,
            .ownToken, .ownExport, .recoveryCode(of: name), .erasure(of: name), .sessions, .devices, .approvals,
            .entitlements, .grants, .contentSessions, .contentCheck, .keySet, .catalog, .transactions,
            .notifications(.appStore), .notifications(.googlePlay), .notifications(.stripe),
        ]
        return places.map { ($0.route, $0.methods) }
    }
}
