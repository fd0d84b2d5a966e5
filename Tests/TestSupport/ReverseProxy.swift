import Foundation

/// Apache httpd with mod_proxy in front of a server of this machine: Debian's package apache2-bin.
///
/// For whom it asks it takes from ``clientField`` (mod_remoteip), as if that were the address that a connection comes
/// from, so that one machine can have clients everywhere.
///
/// ```swift
/// let proxy = try ReverseProxy(to: server.port)
/// let answer = try ask(proxy.port, "GET", "/v1/kv/a", fields: ["\(ReverseProxy.clientField): 203.0.113.9"])
/// ```
public final class ReverseProxy: Sendable {
    /// The field by which a test says where a client is.
    public static let clientField = "Test-Client"

    /// Whether it can be started at all.
    public static var isInstalled: Bool { ApacheProcess.isInstalled(with: modules) }

    /// Where it listens, on 127.0.0.1.
    public var port: Int { process.port }
    private let process: ApacheProcess

    private static let modules = ["proxy", "proxy_http", "remoteip"]

    /// Starts one that passes everything on to port `target` of `host`, an address of this machine.
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
