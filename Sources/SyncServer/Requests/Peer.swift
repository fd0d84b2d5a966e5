import HTTPTypes
import NIOCore
import SyncService

/// The remote end of a connection.
struct Peer: Sendable {
    /// A client: its address without port, as text and as a number.
    struct Client: Sendable {
        var text: String
        var address: ClientAddress
        /// The user id of a local program at the other end of a Unix socket.
        var localUser: UInt32?

        /// All clients with an unknown address share one address, which is not in use in any network.
        init(_ text: String) {
            (self.text, address) = (text, ClientAddress(text) ?? ClientAddress(high: .max, low: .max))
        }

        /// A local program of a user. All programs of the user share one address.
        init(localUser: UInt32) {
            (text, address) = ("user \(localUser)", ClientAddress(high: .max, low: UInt64(localUser)))
            self.localUser = localUser
        }
    }

    private let own: Client
    /// True for a trusted proxy, which forwards the requests of other clients.
    let isProxy: Bool

    /// The address whose connection limit applies; `nil` for a trusted proxy.
    var connectionAddress: ClientAddress? { isProxy ? nil : own.address }

    init(_ text: String, _ proxies: TrustedProxies) { (own, isProxy) = (Client(text), proxies.contains(text)) }

    /// A local program of a user.
    init(localUser: UInt32) { (own, isProxy) = (Client(localUser: localUser), false) }

    /// The peer of `channel`. An IPv4-mapped IPv6 address is converted to IPv4.
    init(_ channel: any Channel, _ proxies: TrustedProxies) {
        let text = channel.remoteAddress?.ipAddress ?? "unknown"
        let prefix = "::ffff:"
        self.init(
            text.hasPrefix(prefix) && text.contains(".") ? String(text.dropFirst(prefix.count)) : text, proxies)
    }

    /// The client of a request with these fields.
    func client(of fields: HTTPFields, _ proxies: TrustedProxies) -> Client {
        isProxy ? Client(proxies.client(of: own.text, fields)) : own
    }

    /// Returns `true` if a request comes from a local program. A local proxy forwards the requests of other clients, so
    /// requests with forwarding fields do not count as local.
    static func isLocal(_ address: String, _ fields: HTTPFields) -> Bool {
        let forwarding = ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"].compactMap { HTTPField.Name($0) }
        guard forwarding.allSatisfy({ fields[$0] == nil }) else { return false }
        return address == "::1" || address.hasPrefix("127.")
    }
}
