import SyncCore
import SyncCoreTesting
import TestSupport
import Testing
import UbiquitousStorage

@Suite("The backend on iCloud's key-value store")
struct UbiquitousBackendTests {
    private let cloud = FakeCloud()
    private let key: EntryKey

    init() throws { key = try EntryKey("a") }

    private func create(_ device: FakeDevice) async throws -> UbiquitousBackend {
        let backend = UbiquitousBackend(device, boundIn: MemoryBackend())
        try await backend.create()
        return backend
    }

    private func entryName(_ device: FakeDevice) throws -> String {
        try #require(device.keys.first { !$0.contains("store") })
    }

    @Test("All checks for a backend without compare-and-swap pass, and no key in iCloud is too long")
    func conformance() async throws {
        let devices = Devices()
        await expectConformance(of: "iCloud", seed: printedSeed("UbiquitousBackendTests")) {
            StoreUnderTest(try await devices.makeStore(), wipe: { try await devices.makeStore() })
        }
        #expect(devices.all.flatMap(\.misuses).isEmpty)
    }

    @Test("A write that does not fit into iCloud is refused, and other values of the app count with their size")
    func quota() async throws {
        let device = FakeDevice(cloud)
        device.set([UInt8](repeating: 0, count: 350_000), of: "settings")
        // A string or a dictionary.
        device.set([UInt8](repeating: 0, count: 350_000), of: "texts", isData: false)
        let backend = try await create(device)
        let large = [UInt8](repeating: 1, count: 400_000)
        await expectKind(.full) { try await backend.write(large, to: key, if: .any) }
        #expect(try await backend.read(key).outcome == .absent)
        _ = try await backend.write([UInt8](repeating: 1, count: 300_000), to: key, if: .any)
        _ = try await backend.write([UInt8](repeating: 2, count: 300_000), to: key, if: .any)
        await expectKind(.tooLarge) {
            try await backend.write([UInt8](repeating: 1, count: 1_000_001), to: key, if: .any)
        }
        let others = UbiquitousBackend.keyCountLimit - device.keys.count
        for index in 0..<others { device.set([1], of: "other\(index)") }
        await expectKind(.full) { try await backend.write([1], to: EntryKey("b"), if: .any) }
        _ = try await backend.write([3], to: key, if: .any)
        let crowded = UbiquitousBackend(device, boundIn: MemoryBackend())
        for name in device.keys where name.contains("store.") { device.set(nil, of: name) }
        device.set([1], of: "one more")
        let keys = device.keys
        await expectKind(.full) { try await crowded.create() }
        #expect(device.keys == keys)
    }

    @Test("A quota that iCloud reports later fails the next write, and the one after that is tried again")
    func laterQuota() async throws {
        let (one, two) = (FakeDevice(cloud), FakeDevice(cloud))
        one.set([UInt8](repeating: 0, count: 600_000), of: "one")
        let backend = try await create(one)
        cloud.exchange(one)
        cloud.exchange(two)
        let other = try await create(two)
        two.set(nil, of: "one")
        two.set([UInt8](repeating: 0, count: 600_000), of: "two")
        one.set([UInt8](repeating: 0, count: 600_000), of: "one")
        cloud.exchange(one)
        cloud.exchange(two)
        two.set(nil, of: "one")
        await expectKind(.full) { try await other.write([1], to: key, if: .any) }
        two.set(nil, of: "two")
        _ = try await other.write([1], to: key, if: .any)
        cloud.exchange(two)
        cloud.exchange(one)
        #expect(try await backend.read(key).outcome.value == [1])
    }

    @Test("A damaged value is listed and cannot be read; one of a later format asks for an update")
    func damaged() async throws {
        let device = FakeDevice(cloud)
        let backend = try await create(device)
        _ = try await backend.write([1, 2, 3], to: key, if: .any)
        let name = try entryName(device)
        var bytes = try #require(device.value(of: name)?.bytes)
        bytes[bytes.count - 1] ^= 1
        device.set(bytes, of: name)
        await expectKind(.damaged) { try await backend.read(key) }
        #expect(try await backend.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key) == [key])
        bytes[3] = UInt8(ascii: "2")
        device.set(bytes, of: name)
        await expectKind(.newerFormat) { try await backend.read(key) }
    }

    @Test("A value that is no data is damaged, not absent")
    func otherType() async throws {
        let device = FakeDevice(cloud)
        let backend = try await create(device)
        _ = try await backend.write([1], to: key, if: .any)
        device.set([1], of: try entryName(device), isData: false)
        await expectKind(.damaged) { try await backend.read(key) }
        _ = try await backend.write([2], to: key, if: .any)
        #expect(try await backend.read(key).outcome.value == [2])
    }

    @Test("An app without the entitlement writes nothing, and the error names the entitlement")
    func entitlement() async throws {
        let device = FakeDevice(cloud)
        let backend = UbiquitousBackend(device, boundIn: MemoryBackend())
        device.failToSave()
        for replacing in [false, true] {
            let error = await expectKind(.unavailable) { try await backend.create(replacingBinding: replacing) }
            #expect(error?.disposition == .transient)
            #expect(error?.message.contains("com.apple.developer.ubiquity-kvstore-identifier") == true)
        }
        await expectKind(.unavailable) { try await backend.write([1], to: key, if: .any) }
        #expect(device.keys.isEmpty)
        device.failToSave(false)
        try await backend.create()
        _ = try await backend.write([1], to: key, if: .any)
    }

    @Test("A local copy that cannot be saved leaves the outcome of a write or a deletion unknown")
    func failingDisk() async throws {
        let device = FakeDevice(cloud)
        let backend = try await create(device)
        device.failToSave()
        let write = await expectKind(.other) { try await backend.write([1], to: key, if: .any) }
        #expect(write?.disposition == .outcomeUnknown)
        let deletion = await expectKind(.other) { try await backend.delete(key, if: .any) }
        #expect(deletion?.disposition == .outcomeUnknown)
    }

    @Test("A notification that arrives during a call of the store does not block", .timeLimit(.minutes(15)))
    func reentrantNotification() async throws {
        let device = FakeDevice(cloud)
        device.notifyInCalls()
        let backend = try await create(device)
        _ = try await backend.write([1], to: key, if: .any)
        #expect(try await backend.read(key).outcome.value == [1])
        #expect(try await backend.list(prefix: "", after: nil, limit: 10).outcome.items.count == 1)
        _ = try await backend.delete(key, if: .any)
        #expect(try await backend.read(key).outcome == .absent)
    }
}

extension ReadOutcome {
    var value: [UInt8]? { if case .found(let entry) = self { entry.value } else { nil } }
}
