import ArgumentParser
import Checksums
import CurlTransport
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import SyncProtocol

/// The credentials and the transport for stores on servers.
struct ServerOptions: ParsableArguments {
    static let title = "Server options"

    @Option(
        help: ArgumentHelp(
            "The file in which to keep the session on a server (SYNCD_CREDENTIALS; default: one for each store and "
                + "server in $XDG_STATE_HOME/syncd). For webdav(s): a file with "
                + "{\"webdavs://HOST\":{\"user\":…,\"password\":…}} (or set SYNCD_WEBDAV_PASSWORD).", valueName: "file")
    )
    var credentials: String?

    @Option(
        help: ArgumentHelp(
            "A file with the token of the server's operator on one line (or set SYNCD_TOKEN).",
            valueName: "file"))
    var tokenFile: String?

    @Option(help: .setting("ca-file", of: .run)) var caFile: String?
    @Flag(help: .setting("insecure-http", of: .run)) var insecureHTTP = false

    @OptionGroup var secrets: SecretOptions

    /// The HTTP transport for requests to servers.
    func transport() throws -> any HTTPTransport {
        var configuration = CurlClient.Configuration()
        configuration.userAgent = "syncd/\(Version.number)"
        if let file = caFile ?? environmentVariable("SYNCD_CA_FILE") {
            try reading("ca-file") {
                guard try readText(file).contains("-----BEGIN ") else {
                    throw Failure(.usage, "--ca-file: \(file) has no certificate in PEM form")
                }
            }
            configuration.trust = .file(file)
        }
        do throws(TransportError) { return try CurlClient(configuration) } catch {
            throw Failure(.failed, error.message)
        }
    }

    /// The canonical URL of a server: `https://host:port` in lower case, without a slash at the end.
    ///
    /// - Parameter option: the name of the option or argument, for the error.
    func origin(_ text: String, option: String) throws(Failure) -> String {
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), let host = url.host()?.lowercased(),
            !host.isEmpty, ["http", "https"].contains(scheme)
        else {
            throw Failure(.usage, "\(option) must be https://HOST, not \"\(text.singleLine)\"")
        }
        guard url.user() == nil, url.password() == nil, url.query() == nil, url.fragment() == nil else {
            throw Failure(
                .usage,
                "\(option): the URL of a server must not have a user, password, query or fragment; log in instead")
        }
        let plain = try requireSafe(host, isEncrypted: scheme == "https", text, option: option)
        var path = url.path()
        while path.hasSuffix("/") { path.removeLast() }
        return "\(scheme)://\(Self.authority(plain, url.port))" + path
    }

    /// Throws if requests would be sent without TLS to another machine. Returns the host without brackets.
    func requireSafe(_ host: String, isEncrypted: Bool, _ text: String, option: String) throws(Failure) -> String {
        let isAllowed = try isSet("SYNCD_INSECURE_HTTP")
        let plain = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        guard isEncrypted || insecureHTTP || isAllowed || ListenOptions.isLoopback(plain) else {
            throw Failure(
                .usage,
                "\(option): \(text.singleLine) would send passwords and purchases unencrypted: write "
                    + "\(StoreURL.isWebDAV(text) ? "webdavs" : "https")://, or pass --insecure-http on a "
                    + "private network")
        }
        return plain
    }

    /// The host and port as written in a URL.
    static func authority(_ host: String, _ port: Int?) -> String {
        (host.contains(":") ? "[\(host)]" : host) + (port.map { ":\($0)" } ?? "")
    }

    /// The operator's token; `nil` if none is configured.
    func operatorToken() throws -> String? {
        guard let tokenFile else { return environmentVariable("SYNCD_TOKEN") }
        try secrets.check(tokenFile, of: "token-file")
        let token = try readText(tokenFile).trimmingCharacters(in: .whitespacesAndNewlines)
        guard !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Failure(.usage, "--token-file: \(tokenFile): the token must be one line of visible ASCII characters")
        }
        return token
    }

    /// The whole store of the server at `text`, which only the operator may read.
    func operatorStore(_ text: String, option: String) throws -> any KeyValueBackend {
        let origin = try origin(text, option: option)
        guard let token = try operatorToken() else {
            throw Failure(
                .refused,
                "\(origin): only the operator may read a server's whole store: pass --token-file or set SYNCD_TOKEN")
        }
        return try HTTPBackend(server: origin, transport: transport()) { (refused) throws(BackendError) in token }
            .retrying(Self.retries)
    }

    /// Retries for a few seconds: enough for a short network fault, and an unreachable server is reported soon.
    static let retries = RetryPolicy(maximumAttempts: 3, firstDelay: .milliseconds(200), maximumTotalDelay: .seconds(3))
}

extension ServerOptions {
    /// The folder for persistent state (XDG base directories); `nil` without a home folder.
    static var stateFolder: String? {
        if let state = environmentVariable("XDG_STATE_HOME"), state.hasPrefix("/") { return state + "/syncd" }
        if let home = environmentVariable("HOME"), home.hasPrefix("/") { return home + "/.local/state/syncd" }
        return nil
    }

    /// The default file for the session of a local store on a server, in the state folder.
    fileprivate static func usualSessionPath(local: String, server: String) throws(Failure) -> String {
        guard let folder = stateFolder else {
            throw Failure(.usage, "--credentials is required, because HOME is not set", of: ["credentials"])
        }
        let readable = server.map { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == ".") ? $0 : "-" }
        let digest = String(XXHash64.digest(of: Array("\(local)\n\(server)".utf8)), radix: 16)
        return "\(folder)/\(String(readable).prefix(80))-\(digest).json"
    }
}

extension ServerOptions {
    /// The server at `text`, with the session of a local store there.
    ///
    /// - Parameter account: the account that the session must have; `nil` for any.
    func remoteServer(_ text: String, local: StoreURL, account: String?) throws -> RemoteServer {
        let origin = try origin(text, option: "--remote")
        let path =
            try credentials ?? environmentVariable("SYNCD_CREDENTIALS")
            ?? Self.usualSessionPath(local: local.identity, server: origin)
        let session = SessionFile(
            path, local: local.identity, server: origin, adviceForOtherStores: "pass another --credentials")
        return try RemoteServer(origin, transport: transport(), credentials: session, account: account)
    }
}

extension StoreOptions {
    /// The remote, if it is a server; otherwise `nil`.
    ///
    /// - Parameter account: the account that the session must have; `nil` for any.
    func remoteServer(of account: String?) throws -> RemoteServer? {
        guard let text = remoteText, StoreURL.isServer(text) else { return nil }
        guard let localText else { throw StoreOptions.localIsMissing }
        return try server.remoteServer(text, local: StoreURL(localText, option: "--local"), account: account)
    }

    /// Throws if the remote is a server and no account is logged in. With another remote, `--account` is enough.
    func requireLogIn(of store: EntitlementStore) throws(Failure) {
        guard let text = remoteText, StoreURL.isServer(text), store.account == .anonymous else { return }
        throw Failure(.refused, "syncing needs an account, and no account is logged in (syncd account login NAME)")
    }
}

extension StoreURL {
    /// The same text for every spelling of the same store on this machine.
    fileprivate var identity: String {
        let kind = text.prefix { $0 != ":" }
        return location.map { "\(kind):\($0.path)" } ?? text
    }
}
