import ArgumentParser
import CurlTransport
import Entitlements
import Foundation
import SyncProtocol
import SyncServer
import SyncService

/// Where the server listens.
struct ListenOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Where to listen; port 0 for a free one (SYNCD_LISTEN).", valueName: "host:port"))
    var listen: String?

    @Option(help: ArgumentHelp("The certificate and its issuers', PEM (SYNCD_TLS_CERTIFICATE).", valueName: "file"))
    var tlsCertificate: String?

    @Option(help: ArgumentHelp("The certificate's private key, PEM (SYNCD_TLS_KEY).", valueName: "file"))
    var tlsKey: String?

    @Flag(help: "Listen without TLS on an address that others reach (SYNCD_INSECURE_HTTP=1).")
    var insecureHTTP = false

    @OptionGroup var secrets: SecretOptions

    func configuration() throws(Failure) -> ListenerConfiguration {
        let text = listen ?? environmentVariable("SYNCD_LISTEN") ?? "127.0.0.1:8440"
        let (host, port) = try Self.address(text)
        let files = (
            tlsCertificate ?? environmentVariable("SYNCD_TLS_CERTIFICATE"),
            tlsKey ?? environmentVariable("SYNCD_TLS_KEY")
        )
        var configuration = ListenerConfiguration(host: host, port: port)
        switch files {
        case (let chain?, let key?):
            try secrets.check(key, option: "--tls-key")
            configuration.certificate = .init(chainFile: chain, keyFile: key)
        case (nil, nil):
            let isMeant = try isSet("SYNCD_INSECURE_HTTP")
            guard insecureHTTP || isMeant || Self.isLoopback(host) else {
                throw Failure(
                    .usage,
                    "--listen: others reach \(text.singleLine) and could read passwords: give --tls-certificate and "
                        + "--tls-key, or --insecure-http behind a proxy that has them")
            }
        default: throw Failure(.usage, "--tls-certificate and --tls-key are given together, or not at all")
        }
        return configuration
    }

    /// `host:port`; an IPv6 address stands in brackets.
    private static func address(_ text: String) throws(Failure) -> (host: String, port: Int) {
        let failure = Failure(.usage, "--listen: \"\(text.singleLine)\" is not HOST:PORT, such as 127.0.0.1:8440")
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
        var address = in_addr()
        if inet_pton(AF_INET, host, &address) == 1 { return UInt32(bigEndian: address.s_addr) >> 24 == 127 }
        return host == "localhost" || host == "::1"
    }
}

/// What the server does.
struct ServiceOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The address that clients know the server by, in its tokens; that of --listen when not given (SYNCD_NAME).",
            valueName: "url"))
    var name: String?

    @Option(
        help: ArgumentHelp("A file with the operator's token, a line (SYNCD_OPERATOR_TOKEN_FILE).", valueName: "file"))
    var operatorTokenFile: String?

    @Option(
        name: .customLong("origin"),
        help: ArgumentHelp(
            "A web page elsewhere that may ask, such as https://shop.example.com; once for each (SYNCD_ORIGINS, with "
                + "spaces between).", valueName: "origin"))
    var origins: [String] = []

    @Flag(help: "Only whoever has an account may log in, nobody can make one (SYNCD_NO_SIGN_UP=1).")
    var noSignUp = false

    @Flag(
        help: ArgumentHelp(
            "Beside --issuer: let anybody make an account with a password here, too, whose name no user of the "
                + "issuer's can have then (SYNCD_SIGN_UP=1)."))
    var signUp = false

    @Option(help: "Who owns a transaction that two accounts claim: keepWithFirst or share (SYNCD_OWNERSHIP).")
    var ownership: String?

    @Flag(help: "Take the clock as right although the store has seen later times: once, after the clock was ahead.")
    var acceptClock = false

    @OptionGroup(title: CatalogOptions.title) var catalog: CatalogOptions

    /// - Parameters:
    ///   - hasIssuer: whether tokens of another issuer are accepted.
    ///   - secrets: the rule for the file with the operator's token.
    func configuration(
        _ listener: ListenerConfiguration, hasIssuer: Bool, secrets: SecretOptions
    ) throws -> ServiceConfiguration {
        let name = name ?? environmentVariable("SYNCD_NAME") ?? Self.name(of: listener)
        guard let url = URL(string: name), ["http", "https"].contains(url.scheme ?? ""), url.host() != nil,
            !name.contains(where: \.isWhitespace)
        else { throw Failure(.usage, "--name: \"\(name.singleLine)\" is no address such as https://sync.example.com") }
        var configuration = ServiceConfiguration(name: name)
        if catalog.file != nil || environmentVariable("SYNCD_CATALOG") != nil {
            let loaded = try catalog.load()
            configuration.catalog = loaded
            configuration.catalogJSON = Array(loaded.json.text().utf8)
        }
        configuration.allowsSignUp = try allowsSignUp(besideIssuer: hasIssuer)
        configuration.isClockAccepted = acceptClock
        configuration.origins = try readOrigins()
        configuration.operatorToken = try operatorToken(secrets)
        if let text = ownership ?? environmentVariable("SYNCD_OWNERSHIP") {
            guard let ownership = ServiceConfiguration.Ownership(rawValue: text) else {
                throw Failure(.usage, "--ownership: \"\(text.singleLine)\" is neither keepWithFirst nor share")
            }
            configuration.ownership = ownership
        }
        return configuration
    }

    /// Whoever makes an account has its name: with an issuer, none of its users may lose his to a stranger.
    private func allowsSignUp(besideIssuer hasIssuer: Bool) throws(Failure) -> Bool {
        let (isOpened, isClosed) = (try isSet("SYNCD_SIGN_UP"), try isSet("SYNCD_NO_SIGN_UP"))
        guard !(signUp && noSignUp) else { throw Failure(.usage, "--sign-up and --no-sign-up: which one?") }
        if noSignUp || (isClosed && !signUp) { return false }
        return !hasIssuer || signUp || isOpened
    }

    private static func name(of listener: ListenerConfiguration) -> String {
        let host = listener.host.contains(":") ? "[\(listener.host)]" : listener.host
        let scheme = listener.certificate == nil ? "http" : "https"
        return listener.port == 0 ? "\(scheme)://\(host)" : "\(scheme)://\(host):\(listener.port)"
    }

    private func readOrigins() throws(Failure) -> [String] {
        let fallback = environmentVariable("SYNCD_ORIGINS")?.split(separator: " ").map(String.init) ?? []
        let origins = origins.isEmpty ? fallback : origins
        for origin in origins {
            // As browsers send it (RFC 6454, section 6.2): nothing after the port, nothing in capitals.
            guard let url = URL(string: origin), let scheme = url.scheme, let host = url.host(), !host.isEmpty,
                origin == "\(scheme)://\(host)" + (url.port.map { ":\($0)" } ?? ""), origin == origin.lowercased()
            else {
                throw Failure(
                    .usage, "--origin: \"\(origin.singleLine)\" is no origin: write scheme://host or scheme://host:port"
                )
            }
        }
        return origins
    }

    private func operatorToken(_ secrets: SecretOptions) throws -> String? {
        guard let path = operatorTokenFile ?? environmentVariable("SYNCD_OPERATOR_TOKEN_FILE") else { return nil }
        try secrets.check(path, option: "--operator-token-file")
        let text = try readDocument(path) { String(decoding: $0, as: UTF8.self) }
        let token = text.trimmingCharacters(in: .whitespacesAndNewlines)
        // The characters that a token has in a header (RFC 6750, section 2.1).
        let isToken = token.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default: "-._~+/=".utf8.contains(byte)
            }
        }
        guard isToken, token.utf8.count >= 32 else {
            throw Failure(
                .usage,
                "\(path): an operator's token has 32 characters or more of a-z A-Z 0-9 - . _ ~ + / =, on one line "
                    + "(openssl rand -hex 32 makes one)")
        }
        return token
    }
}

/// Another service whose tokens are believed.
struct IssuerOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Believe the tokens of this issuer too, their iss (SYNCD_ISSUER).", valueName: "iss"))
    var issuer: String?

    @Option(help: ArgumentHelp("For whom its tokens must be, their aud (SYNCD_AUDIENCE).", valueName: "aud"))
    var audience: String?

    @Option(help: ArgumentHelp("Its public keys, a JSON Web Key Set (SYNCD_JWKS).", valueName: "file-or-url"))
    var jwks: String?

    /// Whether there is one.
    var isGiven: Bool { (issuer ?? environmentVariable("SYNCD_ISSUER")) != nil }

    func issuers(of server: String) throws(Failure) -> [ExternalIssuer] {
        let given = (
            issuer ?? environmentVariable("SYNCD_ISSUER"), audience ?? environmentVariable("SYNCD_AUDIENCE"),
            jwks ?? environmentVariable("SYNCD_JWKS")
        )
        switch given {
        case (nil, nil, nil): return []
        case (let issuer?, let audience?, let keys?):
            guard issuer != server else { throw Failure(.usage, "--issuer: this is the server's own name") }
            return [ExternalIssuer(name: issuer, audience: audience, keys: try Self.source(keys))]
        default: throw Failure(.usage, "--issuer, --audience and --jwks are given together, or not at all")
        }
    }

    private static func source(_ text: String) throws(Failure) -> ExternalIssuer.KeySource {
        guard text.contains("://") else {
            guard FileManager.default.isReadableFile(atPath: text) else {
                throw Failure(.usage, "--jwks: \(text.singleLine): no such file, or this user may not read it")
            }
            return .file(text)
        }
        let isSecure = text.hasPrefix("https://")
        let host = URL(string: text)?.host() ?? ""
        // Whoever could change them on the way could be anybody.
        guard isSecure || (text.hasPrefix("http://") && ListenOptions.isLoopback(host)), !host.isEmpty else {
            throw Failure(.usage, "--jwks: \"\(text.singleLine)\" is neither a file nor an https:// address")
        }
        do throws(TransportError) {
            return .url(text, try CurlClient())
        } catch {
            throw Failure(.failed, "--jwks: \(error.message)")
        }
    }
}

/// Whether a variable of the environment says yes.
func isSet(_ name: String) throws(Failure) -> Bool {
    switch environmentVariable(name) {
    case nil, "0", "false", "no": false
    case "1", "true", "yes": true
    case let value?: throw Failure(.usage, "\(name) is \"\(value.singleLine)\": write 1 or 0")
    }
}
