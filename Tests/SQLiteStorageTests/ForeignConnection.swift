import Foundation
import GRDB

/// Another program's connection to a database, through which a test does what the store itself never would.
struct ForeignConnection {
    let queue: DatabaseQueue

    init(path: String) throws { queue = try DatabaseQueue(path: path) }

    func execute(_ sql: String) throws { try queue.inDatabase { try $0.execute(sql: sql) } }

    func number(_ sql: String) throws -> Int? { try queue.inDatabase { try Int.fetchOne($0, sql: sql) } }
}

/// Holds a store's write lock, as another process in the middle of a transaction does.
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
