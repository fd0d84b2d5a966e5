package import NIOCore

/// The server that is asked.
package struct LoadTarget: Sendable {
    package let host: String
    package let port: Int
    /// What encrypts a connection, made anew for each; `nil` for plain HTTP.
    package let makeEncryption: (@Sendable () throws -> any ChannelHandler)?

    package init(
        host: String, port: Int, makeEncryption: (@Sendable () throws -> any ChannelHandler)? = nil
    ) {
        (self.host, self.port, self.makeEncryption) = (host, port, makeEncryption)
    }

    /// What requests say in their field `Host`.
    package var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (makeEncryption == nil ? 80 : 443) ? name : "\(name):\(port)"
    }
}
