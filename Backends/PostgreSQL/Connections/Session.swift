#if PostgreSQL
import CPQ
import SyncCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// The connection of one thread. It is opened when it is needed, and again after it was lost.
final class Session {
    private let connector: Connector
    private let wake: WakePipe
    private var connection: Connection?

    init(_ connector: Connector, wake: WakePipe) { (self.connector, self.wake) = (connector, wake) }

    var configuration: PostgreSQLBackend.Configuration { connector.configuration }

    var label: String { connector.label }

    /// The time at which a transaction that starts now has taken too long.
    var deadline: ContinuousClock.Instant { ContinuousClock().now + configuration.answerTimeout }

    /// Performs transactions on one connection, and returns the outcome of each.
    ///
    /// - Throws: If there is no connection; nothing was sent.
    func perform(_ transactions: [[Statement]]) throws(BackendError) -> [Reply] {
        replies(of: try current(), transactions)
    }

    /// The open connection, or a new one.
    private func current() throws(BackendError) -> Connection {
        if let connection, connection.isAlive() { return connection }
        connection = nil
        let opened = try connector.open()
        connection = opened
        return opened
    }

    /// Performs one transaction of statements that are not prepared.
    ///
    /// - Throws: If there is no connection; nothing was sent.
    func perform(_ queries: [PostgreSQLQueries.Query], isReading: Bool) throws(BackendError) -> Reply {
        let current = try current()
        let reply = current.perform(queries, isReading: isReading, until: deadline)
        if current.isLost { connection = nil }
        return reply
    }

    private func replies(of connection: Connection, _ transactions: [[Statement]]) -> [Reply] {
        let replies = connection.perform(transactions, until: deadline)
        if connection.isLost { self.connection = nil }
        return replies
    }

    /// Waits until another thread wakes this one or `timeout` has passed. Closes the connection if the server does.
    func rest(for timeout: Duration? = nil) {
        let limit = timeout?.pollMilliseconds ?? -1
        while true {
            var descriptors = [
                pollfd(fd: wake.readEnd, events: Int16(POLLIN), revents: 0),
                // A negative descriptor is ignored.
                pollfd(fd: connection?.socket ?? -1, events: Int16(POLLIN), revents: 0),
            ]
            let count = poll(&descriptors, 2, limit)
            if descriptors[0].revents != 0 {
                wake.drain()
                return
            }
            if descriptors[1].revents != 0, connection?.isAlive() != true { connection = nil }
            if count == 0 || limit >= 0 { return }
        }
    }
}
#endif
