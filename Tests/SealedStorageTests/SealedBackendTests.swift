#if Sealed
import FileStorage
import Foundation
import SQLiteStorage
import SealedStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("A sealed store")
struct SealedBackendTests {
    private let key: SealingKey
    private let other: SealingKey
    private let place: EntryKey
    private let secret = Array("three months of owls".utf8)

    init() throws {
        key = try SealingKey(bytes: Array(1...32))
        other = try SealingKey(bytes: Array(2...33))
        place = try EntryKey("accounts/alice/ledger")
    }

    private func sealed(_ store: MemoryBackend, _ keys: SealingKeys? = nil) -> SealedBackend {
        SealedBackend(store, keys: keys ?? SealingKeys(key))
    }

    private func bytes(in store: MemoryBackend, at place: EntryKey) async throws -> [UInt8] {
        guard case .found(let entry) = try await store.read(place).outcome else {
            throw CocoaError(.fileNoSuchFile)
        }
        return entry.value
    }

    private func error(reading place: EntryKey, in store: SealedBackend) async -> BackendError? {
        do throws(BackendError) {
            _ = try await store.read(place)
            return nil
        } catch {
            return error
        }
    }

    @Test("passes the conformance checks over memory, files and SQLite", arguments: ["memory", "file", "SQLite"])
    func conformance(kind: String) async throws {
        let keys = SealingKeys(key)
        guard kind != "memory" else {
            let seed = printedSeed("sealed memory")
            await expectConformance(of: "sealed memory", seed: seed) {
                var store = StoreUnderTest.memory(seed: seed)
                store.sealEverything(with: keys)
                return store
            }
            return
        }
        // In memory, because the tests of the wrapped backends cover real disks.
        let folder = try TemporaryFolder(inMemory: true)
        await expectConformance(of: "sealed \(kind)") {
            let open: @Sendable (String) throws -> any KeyValueBackend = { path in
                guard kind == "SQLite" else { return FileBackend(folder: path, maximumValueByteCount: 1 << 21) }
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
                return SQLiteBackend(path: path + "/store.sqlite", maximumValueByteCount: 1 << 21)
            }
            var store = try await StoreUnderTest.inFolder(
                "\(try folder.freshFolder())/store",
                failing: { FaultyBackend(try open($0), plan: .seeded(7, rate: 0.2)) }, open: open)
            store.sealEverything(with: keys)
            return store
        }
    }

    @Test("stores no plain text, and encrypts the same value differently each time")
    func hides() async throws {
        let store = MemoryBackend()
        var found: Set<[UInt8]> = []
        for _ in 0..<4 {
            _ = try await sealed(store).write(secret, to: place, if: .any)
            let bytes = try await bytes(in: store, at: place)
            #expect(bytes.count == secret.count + SealedBackend.overhead)
            #expect(String(decoding: bytes, as: UTF8.self).contains("owls") == false)
            found.insert(bytes)
        }
        #expect(found.count == 4)
        guard case .found(let entry) = try await sealed(store).read(place).outcome else {
            Issue.record("the value was not found")
            return
        }
        #expect(entry.value == secret)
    }

    @Test("detects every changed byte, every truncation and an appended byte")
    func everyByte() async throws {
        let store = MemoryBackend()
        _ = try await sealed(store).write(secret, to: place, if: .any)
        let whole = try await bytes(in: store, at: place)
        var damaged = whole.indices.map { index in
            var bytes = whole
            bytes[index] ^= 1 << UInt8(index % 8)
            return bytes
        }
        damaged += (0..<whole.count).map { Array(whole.prefix($0)) }
        damaged.append(whole + [0])
        for bytes in damaged {
            _ = try await store.write(bytes, to: place, if: .any)
            let error = try #require(await error(reading: place, in: sealed(store)))
            #expect([.damaged, .newerFormat, .permissionDenied].contains(error.kind))
            #expect(error.key == place && error.operation == .read && error.disposition == .permanent)
        }
    }

    @Test("rejects a value that was moved to another key or swapped with that of another key")
    func swapped() async throws {
        let store = MemoryBackend()
        let second = try EntryKey("accounts/bob/ledger")
        _ = try await sealed(store).write(secret, to: place, if: .any)
        _ = try await sealed(store).write(Array("nothing".utf8), to: second, if: .any)
        let (first, last) = (try await bytes(in: store, at: place), try await bytes(in: store, at: second))
        _ = try await store.write(first, to: second, if: .any)
        _ = try await store.write(last, to: place, if: .any)
        for key in [place, second] { #expect(await error(reading: key, in: sealed(store))?.kind == .damaged) }
        let renamed = try EntryKey("accounts/carol/ledger")
        _ = try await store.write(first, to: renamed, if: .any)
        #expect(await error(reading: renamed, in: sealed(store))?.kind == .damaged)
    }

    @Test("cannot detect that an old value was restored under its own key")
    func rollback() async throws {
        let store = MemoryBackend()
        _ = try await sealed(store).write(secret, to: place, if: .any)
        let old = try await bytes(in: store, at: place)
        _ = try await sealed(store).write(Array("six months".utf8), to: place, if: .any)
        _ = try await store.write(old, to: place, if: .any)
        // A documented limitation: a seal does not show whether its value is the latest one.
        guard case .found(let entry) = try await sealed(store).read(place).outcome else {
            Issue.record("the value was not found")
            return
        }
        #expect(entry.value == secret)
    }

    @Test("reports a conflict with an unreadable value as an error and writes nothing")
    func conflict() async throws {
        let store = MemoryBackend()
        let foreign = Array("not sealed".utf8)
        _ = try await store.write(foreign, to: place, if: .any)
        await #expect(throws: BackendError.self) {
            _ = try await sealed(store).write(secret, to: place, if: .absent)
        }
        #expect(try await bytes(in: store, at: place) == foreign)
        let results = try await sealed(store).write([
            WriteRequest(place, value: secret, if: .absent),
            WriteRequest(try EntryKey("b"), value: secret, if: .absent),
        ]).outcome
        #expect(throws: BackendError.self) { try results[0].get() }
        #expect(throws: Never.self) { try results[1].get() }
    }

    @Test("reads values of an older key, and needs only the new key after resealing")
    func rotation() async throws {
        let store = MemoryBackend()
        let keys = try (0..<300).map { try EntryKey("k/\($0)") }
        for key in keys { _ = try await sealed(store).write(Array(key.text.utf8), to: key, if: .any) }
        let rotated = sealed(store, SealingKeys(other, previous: [key]))
        _ = try await rotated.write(secret, to: place, if: .any)
        #expect(await error(reading: keys[0], in: sealed(store, SealingKeys(other)))?.kind == .permissionDenied)
        #expect(try await rotated.reseal() == 300)
        #expect(try await rotated.reseal() == 0)
        for key in keys {
            guard case .found(let entry) = try await sealed(store, SealingKeys(other)).read(key).outcome else {
                Issue.record("\(key) was not found")
                continue
            }
            #expect(entry.value == Array(key.text.utf8))
        }
        let unconditional = SealedBackend(UnconditionalBackend(store), keys: SealingKeys(key))
        await #expect(throws: BackendError.self) { try await unconditional.reseal() }
    }

    @Test("loads the keys once, reloads them for an unknown key, and reports when they cannot be loaded")
    func loading() async throws {
        struct Locked: Error {}
        let store = MemoryBackend()
        let loads = CallCounter()
        let (key, other) = (key, other)
        let backend = SealedBackend(store) {
            switch loads.next() {
            case 1: throw Locked()
            case 2: return SealingKeys(key)
            default: return SealingKeys(other, previous: [key])
            }
        }
        let failure = await #expect(throws: BackendError.self) {
            try await backend.write(secret, to: place, if: .any)
        }
        #expect(failure?.kind == .unavailable && failure?.disposition == .transient && failure?.cause is Locked)
        _ = try await backend.write(secret, to: place, if: .absent)
        _ = try await backend.read(place)
        #expect(loads.count == 2)
        _ = try await sealed(store, SealingKeys(other)).write(secret, to: place, if: .any)
        _ = try await backend.read(place)
        #expect(loads.count == 3)
    }
}

extension StoreUnderTest {
    /// Wraps the backend in a ``SealedBackend``, in every way that the store is opened.
    fileprivate mutating func sealEverything(with keys: SealingKeys) {
        let sealed: @Sendable (@escaping Opening) -> Opening = { open in
            { SealedBackend(try await open(), keys: keys) }
        }
        backend = SealedBackend(backend, keys: keys)
        reopen = reopen.map(sealed)
        failing = failing.map(sealed)
        wipe = wipe.map(sealed)
        if let own = backup { backup = { sealed(try await own()) } }
    }
}
#endif
