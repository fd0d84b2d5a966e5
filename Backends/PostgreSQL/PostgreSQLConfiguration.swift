#if PostgreSQL
import CPQ
public import SyncCore

extension PostgreSQLBackend {
    /// The address and the options of a store.
    public struct Configuration: Hashable, Sendable {
        /// The rule for creating a store that does not exist.
        public enum Creation: Hashable, Sendable {
            /// The first connection creates it, unless the store is the remote of an engine (see
            /// ``PostgreSQLBackend/requiringExisting``).
            case unlessRemote
            /// The first connection creates it, even if the store is a remote.
            case whenNeeded
            /// The store is never created: a missing one is `BackendError.Kind.missing`.
            case never
        }

        /// The URL without its parameters, for messages. It contains no secret.
        let label: String
        /// The parameters of libpq that are the same for all hosts.
        let parameters: [String: String]
        /// The parameters of libpq for each host, in the order in which they are tried.
        let hosts: [[String: String]]
        /// The schema of the database that has the tables of the store.
        package let schema: String

        /// The rule for creating a store that does not exist.
        public var creation = Creation.unlessRemote
        /// True to refuse a server without a synchronous standby. An acknowledged write then survives the loss of the
        /// primary's machine, and the durability of the backend is `machineLoss`.
        public var requiresReplica = false
        /// The maximum number of connections that read, 1 or more. In addition there are two connections that write,
        /// and one that follows the changes.
        public var readerCount = 2
        /// The time limit for connecting to one host.
        public var connectTimeout = Duration.seconds(5)
        /// The time after which a connection that does not answer is closed. The outcome of a write is then unknown.
        public var answerTimeout = Duration.seconds(30)
        /// The longest time that a write waits for a row that another transaction holds.
        public var busyTimeout = Duration.seconds(5)
        /// The largest accepted value, 1 byte to 512 MiB.
        public var maximumValueByteCount = 64 << 20
        /// True to accept a server that may lose acknowledged writes, because its `fsync` or `full_page_writes` is off.
        package var acceptsUnsafeServer = false
        /// True to ask a server with each call whether it accepts writes, even if it reports it.
        package var asksForRole = false
        /// The time for which superseded changes are kept.
        package var retention = Duration.seconds(86_400)
        /// Deliberate mistakes, which tests must detect.
        package var defects: Defects = []

        /// Parses `postgres://USER@HOST:PORT,HOST2:PORT2/DATABASE?PARAMETER=VALUE&…`, with the parameters that libpq
        /// documents for connection URIs, and `schema`, the schema of the database that has the tables
        /// (`entitlementsync` by default).
        ///
        /// The host may be the folder of a Unix socket: `postgres:///DATABASE?host=/run/postgresql`. Certificates are
        /// verified (`sslmode=verify-full`) unless the URL has another `sslmode`; libpq uses no TLS on Unix sockets.
        /// Passwords come from `~/.pgpass`, a service file or `PGPASSWORD`.
        ///
        /// - Throws: `BackendError.Kind.notAStore` if the URL is malformed or contains a password.
        public init(_ url: String) throws(BackendError) {
            let parsed = try ServerURL(url)
            (label, schema, parameters, hosts) = (parsed.label, parsed.schema, parsed.parameters, parsed.hosts)
        }
    }
}

/// The parts of the URL of a store.
private struct ServerURL {
    var label = ""
    var schema = "entitlementsync"
    var parameters: [String: String] = [:]
    var hosts: [[String: String]] = []

    /// The parameters of libpq that a URL may have.
    private static let allowed: Set = [
        "application_name", "channel_binding", "dbname", "gssencmode", "host", "hostaddr", "krbsrvname", "passfile",
        "port", "requirepeer", "service", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert", "sslcrl",
        "sslcrldir", "sslkey", "sslmode", "sslrootcert", "sslsni", "user",
    ]

    init(_ url: String) throws(BackendError) {
        guard let start = ["postgres://", "postgresql://"].first(where: { url.hasPrefix($0) }) else {
            throw Self.malformed("it must begin with postgres://")
        }
        let parts = url.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        var items = parts.count == 2 ? parts[1].split(separator: "&").map(String.init) : []
        if let index = items.firstIndex(where: { $0.hasPrefix("schema=") }) {
            schema = String(items.remove(at: index).dropFirst("schema=".count))
            guard Self.isName(schema) else {
                throw Self.malformed("the schema must have 1 to 63 lower-case letters, digits and underscores")
            }
        }
        var settings = try Self.parse(parts[0] + (items.isEmpty ? "" : "?" + items.joined(separator: "&")))
        guard settings["password"] == nil, settings["sslpassword"] == nil else {
            throw Self.malformed(
                "it must not contain a password, because URLs appear in logs and process lists; "
                    + "put it into ~/.pgpass, a service file or PGPASSWORD")
        }
        if let name = settings.keys.sorted().first(where: { !Self.allowed.contains($0) }) {
            throw Self.malformed("the parameter \(name) is not supported; leave it out")
        }
        label = "postgres://" + parts[0].dropFirst(start.count)
        if let host = settings["host"], host.hasPrefix("/"), !parts[0].contains("%2F"), !parts[0].contains("%2f") {
            label += "?host=\(host)"
        }
        hosts = try Self.takeHosts(from: &settings)
        parameters = settings.merging([
            "client_encoding": "UTF8", "fallback_application_name": "EntitlementSync", "gssencmode": "disable",
            "keepalives": "1", "keepalives_count": "3", "keepalives_idle": "10", "keepalives_interval": "5",
            "sslmode": "verify-full", "target_session_attrs": "read-write", "tcp_user_timeout": "5000",
        ]) { given, _ in given }
    }

    /// Removes the hosts from `settings`, so that each can be tried with a time limit of its own.
    private static func takeHosts(from settings: inout [String: String]) throws(BackendError) -> [[String: String]] {
        let names = ["host", "hostaddr", "port"]
        let lists = names.map { name in
            settings.removeValue(forKey: name)?.split(separator: ",", omittingEmptySubsequences: false)
        }
        let count = max(lists[0]?.count ?? 1, lists[1]?.count ?? 1)
        var hosts = [[String: String]](repeating: [:], count: count)
        for (name, list) in zip(names, lists) {
            guard let list else { continue }
            guard list.count == count || (name == "port" && list.count == 1) else {
                throw malformed("it has \(count) hosts and \(list.count) values of \(name); give one for each host")
            }
            for index in hosts.indices {
                let value = list[list.count == 1 ? 0 : index]
                if !value.isEmpty { hosts[index][name] = String(value) }
            }
        }
        return hosts
    }

    private static func parse(_ text: String) throws(BackendError) -> [String: String] {
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(text, &message) else {
            defer { PQfreemem(message) }
            let reason = message.map { String(cString: $0) } ?? "the system is short of memory"
            // libpq quotes the URL or a part of it, which may contain a password.
            throw malformed(
                reason.contains("\"")
                    ? "libpq cannot read it; in a name, write % as %25, @ as %40, / as %2F and ? as %3F"
                    : reason.split(whereSeparator: \.isNewline).joined())
        }
        defer { PQconninfoFree(options) }
        var settings: [String: String] = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { settings[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        return settings
    }

    /// Returns `true` for a name that SQL accepts without quotes.
    private static func isName(_ text: String) -> Bool {
        let isPlain = text.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || byte == UInt8(ascii: "_")
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        return isPlain && (1...63).contains(text.utf8.count) && text.first?.isNumber == false
    }

    private static func malformed(_ reason: String) -> BackendError {
        BackendError(
            .notAStore, operation: .open,
            message: "the URL of the PostgreSQL store (postgres://USER@HOST:PORT/DATABASE) is not valid: \(reason)")
    }
}
#endif
