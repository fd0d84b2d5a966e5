import SyncCore
import SyncCoreTesting
import SyncSimulation

/// Failures of the store, which all processes meet. Single-threaded.
final class StoreFaults: @unchecked Sendable {
    private unowned let world: ServiceWorld
    private var random: SeededGenerator
    /// The virtual time until which operations fail, in microseconds, and the rate in thousandths.
    private var (end, rate) = (Int64(0), 0)
    /// The first cursor that has not expired; `nil` if none has.
    private var oldest: ChangeCursor?

    init(world: ServiceWorld) {
        self.world = world
        random = world.random.generator(for: 400, 0, .remote)
    }

    /// Lets `perMille` thousandths of all operations fail for this many microseconds.
    func begin(perMille: Int, microseconds: Int64) {
        world.reach(.storeFailed)
        (rate, end) = (perMille, world.scheduler.now + microseconds)
    }

    /// Forgets all changes so far, as a store does that keeps a limited number of them.
    func expireCursors() async throws(BackendError) { oldest = try await world.store.latestCursor().outcome }

    func check(_ cursor: ChangeCursor?) throws(BackendError) {
        guard let cursor, let oldest, cursor.sequence < oldest.sequence else { return }
        throw BackendError(.cursorExpired, operation: .changes, message: "simulated: these changes are forgotten")
    }

    /// Performs an operation, unless it fails. The outcome of a change that fails may be unknown.
    func perform<Outcome>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: () async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        guard !world.isCalm, world.scheduler.now < end, random.happens(perMille: rate) else {
            return try await call()
        }
        world.audit.didDisturbStore()
        let isChange = operation == .write || operation == .delete
        let (isUnknown, isDone) = (isChange && random.happens(perMille: 500), random.happens(perMille: 500))
        if isUnknown {
            world.reach(.outcomeUnknown)
            if isDone { _ = try await call() }
        }
        throw BackendError(
            .unavailable, operation: operation, key: key, disposition: isUnknown ? .outcomeUnknown : .transient,
            message: "simulated: the store fails")
    }
}
