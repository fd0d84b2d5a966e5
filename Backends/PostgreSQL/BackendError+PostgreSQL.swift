#if PostgreSQL
import SyncCore

extension BackendError {
    /// Converts the failure of a transaction, with a truthful disposition.
    init(_ failure: TransactionFailure, label: String, isWrite: Bool) {
        guard !failure.isLost else {
            let isUnknown = isWrite && !failure.isUnsent
            self.init(
                .unavailable, disposition: isUnknown ? .outcomeUnknown : .transient,
                message: "\(label): the connection ended"
                    + (isUnknown ? " before the write was confirmed; repeat it under its precondition" : "; try again"),
                cause: ServerMessage(failure))
            return
        }
        let (kind, disposition, advice) = Self.meaning(of: failure.sqlState ?? "")
        self.init(kind, disposition: disposition, message: "\(label): \(advice)", cause: ServerMessage(failure))
    }

    /// The error for a server that has no synchronous standby although one is required.
    init(withoutReplica label: String, isUnknown: Bool = false) {
        self.init(
            .unavailable, operation: isUnknown ? nil : .open, disposition: isUnknown ? .outcomeUnknown : .transient,
            message: "\(label): the server has no synchronous standby, and a replica is required; "
                + "set synchronous_standby_names")
    }

    /// Converts a message of libpq about a connection that was not established.
    init(connecting message: String, label: String) {
        let code = Connection.code(in: message)
        let (kind, disposition, advice) =
            code.map { Self.meaning(of: $0) } ?? Self.meaning(ofConnecting: message.lowercased())
        self.init(
            kind, operation: .open, disposition: disposition, message: "\(label): \(advice)",
            cause: ServerMessage(sqlState: nil, text: message.isEmpty ? "no answer" : message))
    }

    /// The kind, disposition and advice for a message of libpq, which has no code for its own errors.
    private static func meaning(ofConnecting message: String) -> (Kind, Disposition, String) {
        if message.contains("read-only") || message.contains("hot standby") {
            return (.unavailable, .transient, readOnly)
        }
        if message.contains("does not support ssl") {
            return (
                .permissionDenied, .permanent,
                "the server offers no TLS; turn it on, or pass sslmode=disable for a network that others cannot read"
            )
        }
        if distrust.contains(where: message.contains) {
            return (
                .permissionDenied, .permanent,
                "the server's certificate was not verified; pass sslrootcert=FILE with its authority in the URL, "
                    + "or sslmode=disable for a network that others cannot read"
            )
        }
        if message.contains("no password supplied") { return (.permissionDenied, .permanent, wrongPassword) }
        if message.contains("translate host name") {
            return (.unavailable, .transient, "the host name is unknown; check the URL and the name server")
        }
        return (.unavailable, .transient, "the server cannot be reached; check the host and the port, or start it")
    }

    /// Parts of libpq's messages about a certificate that is not trusted. Other failures of TLS are failed connections.
    private static let distrust = [
        "certificate verify failed", "root certificate file", "server certificate", "could not get server's host name",
    ]

    private static let readOnly =
        "the server accepts no writes; pass the address of the primary, or of all servers separated by commas"

    private static let wrongPassword =
        "the server rejects the user or the password; check the user in the URL, and .pgpass or PGPASSWORD"

    /// The kind, disposition and advice for a code of the server.
    private static func meaning(of code: String) -> (Kind, Disposition, String) {
        switch code {
        case "28000", "28P01": return (.permissionDenied, .permanent, wrongPassword)
        case "42501":
            return (
                .permissionDenied, .permanent,
                "this user lacks a permission; grant USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on its "
                    + "tables, or create the store as its owner"
            )
        case "3D000":
            return (.missing, .permanent, "the database does not exist; create it, or check its name in the URL")
        case "42P01", "3F000":
            return (.missing, .permanent, "a table of the store is missing; check the schema in the URL")
        case "42703", "42804", "42883":
            return (
                .notAStore, .permanent,
                "the tables are not those of this software; choose another schema, or update this program"
            )
        case "25006": return (.unavailable, .transient, readOnly)
        case "40001", "40P01", "55P03", "57014":
            return (.busy, .transient, "another transaction holds the row; try again")
        case "53100": return (.full, .permanent, "the server's disk is full; free some space")
        case "53200": return (.unavailable, .transient, "the server is short of memory; try again")
        case "53300":
            return (
                .unavailable, .transient,
                "the server has too many connections; try again, raise max_connections, or run fewer processes"
            )
        case "57P03": return (.unavailable, .transient, "the server is starting or shutting down; try again")
        case "XX001", "XX002":
            return (.damaged, .permanent, "the database is damaged; restore a backup, or fail over to a standby")
        case "54000": return (.tooLarge, .permanent, "the value is larger than the server supports")
        case "26000":
            return (
                .unsupported, .permanent,
                "prepared statements are lost between transactions; connect to the server directly, or set the "
                    + "pooler to session mode"
            )
        default:
            if code.hasPrefix("08") || code.hasPrefix("57P") {
                return (.unavailable, .transient, "the server ended the connection; try again")
            }
            return (.other, .permanent, "the server rejected the operation")
        }
    }
}

/// The message of a server, as the cause of an error.
struct ServerMessage: Error, CustomStringConvertible {
    let sqlState: String?
    let text: String

    init(sqlState: String?, text: String) { (self.sqlState, self.text) = (sqlState, text) }

    init(_ failure: TransactionFailure) { self.init(sqlState: failure.sqlState, text: failure.message) }

    var description: String { sqlState.map { "\(text) (SQLSTATE \($0))" } ?? text }
}
#endif
