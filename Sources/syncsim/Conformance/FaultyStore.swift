import SyncCore
import SyncCoreTesting
import Synchronization

/// A store that meets real system errors at random: for the duration of some calls, files cannot grow beyond a limit.
///
/// No fault is simulated: the store meets EFBIG at its own system calls, in the middle of an operation, and reports
/// its own errors. The limit applies to the whole process (`setrlimit`), so other objects that are used at the same
/// moment meet it too.
final class FaultyStore: ForwardingBackend {
    private let open: @Sendable () -> any KeyValueBackend
    /// The store that stays open across faults.
    let base: any KeyValueBackend
    private let generator: Mutex<SeededGenerator>

    /// - Parameters:
    ///   - seed: Decides which calls meet a fault, and which one.
    ///   - open: Opens the store.
    init(seed: UInt64, open: @escaping @Sendable () -> any KeyValueBackend) {
        self.open = open
        base = open()
        generator = Mutex(SeededGenerator(seed: seed))
    }

    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        guard let (size, reopens) = draw(), FileSizeLimit.begin(size) else { return try await call(base) }
        defer { FileSizeLimit.end() }
        return try await call(reopens ? open() : base)
    }

    /// For one call in four: the limit on file sizes, and whether to reopen the store.
    private func draw() -> (size: UInt64, reopens: Bool)? {
        generator.withLock { generator in
            guard Int.random(in: 0..<4, using: &generator) == 0 else { return nil }
            let sizes: [UInt64] = [0, 1, 60, 200, 5_000, 40_000]
            return (sizes.randomElement(using: &generator) ?? 0, Bool.random(using: &generator))
        }
    }
}
