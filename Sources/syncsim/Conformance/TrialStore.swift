import Entitlements
import FileStorage
import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import Synchronization

/// A kind of store that the command line can name, and the place for trying it.
struct TrialStore {
    /// How a kind of store is named and opened.
    private struct Kind {
        let scheme: String
        /// What follows the colon, for people; empty for a store without a place.
        let place: String
        let open: @Sendable (_ place: String) -> any KeyValueBackend
    }

    /// All that can be tried. A store with a place must live wholly in the folder that it is given.
    private static let kinds = [
        Kind(scheme: "memory", place: "", open: { _ in MemoryBackend() }),
        Kind(scheme: "file", place: "DIR", open: { FileBackend(folder: $0, lockTimeout: .seconds(60)) }),
        Kind(
            scheme: "sqlite", place: "DIR",
            open: { folder in
                // The store makes no folder. Where this cannot either, the store says what is missing.
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
    /// The folder that was named; empty for a store without a place.
    private let place: String
    private let wrapping: WrappingOptions
    private let wrap: @Sendable (any KeyValueBackend) -> any KeyValueBackend

    init(_ url: String, wrapping: WrappingOptions) throws(Failure) {
        let parts = url.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let kind = Self.kinds.first {
            $0.scheme == parts[0] && parts.count == 2 && $0.place.isEmpty == parts[1].isEmpty
        }
        guard let kind else {
            throw Failure(.usage, "\"\(url.singleLine)\" is no store that can be tried: write one of \(Self.names)")
        }
        if parts[1].hasPrefix("//"), !parts[1].hasPrefix("///") {
            throw Failure(
                .usage, "\"\(url.singleLine)\" names a host: a folder of this machine is \(parts[0]):DIR")
        }
        self.kind = kind
        place = parts[1].hasPrefix("///") ? String(parts[1].dropFirst(2)) : parts[1]
        self.wrapping = wrapping
        wrap = try wrapping.wrapping()
    }

    /// The store in the folder itself, for the child that is killed.
    func open() -> any KeyValueBackend { wrap(kind.open(place)) }

    /// Runs all checks, and leaves the folder as it was.
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
