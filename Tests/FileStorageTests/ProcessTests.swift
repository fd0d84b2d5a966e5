import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Several processes on one file store", .serialized)
struct ProcessTests {
    private let folder: TemporaryFolder
    private let store: FileBackend

    init() throws {
        folder = try TemporaryFolder()
        store = FileBackend(folder: folder.path(of: "store"), lockTimeout: .seconds(60))
    }

    @Test("raise one counter without losing a step, in two processes and two tasks at once")
    func counter() async throws {
        let key = try EntryKey("counter")
        let path = folder.path(of: "store")
        let processes = try (0..<2).map { _ in try Probe("count", path, "counter", "150") }
        let other = FileBackend(folder: path, lockTimeout: .seconds(60))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in [store, other] {
                group.addTask { for _ in 0..<150 { try await raise(key, in: store) } }
            }
            try await group.waitForAll()
        }
        for process in processes { #expect(process.exitStatus() == 0) }
        #expect(try await count(key) == 600)
    }

    @Test("that are killed in the middle of writing lose no acknowledged write and leave a readable store")
    func killed() async throws {
        let seed = printedSeed("kill -9")
        var generator = SeededGenerator(seed: seed)
        let path = folder.path(of: "store")
        var acknowledged = 0
        var leftovers = 0
        for round in 0..<50 {
            let prefixes = ["x\(round)", "y\(round)"]
            let processes = try prefixes.map { try Probe("write", path, $0) }
            // At a random moment of a random write: after some acknowledgements, and then some microseconds.
            for _ in 0..<Int.random(in: 1...6, using: &generator) { _ = processes[0].line() }
            let end = ContinuousClock.now + .microseconds(Int.random(in: 0...900, using: &generator))
            while ContinuousClock.now < end {}
            for (prefix, process) in zip(prefixes, processes) {
                for number in process.killAndCollect() {
                    let key = try EntryKey("\(prefix)/\(number % 3)/\(number)")
                    guard case .found(let entry) = try await store.read(key).outcome,
                        entry.value == Array("\(prefix) \(number)".utf8)
                    else {
                        Issue.record("round \(round), seed \(seed): \(key) was acknowledged and is not there")
                        return
                    }
                    acknowledged += 1
                }
            }
            leftovers += try pendingFiles()
            // The store goes on at once, and everything in it is readable.
            _ = try await store.write([1], to: EntryKey("after/\(round)"), if: .absent)
            let listed = try await store.list(prefix: "", after: nil, limit: .max).outcome.items
            for item in listed {
                #expect(try await store.read(item.key, unless: item.version).outcome == .unchanged)
            }
        }
        print(
            "kill -9: 50 rounds, 2 writers each, \(acknowledged) acknowledged writes, \(leftovers) left-over files seen"
        )
        #expect(acknowledged >= 50)
    }

    @Test("wait for the one that writes, answer busy after the time limit, and go on when it has ended")
    func busy() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try Probe("hold", folder.path(of: "store"))
        #expect(holder.line() == "held")
        let manual = ManualHost(seed: 1)
        let impatient = FileBackend(folder: folder.path(of: "store"), host: manual.host, lockTimeout: .seconds(3))
        let error = await expectKind(.busy) { try await impatient.write([2], to: key, if: .any) }
        #expect(error?.disposition == .transient && error?.operation == .write && error?.key == key)
        let waited = manual.pauses.reduce(.zero, +)
        #expect(waited >= .seconds(3) && waited < .seconds(3.1))
        #expect(try await impatient.read(key).outcome != .absent, "a reader needs no lock")
        _ = holder.killAndCollect()
        _ = try await impatient.write([3], to: key, if: .any)
    }

    @Test("do not keep a cancelled task waiting")
    func cancelledWhileWaiting() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try Probe("hold", folder.path(of: "store"))
        #expect(holder.line() == "held")
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
            // One waits for the process, the others for the one.
            for await _ in clock.pauses { group.cancelAll() }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(kinds == Array(repeating: .cancelled, count: 4))
        _ = holder.killAndCollect()
        guard case .found(let entry) = try await store.read(key).outcome else {
            Issue.record("the entry is gone")
            return
        }
        #expect(entry.value == [1])
    }

    private func pendingFiles() throws -> Int {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).count { $0.hasSuffix(".pending.tmp") }
    }

    private func count(_ key: EntryKey) async throws -> Int? {
        guard case .found(let entry) = try await store.read(key).outcome else { return nil }
        return Int(String(decoding: entry.value, as: UTF8.self))
    }
}

private func raise(_ key: EntryKey, in store: FileBackend) async throws {
    var outcome = try await store.read(key).outcome
    while true {
        let (count, precondition): (Int, Precondition) =
            if case .found(let entry) = outcome {
                (try #require(Int(String(decoding: entry.value, as: UTF8.self))), .matches(entry.version))
            } else {
                (0, .absent)
            }
        switch try await store.write(Array("\(count + 1)".utf8), to: key, if: precondition).outcome {
        case .written, .deleted: return
        case .conflict(let current): outcome = current.map(ReadOutcome.found) ?? .absent
        }
    }
}

/// A running `FileWriterProbe`.
private final class Probe {
    private let process = Process()
    private let output = Pipe()
    private let input = Pipe()
    private var buffer = Data()
    private var numbers: [Int] = []

    init(_ arguments: String...) throws {
        let tests = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? tests.path
        let folder = URL(fileURLWithPath: bundle).deletingLastPathComponent()
        process.executableURL = folder.appendingPathComponent("FileWriterProbe")
        process.arguments = arguments
        process.standardOutput = output
        process.standardInput = input
        try process.run()
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    /// The next line that it prints, `nil` when it has ended.
    func line() -> String? {
        while true {
            if let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: buffer[..<end], as: UTF8.self)
                buffer = Data(buffer[(end + 1)...])
                if let number = Int(line) { numbers.append(number) }
                return line
            }
            let more = output.fileHandleForReading.availableData
            if more.isEmpty { return nil }
            buffer += more
        }
    }

    /// Kills it and answers all numbers that it printed.
    func killAndCollect() -> [Int] {
        kill(process.processIdentifier, SIGKILL)
        while line() != nil {}
        process.waitUntilExit()
        return numbers
    }

    func exitStatus() -> Int32 {
        process.waitUntilExit()
        return process.terminationStatus
    }
}
