import HTTPTypes
import NIOCore

/// Who is at the other end of a connection.
enum Peer {
    /// The address without port; an IPv4 address as such where the system writes it into an IPv6 one.
    static func address(of channel: any Channel) -> String {
        let text = channel.remoteAddress?.ipAddress ?? "unknown"
        let prefix = "::ffff:"
        return text.hasPrefix(prefix) && text.contains(".") ? String(text.dropFirst(prefix.count)) : text
    }

    /// Whether each request has the connection for itself. A stream of HTTP/2 is a channel in a channel.
    static func isHTTP1(_ channel: any Channel) -> Bool { channel.parent?.parent == nil }

    /// Whether it is a program of this machine that asked for itself. A proxy of this machine asks for others, and says
    /// so.
    static func isLocal(_ address: String, _ fields: HTTPFields) -> Bool {
        let forwarding = ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"].compactMap { HTTPField.Name($0) }
        guard forwarding.allSatisfy({ fields[$0] == nil }) else { return false }
        return address == "::1" || address.hasPrefix("127.")
    }
}
