import EntitlementSync
import Foundation
import TestSupport
import Testing

/// The tests need the permission to mount a file system and are skipped without it.
@Suite("A disk of 64 KB", .enabled(if: SmallDisk.isPossible, "a tmpfs cannot be mounted here"))
struct FullDiskTests {
    private let sandbox: Sandbox
    private let disk: SmallDisk

    init() throws {
        sandbox = try Sandbox()
        disk = try SmallDisk(kilobytes: 64, in: sandbox.folder)
    }

    private let store = "--local file:disk/store"

    @Test("A full disk rejects a record, keeps acknowledged ones, and works again when space is freed")
    func full() async throws {
        #expect(try sandbox.run("record purchase \(Owls.night) --transaction t1 \(store)").exitCode == 0)
        try disk.fill()
        #expect(
            try sandbox.run("record purchase \(Owls.night) --transaction t2 \(store)")
                == .refused(
                    1,
                    #"local store: write "anonymous/ledger": disk/store/anonymous/.pending.tmp: no space is left; "#
                        + "free some (write: No space left on device)"))
        #expect(try sandbox.run("check night-owl \(store)").exitCode == 0)
        #expect(try await sandbox.purchases(in: "disk/store") == ["t1"])
        try disk.empty()
        #expect(try sandbox.run("record purchase \(Owls.night) --transaction t3 \(store)").exitCode == 0)
        #expect(try await sandbox.purchases(in: "disk/store") == ["t1", "t3"])
    }

    @Test("A disk that fills up ends with exactly the acknowledged records")
    func fillingUp() async throws {
        var acknowledged: Set<String> = []
        // Each id and its recording take about 600 bytes. The old ledger and the new one are on the disk together.
        for number in 0..<100 {
            let id = String(repeating: "x", count: 250) + "\(number)"
            let outcome = try sandbox.run("record purchase \(Owls.night) --transaction \(id) \(store)")
            guard outcome.exitCode == 0 else {
                #expect(outcome.exitCode == 1 && outcome.output.isEmpty)
                #expect(outcome.error.contains("no space is left; free some"))
                break
            }
            acknowledged.insert(id)
        }
        #expect((5..<100).contains(acknowledged.count))
        #expect(try await sandbox.purchases(in: "disk/store") == acknowledged)
    }

    @Test("A full disk as the remote rejects a sync, and the device keeps its facts")
    func fullRemote() async throws {
        let alice = "--account alice --remote file:disk/store"
        #expect(try sandbox.run("record purchase \(Owls.night) --transaction t1 \(alice)").exitCode == 0)
        try disk.fill()
        let outcome = try sandbox.run("sync --create-remote \(alice)")
        #expect(outcome.exitCode == 1 && outcome.output.isEmpty)
        #expect(outcome.error.hasPrefix("syncd: remote store: ") && outcome.error.contains("no space is left"))
        try disk.empty()
        #expect(
            try sandbox.run("sync --create-remote \(alice)")
                == .done("synced alice: received nothing, sent what the remote lacked"))
        #expect(try await sandbox.purchases(in: "disk/store", of: Account("alice")) == ["t1"])
    }

    @Test("A read-only disk rejects a record")
    func readOnly() throws {
        #expect(try sandbox.run("record purchase \(Owls.night) --transaction t1 \(store)").exitCode == 0)
        try disk.makeReadOnly()
        #expect(
            try sandbox.run("record purchase \(Owls.night) --transaction t2 \(store)")
                == .refused(
                    4,
                    #"local store: write "anonymous/ledger": disk/store/store.lock: the file system is read-only; "#
                        + "mount it for writing (open: Read-only file system)"))
        #expect(try sandbox.run("check night-owl \(store)").exitCode == 0)
    }
}
