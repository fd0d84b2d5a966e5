import Foundation
import GRDB

/// A separate connection to a database, for operations that the store itself never performs.
struct ForeignConnection {
    let queue: DatabaseQueue

    init(path: String) throws { queue = try DatabaseQueue(path: path) }

    func execute(_ sql: String) throws { try queue.inDatabase { try $0.execute(sql: sql) } }

    func number(_ sql: String) throws -> Int? { try queue.inDatabase { try Int.fetchOne($0, sql: sql) } }
}

/// Holds a store's write lock, like another process in the middle of a transaction.
final class WriteLock {
    private let queue: DatabaseQueue

    init(path: String) throws {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.inDatabase { try $0.beginTransaction(.immediate) }
    }

    func release() throws { try queue.inDatabase { try $0.rollback() } }
}
