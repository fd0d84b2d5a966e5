import Entitlements
import ProjectionStorage
import SyncCore
import SyncService

extension StoreURL {
    /// The database of the store's projection: a file beside an SQLite store, or a schema beside that of a PostgreSQL
    /// store.
    ///
    /// - Parameter option: The name of the option or argument, for the error.
    func openProjection(option: String) throws -> any ProjectionDatabase {
        switch place {
        case .local(.sqlite, let path):
            do throws(BackendError) { return try SQLiteProjection(path: Self.projectionPath(besides: path)) } catch {
                throw Failure(error)
            }
        #if PostgreSQL
        case .postgreSQL(let server): return server.projection()
        #endif
        default:
            throw Failure(
                .usage, "\(option): a projection needs a store in SQLite or PostgreSQL, not \(text.singleLine)")
        }
    }

    /// `store.sqlite` has its projection in `store.projection.sqlite`.
    private static func projectionPath(besides path: String) -> String {
        let suffix = ".sqlite"
        return path.hasSuffix(suffix)
            ? path.dropLast(suffix.count) + ".projection.sqlite" : path + ".projection.sqlite"
    }
}
