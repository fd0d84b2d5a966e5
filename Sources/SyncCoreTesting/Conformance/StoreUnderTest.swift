public import SyncCore

/// A fresh, empty store for one conformance check, and what its owner can do with it that the contract has no words
/// for.
///
/// Everything but the store is optional. A check that needs what is missing is skipped, and the report says what was
/// missing. ``StoreUnderTest/inFolder(_:kill:failing:process:open:)`` supplies most of it for a store that lives in
/// files.
///
/// ```swift
/// let report = await Conformance.run(seed: 1) {
///     let folder = try temporaryFolder()
///     return StoreUnderTest(MyBackend(folder), reopen: { MyBackend(folder) })
/// }
/// ```
public struct StoreUnderTest: Sendable {
    /// Opens a store.
    public typealias Opening = @Sendable () async throws -> any KeyValueBackend

    /// The store, fresh and empty.
    public var backend: any KeyValueBackend
    /// Opens **the same** store once more, while the first object is in use, as another process would.
    public var reopen: Opening?
    /// Opens the same store in a way that fails now and then **itself**: on a bad disk, behind a bad connection of its
    /// own. Reads through ``backend`` tell what really happened. ``FaultyBackend`` in front of a store proves nothing
    /// about it and is not taken as it is, but inside of a wrapper that is under test.
    public var failing: Opening?
    /// Empties the store, or puts an empty one in its place, and opens that.
    public var wipe: Opening?
    /// Puts a copy of the whole store aside, and answers what puts it back and opens it. The objects that had the
    /// store open before are not used after that.
    public var backup: (@Sendable () async throws -> Opening)?
    /// Takes away what a crash takes away (a simulated one: everything that is not durable as declared) and opens what
    /// is left. For a real one there is ``kill``.
    public var crash: Opening?
    /// Kills processes that write into the store, with ``CrashTrial``.
    public var kill: (@Sendable (_ seed: UInt64) async throws -> CrashReport)?
    /// Lets one process after the other open a store at one and the same place and write, and answers what each was
    /// given: into an empty store; into the same; after a backup from between the two was put back; after the place was
    /// emptied. What lives in a process's memory, such as a counter, begins anew in each of them. See
    /// ``WrittenHistory/init(writingInto:)`` and `CrashTrial.history(command:)`.
    public var lives: (@Sendable () async throws -> [WrittenHistory])?

    /// A store and what can be done with it.
    public init(
        _ backend: any KeyValueBackend, reopen: Opening? = nil, failing: Opening? = nil, wipe: Opening? = nil,
        backup: (@Sendable () async throws -> Opening)? = nil, crash: Opening? = nil,
        kill: (@Sendable (_ seed: UInt64) async throws -> CrashReport)? = nil,
        lives: (@Sendable () async throws -> [WrittenHistory])? = nil
    ) {
        self.backend = backend
        self.reopen = reopen
        self.failing = failing
        self.wipe = wipe
        self.backup = backup
        self.crash = crash
        self.kill = kill
        self.lives = lives
    }

    /// What the store declares.
    public var capabilities: Capabilities { backend.capabilities }
}

extension StoreUnderTest {
    /// `memory`, which can be emptied and put back, and behind a connection that loses requests and answers.
    ///
    /// - Parameters:
    ///   - memory: an empty store.
    ///   - seed: decides what the connection loses.
    public static func memory(_ memory: MemoryBackend = MemoryBackend(), seed: UInt64 = 1) -> StoreUnderTest {
        StoreUnderTest(
            memory,
            failing: { FaultyBackend(memory, plan: .seeded(seed, rate: 0.2)) },
            wipe: {
                memory.putBack(MemoryBackend.Backup())
                return memory
            },
            backup: {
                let backup = memory.backup()
                return {
                    memory.putBack(backup)
                    return memory
                }
            })
    }
}
