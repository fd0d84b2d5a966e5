/// A server that speaks HTTP/1.1 without TLS.
package struct LoadTarget: Sendable {
    package let host: String
    package let port: Int

    package init(host: String, port: Int) { (self.host, self.port) = (host, port) }

    /// The value of the field `Host`.
    package var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == 80 ? name : "\(name):\(port)"
    }
}
