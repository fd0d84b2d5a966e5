import HTTPTypes
import NIOCore
import SyncService

/// The other end of a connection.
struct Peer: Sendable {
    /// A client: its address as text, without port, and as a number.
    struct Client: Sendable {
        var text: String
        var address: ClientAddress

        /// All clients whose address is not known share one, which no network has.
        init(_ text: String) {
            (self.text, address) = (text, ClientAddress(text) ?? ClientAddress(high: .max, low: .max))
        }
    }

    private let own: Client
    /// Indicates whether it is a trusted proxy, which forwards requests for others.
    let isProxy: Bool

    /// The address that the connection counts towards; `nil` for a trusted proxy.
    var connectionAddress: ClientAddress? { isProxy ? nil : own.address }

    init(_ text: String, _ proxies: TrustedProxies) { (own, isProxy) = (Client(text), proxies.contains(text)) }

    /// The peer of `channel`. An IPv4 address is written as such where the system writes it into an IPv6 one.
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

    /// Indicates whether a request is one of a program of this machine, made for itself. A proxy on this machine asks
    /// for others, and its fields say so.
    static func isLocal(_ address: String, _ fields: HTTPFields) -> Bool {
        let forwarding = ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"].compactMap { HTTPField.Name($0) }
        guard forwarding.allSatisfy({ fields[$0] == nil }) else { return false }
        return address == "::1" || address.hasPrefix("127.")
    }
}
