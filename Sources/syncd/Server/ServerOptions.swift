import ArgumentParser
import CurlTransport
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import SyncProtocol

/// How a server is reached, where a store is one.
struct ServerOptions: ParsableArguments {
    static let title = "Server options"

    @Option(
        help: ArgumentHelp(
            "Where the log-in at a server is kept; by default a file for each store and server in "
                + "$XDG_STATE_HOME/syncd (SYNCD_CREDENTIALS). For webdav(s): the users and passwords of servers, "
                + "{\"webdavs://HOST\":{\"user\":…,\"password\":…}} (or SYNCD_WEBDAV_PASSWORD with the password "
                + "itself).", valueName: "file"))
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

    @OptionGroup var secrets: SecretOptions

    /// The transport to servers.
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
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), let host = url.host()?.lowercased(),
            !host.isEmpty, ["http", "https"].contains(scheme)
        else {
            throw Failure(.usage, "\(option): \"\(text.singleLine)\" is no server: write https://HOST")
        }
        guard url.user() == nil, url.password() == nil, url.query() == nil, url.fragment() == nil else {
            throw Failure(
                .usage, "\(option): the address of a server has no user, password, query or fragment; log in instead")
        }
        let plain = try requireSafe(host, isEncrypted: scheme == "https", text, option: option)
        var path = url.path()
        while path.hasSuffix("/") { path.removeLast() }
        return "\(scheme)://\(Self.authority(plain, url.port))" + path
    }

    /// Throws where others on the way could read what is sent. Answers the host without brackets.
    func requireSafe(
        _ host: String, isEncrypted: Bool, _ text: String, option: String
    ) throws(Failure) -> String {
        let isTold = try isSet("SYNCD_INSECURE_HTTP")
        let plain = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        guard isEncrypted || insecureHTTP || isTold || ListenOptions.isLoopback(plain) else {
            throw Failure(
                .usage,
                "\(option): \(text.singleLine) would send passwords and purchases so that others can read them: write "
                    + "\(StoreURL.isWebDAV(text) ? "webdavs" : "https")://, or --insecure-http where nobody else is on "
                    + "the way")
        }
        return plain
    }

    /// Host and port as they stand in an address.
    static func authority(_ host: String, _ port: Int?) -> String {
        (host.contains(":") ? "[\(host)]" : host) + (port.map { ":\($0)" } ?? "")
    }

    /// The operator's token; `nil` if none was given.
    func operatorToken() throws -> String? {
        guard let tokenFile else { return environmentVariable("SYNCD_TOKEN") }
        try secrets.check(tokenFile, option: "--token-file")
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
        return RetryBackend(backend, policy: Self.retries, host: host)
    }

    /// A hiccup of the network is not worth a failed command; a server that is away is told soon.
    static let retries = RetryPolicy(
        maximumAttempts: 3, firstDelay: .milliseconds(200), maximumTotalDelay: .seconds(3))
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
