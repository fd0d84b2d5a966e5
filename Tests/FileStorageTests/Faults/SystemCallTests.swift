import FileStorage
import Foundation
import SyncCore
import TestSupport
import Testing

@Suite("Failures of each system call of the file store")
struct SystemCallTests {
    /// The operation during which a call fails.
    enum Step: CaseIterable, Sendable {
        case firstWrite, newFolder, replacement, deletion, conflict, reading, listing, changes

        func perform(on store: FileBackend) async throws(BackendError) {
            switch self {
            case .firstWrite, .replacement: _ = try await store.write([2], to: EntryKey("a/k"), if: .any)
            case .newFolder: _ = try await store.write([2], to: EntryKey("b/c/k"), if: .absent)
            case .deletion: _ = try await store.delete(EntryKey("a/k"), if: .any)
            case .conflict: _ = try await store.write([2], to: EntryKey("a/k"), if: .absent)
            case .changes: _ = try await store.changes(since: nil, limit: 10)
            case .reading: _ = try await store.read(EntryKey("a/k"))
            case .listing: _ = try await store.list(prefix: "", after: nil, limit: 10)
            }
        }

        var key: String { self == .newFolder ? "b/c/k" : "a/k" }
        var before: [UInt8]? { self == .firstWrite || self == .newFolder ? nil : [1] }
        var after: [UInt8]? {
            switch self {
            case .firstWrite, .newFolder, .replacement: [2]
            case .deletion: nil
            case .conflict, .reading, .listing, .changes: [1]
            }
        }
    }

    /// Performs `step` with the failure and checks the state of the store.
    private func check(_ step: Step, _ failure: FailingFileSystem.Failure) async throws {
        let folder = try TemporaryFolder()
        let path = folder.path(of: "deep/store")
        if step != .firstWrite { _ = try await FileBackend(folder: path).write([1], to: EntryKey("a/k"), if: .absent) }
        let failing = FailingFileSystem(failure)
        let context = "\(step), \(failure)"
        var possible = [step.after]
        let shaken = FileBackend(folder: path, fileSystem: failing)
        do throws(BackendError) {
            try await step.perform(on: shaken)
        } catch {
            #expect(error.operation != nil && error.message.contains(folder.path), "\(context): \(error)")
            #expect(!error.description.contains("\n"), "\(context): \(error)")
            possible = error.disposition == .outcomeUnknown ? [step.before, step.after] : [step.before]
        }
        // Opened like another process would.
        let store = FileBackend(folder: path)
        let found: [UInt8]? =
            if case .found(let entry) = try await store.read(EntryKey(step.key)).outcome { entry.value } else { nil }
        #expect(possible.contains(found), "\(context): found \(found ?? []) after \(failing.calls.last ?? "")")
        let listed = try await store.list(prefix: step.key, after: nil, limit: 10).outcome.items
        #expect(listed.isEmpty == (found == nil), "\(context)")
        _ = try await store.write([3], to: EntryKey("z/k"), if: .absent)
        _ = try await store.write([4], to: EntryKey(step.key), if: .any)
        let versions = try await store.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.version)
        let reported = try await store.changes(since: nil, limit: 10).outcome.changes.compactMap(\.version)
        #expect(Set(reported) == Set(versions), "\(context): the changes differ")
        // Calls may be fewer than `callCount` counted: a child process that another test just forked holds a lock
        // until it runs its program, and each further attempt to lock counts as a call.
        if case .once(let number, _) = failure, failing.calls.count > number {
            // The same object continues normally.
            _ = try await shaken.write([5], to: EntryKey(step.key), if: .any)
            let outcome = try await shaken.read(EntryKey(step.key)).outcome
            #expect(try await FileBackend(folder: path).read(EntryKey(step.key)).outcome == outcome, "\(context)")
            _ = try await shaken.changes(since: nil, limit: 10)
        }
        let left = try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".tmp") }
        #expect(left.isEmpty, "\(context): \(left)")
    }

    private func callCount(of step: Step) async throws -> Int {
        let folder = try TemporaryFolder()
        let path = folder.path(of: "deep/store")
        if step != .firstWrite { _ = try await FileBackend(folder: path).write([1], to: EntryKey("a/k"), if: .absent) }
        let counting = FailingFileSystem(.none)
        try await step.perform(on: FileBackend(folder: path, fileSystem: counting))
        return counting.calls.count
    }

    @Test(
        "If any call fails once, the error is truthful and the store stays usable", arguments: Step.allCases
    )
    func failingOnce(_ step: Step) async throws {
        let count = try await callCount(of: step)
        #expect(count >= 3)
        for number in 0..<count {
            // POSIXFileSystem repeats interrupted calls itself, so EINTR is an unexpected error here.
            for code in [ENOSPC, EIO, EACCES, EMFILE, EINTR] { try await check(step, .once(number, code: code)) }
        }
    }

    @Test(
        "If any call is the last one before a power cut, the store is as before or after the operation",
        arguments: Step.allCases)
    func powerLoss(_ step: Step) async throws {
        for number in 0..<(try await callCount(of: step)) { try await check(step, .everythingFrom(number)) }
    }

    @Test("The calls of a durable write are in the order that survives a power cut")
    func order() async throws {
        let folder = try TemporaryFolder()
        let counting = FailingFileSystem(.none)
        let store = FileBackend(folder: folder.path(of: "store"), fileSystem: counting)
        _ = try await store.write([1], to: EntryKey("k"), if: .any)
        let before = counting.calls.count
        _ = try await store.write([2], to: EntryKey("k"), if: .any)
        let calls = counting.calls[before...].filter { ["write", "fsync", "rename", "mkdir", "unlink"].contains($0) }
        // The change is appended to the log before the rename, and marked after the rename was synced.
        #expect(calls == ["write", "fsync", "write", "rename", "fsync", "write"])
    }

    @Test("Errors have known kinds")
    func kinds() async throws {
        let expected: [(Int32, BackendError.Kind)] = [
            (EACCES, .permissionDenied), (EPERM, .permissionDenied), (EROFS, .permissionDenied), (ENOSPC, .full),
            (EDQUOT, .full), (ENOTDIR, .notAStore), (EMFILE, .busy), (ESTALE, .unavailable), (EIO, .unavailable),
        ]
        let folder = try TemporaryFolder()
        for (code, kind) in expected {
            let failing = FailingFileSystem(.once(0, code: code))
            let store = FileBackend(folder: folder.path(of: "store"), fileSystem: failing)
            let error = await expectKind(kind) { try await store.write([1], to: EntryKey("k"), if: .any) }
            #expect((error?.cause as? FileSystemError)?.code == code)
        }
    }
}
