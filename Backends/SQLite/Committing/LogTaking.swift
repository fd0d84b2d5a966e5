import GRDB
import Synchronization

/// Takes a long log into the database while others go on writing, on a thread and a connection of its own.
///
/// SQLite does it by itself at the end of a commit, for which all writers wait: of 64 MiB, tens of milliseconds. Here
/// they wait for the rest only, which came meanwhile: SQLite begins its log anew when all of it has been taken in.
/// Where this does not get on, SQLite does it all the same when the log is twice as long.
final class LogTaking: Sendable {
    private enum Stage {
        /// The log is shorter than that, in pages.
        case waiting(until: Int)
        case running
        /// All but the latest is in the database.
        case rest
    }

    /// What is left after one time takes a part of the time; after two it is little.
    private static let roundCount = 2

    private let open: @Sendable () throws -> DatabaseQueue
    private let pageCount: Int
    private let stage: Mutex<Stage>
    private let connection = Mutex<DatabaseQueue?>(nil)
    private let queue = SerialQueue(label: "SQLiteStorage log")

    /// - Parameters:
    ///   - pageCount: how long the log becomes, in pages.
    ///   - open: a connection that writes, and synchronises.
    init(pageCount: Int, open: @escaping @Sendable () throws -> DatabaseQueue) {
        (self.pageCount, self.open) = (pageCount, open)
        stage = Mutex(.waiting(until: pageCount))
    }

    /// Is called after a commit, with how long the log is by now, in pages.
    func note(_ count: Int, on writer: Database) {
        let (mustStart, isRest) = stage.withLock { stage in
            switch stage {
            case .waiting(let most):
                if count >= most { stage = .running } else if count < pageCount { stage = .waiting(until: pageCount) }
                return (count >= most, false)
            case .running: return (false, false)
            case .rest:
                // Where a reader holds it up the log goes on, and it is not tried with each commit.
                stage = .waiting(until: max(pageCount, count + pageCount / 4))
                return (false, true)
            }
        }
        if mustStart { queue.start { self.run() } }
        // What is not taken in is still in the log, and acknowledged writes are as safe there.
        if isRest { _ = try? writer.checkpoint(.passive) }
    }

    private func run() {
        let isTaken = connection.withLock { connection in
            do {
                let open = try connection ?? open()
                connection = open
                for _ in 0..<Self.roundCount { _ = try open.inDatabase { try $0.checkpoint(.passive) } }
                return true
            } catch {
                // As with SQLite's own: no write has failed.
                return false
            }
        }
        stage.withLock { $0 = isTaken ? .rest : .waiting(until: pageCount * 2) }
    }
}
