import SyncCore

#if PostgreSQL
import PostgreSQLStorage
import ProjectionStorage
#endif

/// A store in a PostgreSQL database. Only builds with the trait `PostgreSQL` can open it.
struct DatabaseServer: Equatable {
    #if PostgreSQL
    private var configuration: PostgreSQLBackend.Configuration
    #endif

    /// Returns `true` for the URL of a PostgreSQL database.
    static func accepts(_ text: String) -> Bool { ["postgres", "postgresql"].contains(text.prefix { $0 != ":" }) }

    /// Parses `postgres://USER@HOST:PORT/DATABASE`.
    ///
    /// - Parameter option: the name of the option or argument, for the error.
    init(_ text: String, option: String) throws(Failure) {
        #if PostgreSQL
        do throws(BackendError) {
            configuration = try PostgreSQLBackend.Configuration(text)
        } catch {
            throw Failure(.usage, "\(option): \(error.message)")
        }
        #else
        throw Failure(
            .usage,
            "\(option): this syncd was built without PostgreSQL: build it with --traits PostgreSQL,TLS, or install a "
                + "package")
        #endif
    }

    /// The same store, which refuses a server without a synchronous standby.
    func requiringReplica() -> DatabaseServer {
        #if PostgreSQL
        var server = self
        server.configuration.requiresReplica = true
        return server
        #else
        return self
        #endif
    }

    #if PostgreSQL
    /// The projection of the store, in a schema of its own beside that of the store.
    func projection() -> PostgreSQLProjection { PostgreSQLProjection(configuration) }
    #endif

    /// Opens the store. A remote store must exist, unless it may be created.
    func open(host: HostServices, mayCreateRemote: Bool) -> any KeyValueBackend {
        #if PostgreSQL
        var configuration = configuration
        configuration.creation = mayCreateRemote ? .whenNeeded : .unlessRemote
        return PostgreSQLBackend(configuration, host: host)
        #else
        return MemoryBackend(host: host)
        #endif
    }
}
