package import HTTPTypes

/// The proxies whose `X-Forwarded-For` or `Forwarded` field (RFC 7239) is trusted.
package struct TrustedProxies: Hashable, Sendable {
    /// A range of addresses.
    private struct Network: Hashable, Sendable {
        var base: ClientAddress
        var bitCount: Int

        func contains(_ address: ClientAddress) -> Bool { address.prefix(bitCount) == base }
    }

    private var networks: [Network] = []

    /// Creates a set that trusts no proxy.
    package init() {}

    /// Adds an address, or a range in CIDR notation (`10.0.0.0/8`, `fd00::/8`).
    ///
    /// - Returns: `false` if `text` is neither, or if a range has bits set after its prefix; the set is then unchanged.
    package mutating func insert(_ text: String) -> Bool {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = parts.first.flatMap({ ClientAddress($0) }) else { return false }
        let width = address.isVersion4 ? 32 : 128
        var count = width
        if parts.count == 2 {
            guard let given = Int(parts[1]), (0...width).contains(given), !parts[1].hasPrefix("+") else { return false }
            count = given
        }
        let bitCount = 128 - width + count
        guard address.prefix(bitCount) == address else { return false }
        networks.append(Network(base: address, bitCount: bitCount))
        return true
    }

    /// True if no proxy is trusted.
    package var isEmpty: Bool { networks.isEmpty }

    /// Returns `true` if `peer` is a trusted proxy.
    package func contains(_ peer: String) -> Bool {
        !networks.isEmpty && ClientAddress(peer).map { isTrusted($0) } == true
    }

    /// The client behind `peer`.
    ///
    /// This is `peer` itself unless it is trusted. For a trusted proxy it is the last address in its fields that is not
    /// a trusted proxy's; any client can forge the addresses before that. If the fields cannot be read, or contradict
    /// each other, all clients of the proxy count as one, which is not the proxy itself.
    package func client(of peer: String, _ fields: HTTPFields) -> String {
        guard !networks.isEmpty, let address = ClientAddress(peer), isTrusted(address) else { return peer }
        let list = fields[Self.forwardedFor].map { $0.split(separator: ",", omittingEmptySubsequences: false) }
        let standard = fields[Self.forwarded].map(Self.nodes)
        switch (list, standard) {
        case (nil, nil): return peer
        case (let list?, nil): return client(in: list.map { Self.trimmed($0) }) ?? Self.unknown(peer)
        case (nil, let list?): return list.flatMap { client(in: $0) } ?? Self.unknown(peer)
        case (let first?, let second?):
            guard let client = client(in: first.map { Self.trimmed($0) }), let second,
                client == self.client(in: second)
            else { return Self.unknown(peer) }
            return client
        }
    }

    private static let forwardedFor = HTTPField.Name("X-Forwarded-For") ?? .via
    private static let forwarded = HTTPField.Name("Forwarded") ?? .via

    /// A name for a client of unknown address. It is not an address, so that it cannot count as loopback.
    private static func unknown(_ peer: String) -> String { "behind \(peer)" }

    private func isTrusted(_ address: ClientAddress) -> Bool { networks.contains { $0.contains(address) } }

    private func client(in list: [Substring]) -> String? {
        for (index, text) in list.enumerated().reversed() {
            guard let (address, host) = Self.address(text) else { return nil }
            if index == 0 || !isTrusted(address) { return host }
        }
        return nil
    }

    /// Parses an address with an optional port. An IPv6 address with a port is in brackets.
    private static func address(_ text: Substring) -> (ClientAddress, String)? {
        var host = text
        if host.hasPrefix("[") {
            guard let end = host.firstIndex(of: "]"), isPort(host[host.index(after: end)...]) else { return nil }
            host = host[host.index(after: host.startIndex)..<end]
            guard host.contains(":") else { return nil }
        } else if let colon = host.firstIndex(of: ":"), host.contains(".") && !host.hasPrefix(":") {
            // A second colon means an IPv6 address that ends in dotted IPv4 notation.
            let isVersion6 = host[host.index(after: colon)...].contains(":")
            if !isVersion6 {
                guard isPort(host[colon...]) else { return nil }
                host = host[..<colon]
            }
        }
        return ClientAddress(host).map { ($0, String(host)) }
    }

    private static func isPort(_ text: Substring) -> Bool {
        if text.isEmpty { return true }
        return text.hasPrefix(":") && (1...5).contains(text.utf8.count - 1)
            && text.dropFirst().utf8.allSatisfy(\.isASCIIDigit)
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text.drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }

    /// The values of `for` in a `Forwarded` field; `nil` if an element has none or has two, or if a value has
    /// escapes or an unmatched quotation mark.
    private static func nodes(_ field: String) -> [Substring]? {
        var nodes: [Substring] = []
        for element in field.split(separator: ",", omittingEmptySubsequences: false) {
            var node: Substring?
            for pair in element.split(separator: ";") {
                let pair = trimmed(pair)
                guard pair.prefix(4).lowercased() == "for=" else { continue }
                guard node == nil else { return nil }
                var value = pair.dropFirst(4)
                if value.hasPrefix("\"") {
                    guard value.count >= 2, value.hasSuffix("\"") else { return nil }
                    value = value.dropFirst().dropLast()
                }
                guard !value.contains("\"") && !value.contains("\\") else { return nil }
                node = value
            }
            guard let node else { return nil }
            nodes.append(node)
        }
        return nodes
    }
}
