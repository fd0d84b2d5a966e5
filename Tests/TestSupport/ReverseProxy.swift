import Foundation

/// An Apache httpd with mod_proxy in front of a server of this machine. Needs Debian's package apache2-bin.
///
/// The proxy takes the client's address from ``clientField`` (mod_remoteip), so that one machine can simulate clients
/// with any address.
///
/// ```swift
/// let proxy = try ReverseProxy(to: server.port)
/// let answer = try ask(proxy.port, "GET", "/v1/kv/a", fields: ["\(ReverseProxy.clientField): 203.0.113.9"])
/// ```
public final class ReverseProxy: Sendable {
    /// The header field in which a test names the client's address.
    public static let clientField = "Test-Client"

    /// True if the proxy can be started.
    public static var isInstalled: Bool { ApacheProcess.isInstalled(with: modules) }

    /// The port on 127.0.0.1 on which it listens.
    public var port: Int { process.port }
    private let process: ApacheProcess

    private static let modules = ["proxy", "proxy_http", "remoteip"]

    /// Starts a proxy that forwards everything to port `target` of `host`, an address of this machine.
    ///
    /// - Throws: ``ApacheProcess/Failure``.
    public init(to target: Int, host: String = "127.0.0.1") throws {
        process = try ApacheProcess(modules: Self.modules) { _ in
            """
            RemoteIPHeader \(Self.clientField)
            RemoteIPInternalProxy 127.0.0.1
            ProxyPass / http://\(host):\(target)/
            """
        }
    }
}
