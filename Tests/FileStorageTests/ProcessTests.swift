import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("A file store that another process has locked", .serialized)
struct ProcessTests {
    private let folder: TemporaryFolder
    private let store: FileBackend

    init() throws {
        folder = try TemporaryFolder()
        store = FileBackend(folder: folder.path(of: "store"), lockTimeout: .seconds(60))
    }

    @Test("A writer waits for another process, reports busy after the timeout, and continues when that one ends")
    func busy() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try BuiltProgram.startProbe("hold", folder.path(of: "store"))
        #expect(holder.hear() == .line("held"))
        let manual = ManualHost(seed: 1)
        let impatient = FileBackend(folder: folder.path(of: "store"), host: manual.host, lockTimeout: .seconds(3))
        let error = await expectKind(.busy) { try await impatient.write([2], to: key, if: .any) }
        #expect(error?.disposition == .transient && error?.operation == .write && error?.key == key)
        let waited = manual.pauses.reduce(.zero, +)
        #expect(waited >= .seconds(3) && waited < .seconds(3.1))
        #expect(try await impatient.read(key).outcome != .absent, "a reader needs no lock")
        #expect(holder.killAndWait() == -9)
        _ = try await impatient.write([3], to: key, if: .any)
    }

    @Test("A cancelled task stops waiting")
    func cancelledWhileWaiting() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try BuiltProgram.startProbe("hold", folder.path(of: "store"))
        #expect(holder.hear() == .line("held"))
        let clock = EndlessClock()
        let store = FileBackend(
            folder: folder.path(of: "store"),
            host: HostServices(now: { 0 }, timer: clock, randomBits: { .random(in: 0...9) }))
        let kinds = await withTaskGroup(of: BackendError.Kind?.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    do throws(BackendError) {
                        _ = try await store.write([2], to: key, if: .any)
                        return nil
                    } catch {
                        return error.kind
                    }
                }
            }
            // One task waits for the process, and the others wait for that task.
            for await _ in clock.pauses { group.cancelAll() }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(kinds == Array(repeating: .cancelled, count: 4))
        #expect(holder.killAndWait() == -9)
        guard case .found(let entry) = try await store.read(key).outcome else {
            Issue.record("the entry is missing")
            return
        }
        #expect(entry.value == [1])
    }
}
