public import HTTPTypes
import SyncCore
import SyncProtocol

/// What a request is about: the path and the query of its request line, taken apart once.
struct WireTarget: Sendable {
    /// Everything that there is under `/v1`.
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
        case recoveryCode(of: String)
        case erasure(of: String)
        case sessions
        case devices
        case approvals
        case entitlements
        case catalog
    }

    let place: Place
    let query: WireQuery

    /// Why a request line names nothing.
    enum Failure: Error {
        case absent
        case malformed(String)
    }

    /// Reads the request line of `request`.
    init(_ request: HTTPRequest) throws(Failure) {
        let path = request.path ?? ""
        guard let mark = path.utf8.firstIndex(of: UInt8(ascii: "?")) else {
            query = WireQuery()
            place = try Self.place(path)
            return
        }
        guard let query = WireQuery(path[path.utf8.index(after: mark)...]) else {
            throw .malformed("the query is not percent-encoded UTF-8")
        }
        self.query = query
        place = try Self.place(String(path[..<mark]))
    }

    private static let fixed: [String: Place] = [
        "/v1/kv": .keys, "/v1/batch": .batch, "/v1/changes": .changes, "/v1/accounts": .accounts,
        "/v1/accounts/self": .ownAccount, "/v1/accounts/self/password": .ownPassword,
        "/v1/accounts/self/recovery-codes": .ownRecoveryCodes, "/v1/accounts/self/erasure": .ownErasure,
        "/v1/sessions": .sessions, "/v1/devices": .devices, "/v1/devices/approvals": .approvals,
        "/v1/entitlements": .entitlements, "/v1/catalog": .catalog,
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
        // In a path an ampersand is a character as any other.
        let part = String(decoding: parts[3], as: UTF8.self).replacing("&", with: "%26")
        guard let name = WireQuery(("name=" + part)[...])?["name"], !name.isEmpty
        else { throw .malformed("an account's name is percent-encoded UTF-8") }
        switch String(decoding: parts[4], as: UTF8.self) {
        case "recovery-code": return .recoveryCode(of: name)
        case "erasure": return .erasure(of: name)
        default: throw .absent
        }
    }
}

extension WireTarget.Place {
    /// Whether it erases an account.
    var isErasure: Bool {
        switch self {
        case .ownErasure, .erasure: true
        default: false
        }
    }

    /// As the OpenAPI document writes it.
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
        case .recoveryCode: "/v1/accounts/{name}/recovery-code"
        case .erasure: "/v1/accounts/{name}/erasure"
        case .sessions: "/v1/sessions"
        case .devices: "/v1/devices"
        case .approvals: "/v1/devices/approvals"
        case .entitlements: "/v1/entitlements"
        case .catalog: "/v1/catalog"
        }
    }

    /// What it takes.
    var methods: [HTTPRequest.Method] {
        switch self {
        case .keys, .changes, .ownAccount, .entitlements, .catalog: [.get]
        case .key: [.get, .put, .delete]
        case .batch, .ownRecoveryCodes, .ownErasure, .recoveryCode, .erasure, .devices, .approvals: [.post]
        case .accounts: [.get, .post]
        case .ownPassword: [.put]
        case .sessions: [.post, .delete]
        }
    }

    /// As `Allow` has it: `HEAD` is answered wherever `GET` is, and `OPTIONS` everywhere.
    var allowed: String {
        let names = methods.flatMap { $0 == .get ? [.get, .head] : [$0] } + [.options]
        return names.map(\.rawValue).joined(separator: ", ")
    }
}

extension Service {
    /// Each path under `/v1` as the OpenAPI document writes it, and what it takes.
    public static var routes: [(path: String, methods: [HTTPRequest.Method])] {
        let name = "a"
        guard let key = try? EntryKey(name) else { return [] }
        let places: [WireTarget.Place] = [
            .keys, .key(key), .batch, .changes, .accounts, .ownAccount, .ownPassword, .ownRecoveryCodes, .ownErasure,
            .recoveryCode(of: name), .erasure(of: name), .sessions, .devices, .approvals, .entitlements, .catalog,
        ]
        return places.map { ($0.route, $0.methods) }
    }
}
