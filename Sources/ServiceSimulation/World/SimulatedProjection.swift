import ProjectionStorage
import SyncCore
import SyncCoreTesting
import SyncService
import SyncSimulation

/// A process that writes the projection.
struct ProjectionWriter: Hashable, Sendable {
    /// The lane of its machine.
    var lane: Int
    /// The number of its launch, or of the program.
    var launch: Int
}

/// The database of the projection, which all processes of a run share, and its failures. Single-threaded.
final class SimulatedProjection: @unchecked Sendable {
    private unowned let world: ServiceWorld
    let database: MemoryProjection
    private(set) lazy var audit = ProjectionAudit(database, world: world)
    private(set) lazy var receiver = EventReceiver(world: world)
    private var random: SeededGenerator
    /// The virtual time until which calls fail, in microseconds, and the rate in thousandths.
    private var (end, rate) = (Int64(0), 0)
    /// A fault of the server that performs one of the next transactions with rows.
    private var pending: (transactions: Int, fault: Fault)?

    /// A fault of a server that projects.
    enum Fault: Sendable {
        /// It is killed before or after the transaction, and starts again after this many microseconds.
        case kill(pause: Int64)
        /// It is frozen before the transaction for this many microseconds.
        case freeze(length: Int64)
    }

    init(world: ServiceWorld) {
        self.world = world
        random = world.random.generator(for: 401, 0, .remote)
        do throws(BackendError) { database = try MemoryProjection() } catch {
            preconditionFailure("the database of the simulation does not open: \(error)")
        }
    }

    /// Lets `perMille` thousandths of all calls fail for this many microseconds.
    func begin(perMille: Int, microseconds: Int64) { (rate, end) = (perMille, world.scheduler.now + microseconds) }

    /// Disturbs the server that performs the transaction after the next `transactions` with rows.
    func disturb(after transactions: Int, _ fault: Fault) { pending = (transactions, fault) }

    /// The fault that is due before a transaction.
    func takeFault(before statements: [SQLStatement]) -> Fault? {
        // A transaction that only records progress has one statement.
        guard !world.isCalm, statements.count > 1, let (transactions, fault) = pending else { return nil }
        pending = transactions > 0 ? (transactions - 1, fault) : nil
        return transactions > 0 ? nil : fault
    }

    func read(_ statements: [SQLStatement]) throws(BackendError) -> [[[SQLValue]]] {
        guard !fails() else { throw Self.failure(.read, .transient) }
        return try database.readNow(statements)
    }

    func write(
        _ statements: [SQLStatement], _ fence: ProjectionFence?, by writer: ProjectionWriter
    ) throws(BackendError) -> Bool {
        guard fails() else { return try commit(statements, fence, by: writer) }
        switch random.pick(0...3) {
        case 0: throw Self.failure(.write, .transient)
        case 1:
            // The connection breaks between two statements.
            var broken = statements
            let index = Int(random.pick(0...Int64(statements.count)))
            broken.insert(SQLStatement("SELECT connection_breaks()"), at: index)
            _ = try? database.writeNow(broken, fence: fence)
            world.reach(.projectionRolledBack)
            throw Self.failure(.write, .transient)
        case 2: _ = try commit(statements, fence, by: writer)
        default:
            // The database performs the transaction later. The server has stopped waiting for it.
            world.scheduler.at(world.scheduler.now + random.pick(1_000...20_000_000)) { [self] in
                guard !world.isOver else { return }
                let isWritten = try? commit(statements, fence, by: writer)
                world.reach(isWritten == true ? .projectionWrittenLate : .projectionLateRefused)
            }
        }
        world.reach(.projectionOutcomeUnknown)
        throw Self.failure(.write, .outcomeUnknown)
    }

    private func commit(
        _ statements: [SQLStatement], _ fence: ProjectionFence?, by writer: ProjectionWriter
    ) throws(BackendError) -> Bool {
        guard try database.writeNow(statements, fence: fence) else {
            world.reach(.projectionFenced)
            return false
        }
        audit.didCommit(statements, fence, by: writer)
        return true
    }

    private func fails() -> Bool {
        !world.isCalm && world.scheduler.now < end && random.happens(perMille: rate)
    }

    private static func failure(
        _ operation: BackendError.Operation, _ disposition: BackendError.Disposition
    ) -> BackendError {
        BackendError(
            .unavailable, operation: operation, disposition: disposition,
            message: "simulated: the database of the projection fails")
    }
}

/// The database of the projection as one process of a server reaches it.
struct ProjectionConnection: ProjectionDatabase {
    let process: ServerProcess
    let projection: SimulatedProjection

    var dialect: SQLDialect { projection.database.dialect }
    var label: String { projection.database.label }

    func read(_ statements: [SQLStatement]) async throws(BackendError) -> [[[SQLValue]]] {
        try await perform(.read) { () throws(BackendError) in try projection.read(statements) }
    }

    func write(_ statements: [SQLStatement], fence: ProjectionFence?) async throws(BackendError) -> Bool {
        switch process.isAlive ? projection.takeFault(before: statements) : nil {
        case .kill(let pause)?:
            process.world.reach(.projectorKilled)
            process.pendingKill = (0, pause)
        case .freeze(let length)?:
            process.world.reach(.projectorFrozen)
            process.freeze(microseconds: length)
        case nil: break
        }
        return try await perform(.write) { () throws(BackendError) in
            try projection.write(statements, fence, by: process.writer)
        }
    }

    private func perform<Value: Sendable>(
        _ operation: BackendError.Operation, _ call: () throws(BackendError) -> Value
    ) async throws(BackendError) -> Value {
        // A write here is no write to the store, before which a server may be suspended.
        let isLast = try await process.begin(.read, nil)
        let result = Result(catching: call)
        try await process.finish(operation, nil, isLast: isLast)
        return try result.get()
    }
}
