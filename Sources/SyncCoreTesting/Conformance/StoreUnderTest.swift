public import SyncCore

/// A new, empty store for one conformance check, and operations on it that are not part of the contract.
///
/// Everything except the backend is optional. A check that needs a missing operation is skipped, and the report names
/// it. ``StoreUnderTest/inFolder(_:kill:failing:process:open:)`` supplies most operations for a store that lives in
/// files.
///
/// ```swift
/// let report = await Conformance.run(seed: 1) {
///     let folder = try temporaryFolder()
///     return StoreUnderTest(MyBackend(folder), reopen: { MyBackend(folder) })
/// }
/// ```
public struct StoreUnderTest: Sendable {
    /// A function that opens a store.
    public typealias Opening = @Sendable () async throws -> any KeyValueBackend

    /// The backend, on a new and empty store.
    public var backend: any KeyValueBackend
    /// Opens **the same** store again while the first object is in use, as another process would.
    public var reopen: Opening?
    /// Opens the same store so that it fails occasionally **by itself**: on a bad disk, or over its own unreliable
    /// connection. Reads through ``backend`` show the real state. A ``FaultyBackend`` in front of the store proves
    /// nothing about the store and is not accepted, except inside a wrapper that is under test.
    public var failing: Opening?
    /// Empties the store, or replaces it with an empty one, and opens it.
    public var wipe: Opening?
    /// Makes a backup of the whole store, and returns a function that restores and opens it. The objects that had the
    /// store open before are not used after a restore.
    public var backup: (@Sendable () async throws -> Opening)?
    /// Simulates a crash: discards everything that is not durable as declared, and opens the rest. For real crashes use
    /// ``kill``.
    public var crash: Opening?
    /// Kills processes that write to the store, with ``CrashTrial``.
    public var kill: (@Sendable (_ seed: UInt64) async throws -> CrashReport)?
    /// Lets several processes, one after another, open a store at the same place and write, and returns what each of
    /// them received. The first writes to an empty store, the second to the same store, the third after a restore of a
    /// backup made between the two, and the fourth after the place was emptied. State in the memory of a process, such
    /// as a counter, starts afresh in each of them. See ``WrittenHistory/init(writingInto:)`` and
    /// `CrashTrial.history(command:)`.
    public var lives: (@Sendable () async throws -> [WrittenHistory])?

    /// Creates a store under test from a backend and the available operations.
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

    /// The capabilities of the backend.
    public var capabilities: Capabilities { backend.capabilities }
}

extension StoreUnderTest {
    /// A memory store that can be wiped and restored, and reached over a connection that loses requests and answers.
    ///
    /// - Parameters:
    ///   - memory: An empty store.
    ///   - seed: The seed that decides what the connection loses.
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
