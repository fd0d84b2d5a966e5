import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Several processes on one SQLite store", .serialized)
struct SQLiteProcessTests {
    private let folder: TemporaryFolder
    private let path: String
    private let store: SQLiteBackend

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
        store = SQLiteBackend(path: path, busyTimeout: .seconds(60))
    }

    @Test("On a full disk, writes fail with a typed error, acknowledged entries stay, and writing resumes later")
    func fullDisk() async throws {
        let disk = try folder.freshFolder()
        // A separate disk in its own mount namespace, which ends with the process. A copy of the store stays.
        let script =
            "mount -t tmpfs -o size=1m tmpfs \(disk) || exit 77; "
            + "head -c 200000 /dev/zero > \(disk)/ballast; \"$@\"; "
            + "cp \(disk)/s* \(folder.path)/"
        let process = try BuiltProgram.startProbe(
            "fill", "sqlite:\(disk)", disk + "/ballast",
            by: ["/usr/bin/unshare", "-m", "/bin/sh", "-c", script, "sh"])
        guard case .line(let number) = process.hear(), let count = Int(number), case .line(let error) = process.hear()
        else {
            // Mounting is not permitted here. `independentFailures` tests the same with SQLite's own limit of pages.
            print("skipped: no tmpfs can be mounted here (exit status \(process.wait()))")
            return
        }
        #expect(
            error.hasPrefix("full permanent write \"big/\(count)\": \(disk)/store.sqlite: no space is left"), "\(error)"
        )
        #expect(process.hear() == .line("deleted and written"))
        #expect(process.wait() == 0)
        let copy = SQLiteBackend(path: path)
        for number in 1..<count { #expect(try await copy.read(EntryKey("big/\(number)")).outcome != .absent) }
        #expect(try await copy.integrityCheck().isIntact)
        print("full disk: \(count) values of 64 KiB on a tmpfs of 1 MiB")
    }

    @Test("A writer waits for another process, reports busy after the timeout, and continues when that one ends")
    func busy() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try WriteLock(path: path)
        let manual = ManualHost(seed: 1)
        let impatient = SQLiteBackend(path: path, host: manual.host, busyTimeout: .seconds(3))
        let error = await expectKind(.busy) { try await impatient.write([2], to: key, if: .any) }
        #expect(error?.disposition == .transient && error?.operation == .write && error?.key == key)
        let waited = manual.pauses.reduce(.zero, +)
        #expect(waited >= .seconds(3) && waited < .seconds(3.1))
        #expect(try await impatient.read(key).outcome != .absent, "a reader does not wait for a writer")
        let errors = await withTaskGroup(of: BackendError.Kind?.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    do throws(BackendError) {
                        _ = try await impatient.write([2], to: key, if: .any)
                        return nil
                    } catch {
                        return error.kind
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(errors == Array(repeating: .busy, count: 4))
        try holder.release()
        _ = try await impatient.write([3], to: key, if: .any)
    }

    @Test("A cancelled task stops waiting")
    func cancelledWhileWaiting() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try WriteLock(path: path)
        let clock = EndlessClock()
        let store = SQLiteBackend(
            path: path, host: HostServices(now: { 0 }, timer: clock, randomBits: { .random(in: 0...9) }))
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
            // One task waits for the lock, and the others wait for that task.
            for await _ in clock.pauses { group.cancelAll() }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(kinds == Array(repeating: .cancelled, count: 4))
        try holder.release()
        guard case .found(let entry) = try await self.store.read(key).outcome else {
            Issue.record("the entry is missing")
            return
        }
        #expect(entry.value == [1])
    }
}
