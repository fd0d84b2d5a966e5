import Entitlements
import FileStorage
import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import Synchronization

/// A store to test, as named on the command line.
struct TrialStore {
    /// A kind of store: its URL scheme and the way to open it.
    private struct Kind {
        let scheme: String
        /// The placeholder after the colon in help texts; empty for a store without a location.
        let place: String
        let open: @Sendable (_ place: String) -> any KeyValueBackend
    }

    /// All kinds of stores. A store with a location must keep everything in the folder it is given.
    private static let kinds = [
        Kind(scheme: "memory", place: "", open: { _ in MemoryBackend() }),
        Kind(scheme: "file", place: "DIR", open: { FileBackend(folder: $0, lockTimeout: .seconds(60)) }),
        Kind(
            scheme: "sqlite", place: "DIR",
            open: { folder in
                // The store does not create the folder. If this fails too, opening the store reports the error.
                try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                return SQLiteBackend(path: folder + "/store.sqlite", busyTimeout: .seconds(60))
            }),
        Kind(
            scheme: "folder", place: "DIR",
            open: { FileBackend(folder: $0, sharing: .fileSyncTool, lockTimeout: .seconds(60)) }),
    ]

    /// `memory:, file:DIR, folder:DIR`.
    static var names: String { kinds.map { "\($0.scheme):\($0.place)" }.joined(separator: ", ") }

    private let kind: Kind
    /// The folder of the URL; empty for a store without a location.
    private let place: String
    private let wrapping: WrappingOptions
    private let wrap: @Sendable (any KeyValueBackend) -> any KeyValueBackend

    init(_ url: String, wrapping: WrappingOptions) throws(Failure) {
        let parts = url.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let kind = Self.kinds.first {
            $0.scheme == parts[0] && parts.count == 2 && $0.place.isEmpty == parts[1].isEmpty
        }
        guard let kind else {
            throw Failure(.usage, "\"\(url.singleLine)\" is not a store that can be tested; use one of \(Self.names)")
        }
        if parts[1].hasPrefix("//"), !parts[1].hasPrefix("///") {
            throw Failure(
                .usage, "\"\(url.singleLine)\" names a host; write \(parts[0]):DIR for a local folder")
        }
        self.kind = kind
        place = parts[1].hasPrefix("///") ? String(parts[1].dropFirst(2)) : parts[1]
        self.wrapping = wrapping
        wrap = try wrapping.wrapping()
    }

    /// Opens the store in the folder itself, for the child process that is killed.
    func open() -> any KeyValueBackend { wrap(kind.open(place)) }

    /// Runs all checks, and restores the folder afterwards.
    func report(seed: UInt64, kills: Int) async throws -> ConformanceReport {
        let wrap = wrap
        guard !place.isEmpty else {
            return await Conformance.run(seed: seed) {
                try Self.stopWhenInterrupted()
                return StoreUnderTest.memory(seed: seed).wrapped(by: wrap)
            }
        }
        let folder = try TrialFolder(place)
        let count = Mutex(0)
        let report = await Conformance.run(seed: seed) {
            try Self.stopWhenInterrupted()
            let number = count.withLock { count in
                count += 1
                return count
            }
            return try await store(at: "\(folder.path)/\(number)", seed: seed, kills: kills)
        }
        try folder.clear()
        return report
    }

    private static func stopWhenInterrupted() throws(Failure) {
        if Interruption.isAsked { throw Failure(.failed, "interrupted") }
    }

    private func store(at path: String, seed: UInt64, kills: Int) async throws -> StoreUnderTest {
        let (kind, wrap) = (kind, wrap)
        let options = wrapping.arguments
        let program = Bundle.main.executablePath ?? CommandLine.arguments[0]
        return try await .inFolder(
            path,
            kill: { seed in
                try await CrashTrial.run(
                    rounds: kills, seed: seed,
                    command: { CrashTrial.Command(program, ["crash-writer", "\(kind.scheme):\(path)", $0] + options) },
                    reopen: { wrap(kind.open(path)) })
            },
            failing: { path in FaultyStore(seed: seed) { kind.open(path) } },
            process: { path in
                try await CrashTrial.history {
                    CrashTrial.Command(program, ["crash-writer", "\(kind.scheme):\(path)", $0] + options)
                }
            },
            open: { kind.open($0) }
        ).wrapped(by: wrap)
    }
}
