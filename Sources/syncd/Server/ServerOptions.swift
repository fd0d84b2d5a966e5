import ArgumentParser
import CurlTransport
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import SyncProtocol

/// How a server is reached, where a store is one.
struct ServerOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Where the log-in at a server is kept; by default a file for each store and server in "
                + "$XDG_STATE_HOME/syncd (SYNCD_CREDENTIALS).", valueName: "file"))
    var credentials: String?

    @Option(
        help: ArgumentHelp(
            "A file with the operator's token of a server, a line (or SYNCD_TOKEN with the token itself).",
            valueName: "file"))
    var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            "Believe the certificates in this file, PEM, and no others (SYNCD_CA_FILE).", valueName: "file"))
    var caFile: String?

    @Flag(help: "Send passwords and purchases to a server without TLS (SYNCD_INSECURE_HTTP=1).")
    var insecureHTTP = false

    /// What carries requests to servers.
    func transport() throws(Failure) -> any HTTPTransport {
        var configuration = CurlClient.Configuration()
        configuration.userAgent = "syncd/\(SyncD.configuration.version)"
        if let file = caFile ?? environmentVariable("SYNCD_CA_FILE") {
            guard access(file, R_OK) == 0 else { throw Failure(.notFound, "--ca-file: \(file): it cannot be read") }
            configuration.trust = .file(file)
        }
        do throws(TransportError) { return try CurlClient(configuration) } catch {
            throw Failure(.failed, error.message)
        }
    }

    /// The address of a server as it is compared and kept: `https://host:port`, no slash at the end.
    ///
    /// - Parameter option: the option or argument that says so, for the error.
    func origin(_ text: String, option: String) throws(Failure) -> String {
        let isTold = try isSet("SYNCD_INSECURE_HTTP")
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), let host = url.host()?.lowercased(),
            !host.isEmpty, ["http", "https"].contains(scheme)
        else {
            throw Failure(.usage, "\(option): \"\(text.singleLine)\" is no server: write https://HOST")
        }
        guard url.user() == nil, url.password() == nil, url.query() == nil, url.fragment() == nil else {
            throw Failure(
                .usage, "\(option): the address of a server has no user, password, query or fragment; log in instead")
        }
        let plain = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        guard scheme == "https" || insecureHTTP || isTold || ListenOptions.isLoopback(plain) else {
            throw Failure(
                .usage,
                "\(option): \(text.singleLine) would send passwords and purchases so that others can read them: write "
                    + "https://, or --insecure-http where nobody else is on the way")
        }
        let isIPv6 = plain.contains(":")
        var path = url.path()
        while path.hasSuffix("/") { path.removeLast() }
        return "\(scheme)://\(isIPv6 ? "[\(plain)]" : plain)" + (url.port.map { ":\($0)" } ?? "") + path
    }

    /// The operator's token; `nil` where none was given.
    func operatorToken() throws -> String? {
        guard let tokenFile else { return environmentVariable("SYNCD_TOKEN") }
        let text = try readDocument(tokenFile) { String(decoding: $0, as: UTF8.self) }
        let token = text.trimmingCharacters(in: .whitespacesAndNewlines)
        guard !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Failure(.usage, "--token-file: \(tokenFile): the token is one line of visible characters")
        }
        return token
    }

    /// The store behind the server at `text`, all of it, for the operator.
    func operatorStore(_ text: String, option: String) throws -> any KeyValueBackend {
        let origin = try origin(text, option: option)
        guard let token = try operatorToken() else {
            throw Failure(
                .refused, "\(origin): only its operator sees all of a server's store: give --token-file or SYNCD_TOKEN")
        }
        return try store(at: origin, transport: transport(), host: .system) { (refused) throws(BackendError) in token }
    }

    /// The store behind the server at `origin`, for whoever `token` is of.
    func store(
        at origin: String, transport: any HTTPTransport, host: HostServices, token: @escaping HTTPBackend.Token
    ) throws(BackendError) -> any KeyValueBackend {
        let backend = try HTTPBackend(server: origin, transport: transport, token: token)
        // A hiccup of the network is not worth a failed command; a server that is away is told soon.
        let policy = RetryPolicy(maximumAttempts: 3, firstDelay: .milliseconds(200), maximumTotalDelay: .seconds(3))
        return RetryBackend(backend, policy: policy, host: host)
    }
}

extension StoreOptions {
    /// The server that the remote is; `nil` where it is another store, or there is none.
    ///
    /// - Parameter account: whose session it must be; `nil` for whoever is logged in.
    func remoteServer(of account: String?) throws -> RemoteServer? {
        guard let text = remoteText, StoreURL.isServer(text) else { return nil }
        guard let localText else { throw StoreOptions.localIsMissing }
        let local = try StoreURL(localText, option: "--local")
        let origin = try server.origin(text, option: "--remote")
        let path =
            try server.credentials ?? environmentVariable("SYNCD_CREDENTIALS")
            ?? CredentialFile.usualPath(local: local.identity, server: origin)
        return try RemoteServer(
            origin, transport: server.transport(),
            credentials: CredentialFile(path: path, local: local.identity, server: origin), account: account)
    }
}

extension StoreURL {
    /// The same text for the same place on this machine.
    fileprivate var identity: String {
        let kind = text.prefix { $0 != ":" }
        return location.map { "\(kind):\($0.path)" } ?? text
    }
}
