import ArgumentParser
import CurlTransport
import Entitlements
import Foundation
import SyncProtocol
import SyncServer
import SyncService

/// The server's address, certificate and secret files.
struct ListenOptions: ParsableArguments {
    @Option(help: .setting("listen")) var listen: String?
    @Option(help: .setting("tls-certificate")) var tlsCertificate: String?
    @Option(help: .setting("tls-key")) var tlsKey: String?
    @Flag(help: .setting("insecure-http")) var insecureHTTP = false

    @OptionGroup var secrets: SecretOptions

    func configuration() throws(Failure) -> ListenerConfiguration {
        let text = listen ?? "127.0.0.1:8440"
        let (host, port) = try reading("listen") { try Self.address(text) }
        var configuration = ListenerConfiguration(host: host, port: port)
        let files = [("tls-certificate", tlsCertificate), ("tls-key", tlsKey)]
        if let paths = try together(files) {
            for (name, path) in zip(files.map(\.0), paths) where access(path, F_OK) != 0 {
                // A missing file is reported before the store is opened.
                guard [ENOENT, ENOTDIR].contains(errno) else { continue }
                throw Failure(.notFound, "--\(name): \(path.singleLine): no such file", of: [name])
            }
            try secrets.check(paths[1], of: "tls-key")
            configuration.certificate = .init(chainFile: paths[0], keyFile: paths[1])
        } else if !insecureHTTP, !Self.isLoopback(host) {
            throw Failure(
                .usage,
                "--listen: other machines can reach \(text.singleLine), so passwords need TLS: pass "
                    + "--tls-certificate and --tls-key, or --insecure-http behind a proxy that provides TLS",
                of: ["listen", "tls-certificate", "tls-key", "insecure-http"])
        }
        return configuration
    }

    /// Parses `host:port`, with an IPv6 address in brackets.
    private static func address(_ text: String) throws(Failure) -> (host: String, port: Int) {
        let failure = Failure(.usage, "--listen must be HOST:PORT, such as 127.0.0.1:8440, not \"\(text.singleLine)\"")
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw failure
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        } else if host.contains(":") {
            throw failure
        }
        guard !host.isEmpty, !host.contains(where: { $0.isWhitespace || "/@[]".contains($0) }) else { throw failure }
        return (host, Int(port))
    }

    static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || ClientAddress(host)?.isLoopback == true
    }
}

/// The server's name, its operator, and the rules for accounts.
struct ServiceOptions: ParsableArguments {
    @Option(help: .setting("name")) var name: String?
    @Option(help: .setting("operator-token-file")) var operatorTokenFile: String?
    @Option(name: .customLong("origin"), help: .setting("origin")) var origins: [String] = []
    @Flag(help: .setting("no-sign-up")) var noSignUp = false
    @Flag(help: .setting("sign-up")) var signUp = false
    @Option(help: .setting("ownership")) var ownership: String?

    @Flag(
        help: ArgumentHelp(
            "Accept a clock that is more than 5 minutes behind the store's latest time. Use it once, after the clock "
                + "was wrongly ahead."))
    var acceptClock = false

    @OptionGroup(title: CatalogOptions.title) var catalog: CatalogOptions

    /// - Parameters:
    ///   - hasIssuer: `true` if tokens of another issuer are accepted.
    ///   - secrets: the rule for the file with the operator's token.
    func configuration(
        _ listener: ListenerConfiguration, hasIssuer: Bool, secrets: SecretOptions
    ) throws -> ServiceConfiguration {
        let name = name ?? listener.url(port: listener.port == 0 ? nil : listener.port)
        guard let url = URL(string: name), ["http", "https"].contains(url.scheme ?? ""), url.host() != nil,
            !name.contains(where: \.isWhitespace)
        else {
            throw Failure(
                .usage, "--name must be a URL such as https://sync.example.com, not \"\(name.singleLine)\"",
                of: ["name"])
        }
        var configuration = ServiceConfiguration(name: name)
        configuration.version = Version.number
        if catalog.file != nil {
            let loaded = try reading("catalog") { try catalog.load() }
            configuration.catalog = loaded
            configuration.catalogJSON = try Self.served(loaded)
        }
        configuration.allowsSignUp = try allowsSignUp(besideIssuer: hasIssuer)
        configuration.isClockAccepted = acceptClock
        configuration.origins = try reading("origin", each: origins, Self.origin)
        if let path = operatorTokenFile {
            try secrets.check(path, of: "operator-token-file")
            configuration.operatorToken = try reading("operator-token-file") { try Self.operatorToken(path) }
        }
        configuration.ownership = try Setting.choice(ownership, of: "ownership") ?? configuration.ownership
        return configuration
    }

    /// The catalogue as the server offers it. Apps need no content rules, and earlier versions refuse members that they
    /// do not know.
    static func served(_ catalog: Catalog) throws -> [UInt8] {
        let served = try Catalog(
            products: catalog.products, entitlements: catalog.entitlements, policy: catalog.policy,
            offerings: catalog.offerings)
        return Array(served.json.text().utf8)
    }

    /// Returns `true` if clients may create accounts. With an issuer they need `--sign-up`, because a new account can
    /// take the name of one of the issuer's users.
    private func allowsSignUp(besideIssuer hasIssuer: Bool) throws(Failure) -> Bool {
        guard !(signUp && noSignUp) else { throw Failure.exclude("sign-up", "no-sign-up") }
        return !noSignUp && (!hasIssuer || signUp)
    }

    private static func origin(_ text: String) throws -> String {
        // The form that browsers send (RFC 6454, section 6.2): lower case, nothing after the port.
        guard let url = URL(string: text), let scheme = url.scheme, let host = url.host(), !host.isEmpty,
            text == "\(scheme)://\(host)" + (url.port.map { ":\($0)" } ?? ""), text == text.lowercased()
        else {
            throw Failure(.usage, "--origin must be scheme://host or scheme://host:port, not \"\(text.singleLine)\"")
        }
        return text
    }

    private static func operatorToken(_ path: String) throws -> String {
        let token = try readText(path).trimmingCharacters(in: .whitespacesAndNewlines)
        // The characters of a bearer token (RFC 6750, section 2.1).
        let isToken = token.utf8.allSatisfy { isalnum(Int32($0)) != 0 || "-._~+/=".utf8.contains($0) }
        guard isToken, token.utf8.count >= 32 else {
            throw Failure(
                .usage,
                "\(path): an operator's token must be one line of at least 32 characters of a-z A-Z 0-9 - . _ ~ + / = "
                    + "(create one with openssl rand -hex 32)")
        }
        return token
    }
}

/// Another service whose tokens the server accepts.
struct IssuerOptions: ParsableArguments {
    @Option(help: .setting("issuer")) var issuer: String?
    @Option(help: .setting("audience")) var audience: String?
    @Option(help: .setting("jwks")) var jwks: String?

    /// `true` if an issuer is configured.
    var isGiven: Bool { issuer != nil }

    func issuers(of server: String) throws(Failure) -> [ExternalIssuer] {
        guard let values = try together([("issuer", issuer), ("audience", audience), ("jwks", jwks)]) else { return [] }
        guard values[0] != server else {
            throw Failure(.usage, "--issuer must not be the server's own name", of: ["issuer", "name"])
        }
        let keys = try reading("jwks") { try Self.source(values[2]) }
        return [ExternalIssuer(name: values[0], audience: values[1], keys: keys)]
    }

    private static func source(_ text: String) throws -> ExternalIssuer.KeySource {
        guard text.contains("://") else {
            guard FileManager.default.isReadableFile(atPath: text) else {
                throw Failure(.usage, "--jwks: \(text.singleLine): no such file, or permission denied")
            }
            return .file(text)
        }
        let isSecure = text.hasPrefix("https://")
        let host = URL(string: text)?.host() ?? ""
        // Keys that can be changed in transit prove nothing.
        guard isSecure || (text.hasPrefix("http://") && ListenOptions.isLoopback(host)), !host.isEmpty else {
            throw Failure(.usage, "--jwks must be a file or an https:// URL, not \"\(text.singleLine)\"")
        }
        return .url(text, try CurlClient())
    }
}

extension ListenerConfiguration {
    /// The URL at which a server listens; without a port if `port` is `nil`.
    func url(port: Int?) -> String {
        "\(certificate == nil ? "http" : "https")://\(ServerOptions.authority(host, port))"
    }
}

/// Returns `true` if a Boolean environment variable is set to 1, true or yes.
func isSet(_ name: String) throws(Failure) -> Bool {
    switch environmentVariable(name) {
    case nil, "0", "false", "no": false
    case "1", "true", "yes": true
    case let value?: throw Failure(.usage, "\(name) must be 1 or 0, not \"\(value.singleLine)\"")
    }
}
