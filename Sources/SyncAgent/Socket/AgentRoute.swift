package import HTTPTypes
import SyncProtocol

/// The paths of the agent's socket.
package enum AgentRoute: Hashable, Sendable {
    case entitlements
    case access(String)
    case use(String)
    case transactions
    case sessions
    case events
    case status

    /// Parses the path of a request, without regard to its query. Returns `nil` for any other path.
    init?(path: String) {
        let plain = String(decoding: path.utf8.prefix { $0 != UInt8(ascii: "?") }, as: UTF8.self)
        switch plain {
        case "/v1/entitlements": self = .entitlements
        case "/v1/transactions": self = .transactions
        case "/v1/sessions": self = .sessions
        case "/v1/events": self = .events
        case "/v1/status": self = .status
        default:
            if let name = Self.name(in: plain, after: "/v1/access/") {
                self = .access(name)
            } else if let name = Self.name(in: plain, after: "/v1/use/") {
                self = .use(name)
            } else {
                return nil
            }
        }
    }

    /// The decoded rest of `path` after `prefix`, without further slashes.
    private static func name(in path: String, after prefix: String) -> String? {
        guard path.utf8.starts(with: prefix.utf8) else { return nil }
        let rest = String(decoding: path.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
        guard !rest.isEmpty, !rest.utf8.contains(UInt8(ascii: "/")) else { return nil }
        // An ampersand is an ordinary character in a path.
        return WireQuery(("name=" + rest.replacing("&", with: "%26"))[...])?["name"]
    }

    /// The path as the OpenAPI document writes it.
    package var path: String {
        switch self {
        case .entitlements: "/v1/entitlements"
        case .access: "/v1/access/{entitlement}"
        case .use: "/v1/use/{entitlement}"
        case .transactions: "/v1/transactions"
        case .sessions: "/v1/sessions"
        case .events: "/v1/events"
        case .status: "/v1/status"
        }
    }

    /// The accepted methods. `HEAD` is accepted wherever `GET` is.
    package var methods: [HTTPRequest.Method] {
        switch self {
        case .entitlements, .access, .events, .status: [.get]
        case .use, .transactions: [.post]
        case .sessions: [.post, .delete]
        }
    }

    /// All routes, with a placeholder for the entitlement.
    package static let all: [AgentRoute] = [
        .entitlements, .access("a"), .use("a"), .transactions, .sessions, .events, .status,
    ]
}
