import HTTPTypes
import NIOCore

/// The other end of a connection.
enum Peer {
    /// The address without port; an IPv4 address as such where the system writes it into an IPv6 one.
    static func address(of channel: any Channel) -> String {
        let text = channel.remoteAddress?.ipAddress ?? "unknown"
        let prefix = "::ffff:"
        return text.hasPrefix(prefix) && text.contains(".") ? String(text.dropFirst(prefix.count)) : text
    }

    /// Whether a request is one of a program of this machine, made for itself. A proxy on this machine asks for others,
    /// and its fields say so.
    static func isLocal(_ address: String, _ fields: HTTPFields) -> Bool {
        let forwarding = ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"].compactMap { HTTPField.Name($0) }
        guard forwarding.allSatisfy({ fields[$0] == nil }) else { return false }
        return address == "::1" || address.hasPrefix("127.")
    }
}
