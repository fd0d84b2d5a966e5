#if PostgreSQL
/// The failure of one transaction on a connection.
struct TransactionFailure: Error, Sendable {
    /// The code of the server; `nil` if the server sent none.
    var sqlState: String?
    /// The message of the server or of libpq, on one line.
    var message: String
    /// The index of the statement that failed; `nil` if the commit failed or the connection ended.
    var statement: Int?
    /// True if the connection ended, so that the transaction may have been committed.
    var isLost = false
    /// True if nothing was sent.
    var isUnsent = false
    /// The rows of the statements before the failure. They are provisional, and the failure has undone them.
    var provisional: [Rows] = []

    /// The code of a server that accepts no writes.
    private static let readOnlyCode = "25006"

    /// The failure of a transaction that only read, at a server that is no longer the primary.
    static var readOnlyServer: TransactionFailure {
        TransactionFailure(
            sqlState: readOnlyCode, message: "the server has become read-only with its connections open", statement: 0)
    }

    /// The failure of a transaction that only read, if the server did not say that it accepts writes.
    static func unconfirmed(_ cause: TransactionFailure) -> TransactionFailure {
        var failure = readOnlyServer
        failure.message = "the server has not confirmed that it accepts writes: \(cause.message)"
        return failure
    }

    /// True if the server is no longer the primary. The transaction wrote nothing, and can be repeated elsewhere.
    var isReadOnly: Bool { sqlState == Self.readOnlyCode }

    /// The codes after which the outcome of a transaction is unknown, because the server ended the connection.
    static func endsConnection(_ sqlState: String?) -> Bool {
        guard let sqlState else { return false }
        return sqlState.hasPrefix("08") || ["57P01", "57P02", "57P03", "57P04", "40003"].contains(sqlState)
    }
}

/// The outcome of one transaction: the rows of its statements.
typealias Reply = Result<[Rows], TransactionFailure>

extension Reply {
    /// The failure; `nil` after a success.
    var failure: TransactionFailure? {
        if case .failure(let failure) = self { failure } else { nil }
    }
}
#endif
