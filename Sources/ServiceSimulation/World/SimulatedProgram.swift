import ProjectionStorage
import SyncCore
import SyncService
import SyncSimulation

/// The store as a program beside the servers reaches it, which may be killed at any operation. Single-threaded.
final class SimulatedProgram: ForwardingBackend, @unchecked Sendable {
    let base: any KeyValueBackend
    private unowned let world: ServiceWorld
    private let mark: ServiceMark
    /// The number of operations until it is killed; `nil` if it is not.
    private var operationCount: Int?
    private(set) var isInterrupted = false

    /// - Parameters:
    ///   - operationCount: The number of operations until it is killed; `nil` if it is not.
    ///   - mark: The mark of its end.
    init(world: ServiceWorld, operationCount: Int?, mark: ServiceMark) {
        (base, self.world, self.operationCount, self.mark) = (world.store, world, operationCount, mark)
    }

    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        try count(operation, key)
        defer { world.didCall(operation, key) }
        return try await world.storeFaults.perform(operation, key) { () async throws(BackendError) in
            try await call(base)
        }
    }

    /// Counts an operation. Fails once the program is killed.
    func count(_ operation: BackendError.Operation, _ key: EntryKey?) throws(BackendError) {
        if let count = operationCount {
            operationCount = count - 1
            if count == 0 {
                isInterrupted = true
                world.reach(mark)
            }
        }
        guard !isInterrupted else {
            throw BackendError(.cancelled, operation: operation, key: key, message: "simulated: the program was killed")
        }
    }
}

/// The database of the projection as a program reaches it.
struct ProgramConnection: ProjectionDatabase {
    let program: SimulatedProgram
    let projection: SimulatedProjection
    let writer: ProjectionWriter

    var dialect: SQLDialect { projection.database.dialect }
    var label: String { projection.database.label }

    func read(_ statements: [SQLStatement]) async throws(BackendError) -> [[[SQLValue]]] {
        try program.count(.read, nil)
        return try projection.read(statements)
    }

    func write(_ statements: [SQLStatement], fence: ProjectionFence?) async throws(BackendError) -> Bool {
        try program.count(.write, nil)
        return try projection.write(statements, fence, by: writer)
    }
}
