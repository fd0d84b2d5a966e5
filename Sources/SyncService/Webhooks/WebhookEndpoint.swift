package import Entitlements

/// A receiver of events over HTTP, from the file of `syncd serve --webhooks`.
package struct WebhookEndpoint: Hashable, Sendable {
    /// The addresses to which requests may go.
    package enum Network: Hashable, Sendable, CaseIterable {
        /// Public addresses, with TLS.
        case publicOnly
        /// All addresses, with TLS.
        case any
        /// Private, link-local and loopback addresses, without TLS.
        case privateOnly
    }

    /// The largest number of endpoints.
    package static let maximumCount = 64

    /// The name, which is part of paths and of labels of metrics.
    package let name: String
    package let network: Network
    let scheme: String
    let authority: String
    /// The path and the query.
    let path: String
    /// The secrets with which requests are signed, the newest first.
    let secrets: [[UInt8]]
    /// The kinds of events that it receives; `nil` for all.
    let events: [String]?

    /// The address without path and query, which may have a secret.
    var origin: String { "\(scheme)://\(authority)" }

    /// Reads a file of endpoints: a list in JSON.
    ///
    /// - Throws: `InputError`. Its text has no secret.
    package static func list(json: [UInt8]) throws(InputError) -> [WebhookEndpoint] {
        let readers = try JSONReader(parsing: json).array()
        guard readers.count <= maximumCount else {
            throw InputError(path: "", reason: "there may be at most \(maximumCount) webhooks, not \(readers.count)")
        }
        var names: Set<String> = []
        var endpoints: [WebhookEndpoint] = []
        for reader in readers {
            let endpoint = try WebhookEndpoint(reader)
            guard names.insert(endpoint.name).inserted else {
                throw reader.error("there is another webhook named \(endpoint.name)")
            }
            endpoints.append(endpoint)
        }
        return endpoints
    }

    private init(_ reader: JSONReader) throws(InputError) {
        let members = try reader.object()
        try members.allow("name", "url", "secrets", "events", "allowPrivateAddresses")
        let name = try members.required("name")
        self.name = try name.string()
        guard (1...64).contains(self.name.utf8.count), self.name.utf8.allSatisfy(Self.isNameByte) else {
            throw name.error("a name must be 1 to 64 of a-z, 0-9 and -, not \"\(self.name.singleLine)\"")
        }
        let isPrivate = try members["allowPrivateAddresses"].map { (value) throws(InputError) in try value.bool() }
        let url = try members.required("url")
        (scheme, authority, path) = try Self.parts(url)
        guard scheme == "https" || isPrivate == true else {
            throw url.error(
                "a URL must begin with https://; http:// needs allowPrivateAddresses and a private or loopback address")
        }
        network = scheme == "http" ? .privateOnly : isPrivate == true ? .any : .publicOnly
        let secrets = try members.required("secrets")
        self.secrets = try secrets.array().map { (value) throws(InputError) in try Self.secret(value) }
        guard (1...8).contains(self.secrets.count) else {
            throw secrets.error("1 to 8 secrets are expected, not \(self.secrets.count)")
        }
        events = try members["events"].map { (list) throws(InputError) in
            try list.array().map { (value) throws(InputError) in
                let kind = try value.string()
                guard ProjectionEvent.Kind(rawValue: kind) != nil else {
                    let known = ProjectionEvent.Kind.allCases.map(\.rawValue).joined(separator: ", ")
                    throw value.error("there is no event \"\(kind.singleLine)\" (known: \(known))")
                }
                return kind
            }
        }
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || byte == UInt8(ascii: "-")
    }

    private static func parts(
        _ reader: JSONReader
    ) throws(InputError) -> (scheme: String, authority: String, path: String) {
        let text = try reader.string()
        for scheme in ["https", "http"] where text.hasPrefix("\(scheme)://") {
            let rest = text.dropFirst(scheme.utf8.count + 3)
            let authority = rest.prefix { $0 != "/" && $0 != "?" }
            let path = rest.dropFirst(authority.count)
            let isPlain = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }
            guard isPlain, !authority.isEmpty, !authority.contains(where: { "@\\".contains($0) }) else { break }
            return (scheme, String(authority), path.hasPrefix("/") ? String(path) : "/\(path)")
        }
        // The text may have a secret.
        throw reader.error("a URL of the form https://HOST/PATH is expected, without a user and without #")
    }

    private static func secret(_ reader: JSONReader) throws(InputError) -> [UInt8] {
        let text = try reader.string()
        guard text.hasPrefix("whsec_"), let secret = Base64.standard.decode(text.utf8.dropFirst(6)),
            (24...64).contains(secret.count)
        else {
            throw reader.error(
                "a secret must be whsec_ and 24 to 64 bytes in base64 (create one with: "
                    + "echo whsec_$(openssl rand -base64 32))")
        }
        return secret
    }
}
