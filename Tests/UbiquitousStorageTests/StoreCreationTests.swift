import SyncCore
import SyncCoreTesting
import TestSupport
import Testing
import UbiquitousStorage

@Suite("The creation of a store in iCloud, and the device's memory of it")
struct StoreCreationTests {
    private let cloud = FakeCloud()
    private let local = MemoryBackend()
    private let key: EntryKey

    init() throws { key = try EntryKey("a") }

    private func open(_ device: FakeDevice, _ local: MemoryBackend? = nil) -> UbiquitousBackend {
        UbiquitousBackend(device, boundIn: local ?? self.local)
    }

    /// Creates the store of another device of `account`, with one entry.
    private func makeStore(_ account: UInt8 = 1) async throws {
        let device = FakeDevice(cloud, account: account)
        cloud.exchange(device)
        let backend = open(device, MemoryBackend())
        try await backend.create()
        _ = try await backend.write([account], to: key, if: .any)
        cloud.exchange(device)
    }

    /// Expects that every operation fails with `kind` and changes nothing on the device.
    private func expectRefusal(
        _ kind: BackendError.Kind, by backend: UbiquitousBackend, on device: FakeDevice,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let keys = device.keys
        await expectKind(kind, sourceLocation: sourceLocation) { try await backend.read(key) }
        await expectKind(kind, sourceLocation: sourceLocation) { try await backend.write([9], to: key, if: .any) }
        await expectKind(kind, sourceLocation: sourceLocation) { try await backend.delete(key, if: .any) }
        await expectKind(kind, sourceLocation: sourceLocation) {
            try await backend.list(prefix: "", after: nil, limit: 10)
        }
        #expect(device.keys == keys, sourceLocation: sourceLocation)
    }

    @Test("A store is missing until it is created or downloaded, and neither creates a second one")
    func firstUse() async throws {
        let device = FakeDevice(cloud)
        let backend = open(device)
        await expectRefusal(.missing, by: backend, on: device)
        try await makeStore()
        cloud.exchange(device)
        #expect(try await backend.read(key).outcome.value == [1])
        let keys = device.keys
        try await backend.create()
        try await open(device).create()
        #expect(device.keys == keys)
    }

    @Test("The form that the engine uses for a remote neither creates the store nor refuses a created one")
    func remoteForm() async throws {
        let device = FakeDevice(cloud)
        let backend = open(device)
        await expectKind(.missing) { try await backend.requiringExisting.write([1], to: key, if: .any) }
        try await backend.create()
        _ = try await backend.requiringExisting.write([1], to: key, if: .any)
        #expect(try await backend.read(key).outcome.value == [1])
    }

    @Test("Two devices that create the store before they see each other share it")
    func concurrentCreation() async throws {
        let (one, two) = (FakeDevice(cloud), FakeDevice(cloud))
        let otherLocal = MemoryBackend()
        let (phone, tablet) = (open(one), open(two, otherLocal))
        try await phone.create()
        try await tablet.create()
        _ = try await phone.write([1], to: key, if: .any)
        for device in [one, two, one] { cloud.exchange(device) }
        #expect(try await tablet.read(key).outcome.value == [1])
        _ = try await tablet.write([2], to: key, if: .any)
        for device in [two, one] { cloud.exchange(device) }
        // Also after a restart, when only the local stores remember.
        #expect(try await open(one).read(key).outcome.value == [2])
        #expect(try await open(two, otherLocal).read(key).outcome.value == [2])
    }

    @Test("A store that was deleted is missing, also after a restart, and is created again only on request")
    func deletion() async throws {
        let device = FakeDevice(cloud)
        let backend = open(device)
        try await makeStore()
        cloud.exchange(device)
        #expect(try await backend.read(key).outcome.value == [1])
        cloud.deleteAll(1)
        cloud.exchange(device)
        for backend in [backend, open(device)] {
            await expectRefusal(.missing, by: backend, on: device)
            await expectKind(.missing) { try await backend.create() }
        }
        try await backend.create(replacingBinding: true)
        #expect(try await backend.read(key).outcome == .absent)
        _ = try await backend.write([2], to: key, if: .any)
    }

    @Test("A deleted store of a single device is missing once the app has started again after its creation")
    func deletionOfSingleDevice() async throws {
        let device = FakeDevice(cloud)
        try await open(device).create()
        cloud.exchange(device)
        _ = try await open(device).write([1], to: key, if: .any)
        cloud.exchange(device)
        cloud.deleteAll(1)
        cloud.exchange(device)
        let backend = open(device)
        await expectRefusal(.missing, by: backend, on: device)
        await expectKind(.missing) { try await backend.create() }
    }

    @Test("Another iCloud account is refused, also after a restart, and the first one works again when it returns")
    func accountChange() async throws {
        try await makeStore(1)
        try await makeStore(2)
        let device = FakeDevice(cloud)
        cloud.exchange(device)
        let backend = open(device)
        #expect(try await backend.read(key).outcome.value == [1])
        device.signIn(2)
        await expectRefusal(.missing, by: backend, on: device)
        cloud.exchange(device)
        for backend in [backend, open(device)] {
            await expectRefusal(.permissionDenied, by: backend, on: device)
            await expectKind(.permissionDenied) { try await backend.create() }
        }
        device.signIn(1)
        cloud.exchange(device)
        #expect(try await backend.read(key).outcome.value == [1])
        device.signIn(2)
        cloud.exchange(device)
        try await backend.create(replacingBinding: true)
        for backend in [backend, open(device)] { #expect(try await backend.read(key).outcome.value == [2]) }
    }

    @Test("Signing out of iCloud, or into an account without a store, creates no store there")
    func otherAccountWithoutStore() async throws {
        try await makeStore(1)
        let device = FakeDevice(cloud)
        cloud.exchange(device)
        let backend = open(device)
        #expect(try await backend.read(key).outcome.value == [1])
        for account: UInt8? in [nil, 3] {
            device.signIn(account)
            cloud.exchange(device)
            await expectRefusal(.missing, by: backend, on: device)
            await expectKind(.missing) { try await backend.create() }
        }
        // An account change also ends the grace of a store that this device has just created.
        let other = FakeDevice(cloud, account: 4)
        let fresh = open(other, MemoryBackend())
        try await fresh.create()
        other.signIn(1)
        cloud.exchange(other)
        await expectRefusal(.permissionDenied, by: fresh, on: other)
    }

    @Test("A first download that discards the new store leads to the store of the other devices, or creates it again")
    func discardedCreation() async throws {
        let first = FakeDevice(cloud)
        let backend = open(first)
        try await backend.create()
        cloud.downloadFirst(first)
        #expect(first.keys.isEmpty)
        _ = try await backend.write([7], to: key, if: .any)
        cloud.exchange(first)
        let second = FakeDevice(cloud)
        let other = open(second, MemoryBackend())
        try await other.create()
        cloud.downloadFirst(second)
        #expect(try await other.read(key).outcome.value == [7])
        cloud.exchange(second)
        #expect(second.keys == first.keys)
    }

    @Test("A device without a signed-in account uses the local copy, which iCloud takes over at the log-in")
    func noAccount() async throws {
        let device = FakeDevice(cloud, account: nil)
        let backend = open(device)
        try await backend.create()
        _ = try await backend.write([1], to: key, if: .any)
        cloud.exchange(device)
        #expect(try await backend.read(key).outcome.value == [1])
    }

    @Test("A damaged note of the store, or one of a later version, stops every operation until it is replaced")
    func damagedBinding() async throws {
        let device = FakeDevice(cloud)
        let backend = open(device)
        try await backend.create()
        let note = try EntryKey("icloud/binding")
        for (bytes, kind) in [
            (Array("entitlementsync icloud binding 2".utf8), BackendError.Kind.newerFormat),
            (Array("entitlementsync icloud binding 1\nconfirmed".utf8), .damaged),
            (Array("entitlementsync icloud binding 1\nyes\n01".utf8), .damaged), ([], .damaged), ([0xFF], .damaged),
        ] {
            _ = try await local.write(bytes, to: note, if: .any)
            await expectRefusal(kind, by: backend, on: device)
            await expectKind(kind) { try await backend.create() }
        }
        try await backend.create(replacingBinding: true)
        #expect(try await backend.read(key).outcome == .absent)
    }

    @Test("A local store that cannot be read stops every operation")
    func failingLocalStore() async throws {
        let device = FakeDevice(cloud)
        try await open(device).create()
        let broken = FaultyBackend(local) { _ in .permanent(.damaged) }
        await expectRefusal(.damaged, by: UbiquitousBackend(device, boundIn: broken), on: device)
    }
}
