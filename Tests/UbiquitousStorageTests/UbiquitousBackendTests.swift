import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing
import UbiquitousStorage

@Suite("The backend on iCloud's key-value store")
struct UbiquitousBackendTests {
    private let cloud = FakeCloud()

    private func open(_ device: FakeDevice, creating: Bool = true) throws -> UbiquitousBackend {
        try UbiquitousBackend(device, creating: creating)
    }

    @Test("All checks for a backend without compare-and-swap pass, and no key in iCloud is too long")
    func conformance() async throws {
        let devices = Devices()
        await expectConformance(of: "iCloud", seed: printedSeed("UbiquitousBackendTests")) {
            let device = devices.make()
            return StoreUnderTest(
                try UbiquitousBackend(device, creating: true),
                wipe: { try UbiquitousBackend(devices.make(), creating: true) })
        }
        #expect(devices.all.flatMap(\.misuses).isEmpty)
    }

    private func expect(
        _ kind: BackendError.Kind, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> Void
    ) async {
        let error = await #expect(throws: BackendError.self, sourceLocation: sourceLocation) { try await body() }
        #expect(error?.kind == kind, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    @Test("Two devices of one iCloud account restore each other's purchases in any order of exchanges")
    func devices() async throws {
        let catalog = try Catalog(
            json: """
                {"products": [{"id": "q", "type": "nonRenewing", "group": "owls", "duration": "P3M"}],
                 "entitlements": [{"id": "owls", "grantedBy": ["group:owls"]}]}
                """.utf8)
        let account = try Account("icloud")
        func store(_ device: FakeDevice) async throws -> EntitlementStore {
            let remote = try open(device)
            // The first device creates the store.
            _ = try await remote.write([1], to: EntryKey("created"), if: .any)
            return try await EntitlementStore(
                catalog: catalog, local: MemoryBackend(), remote: remote, account: account)
        }
        let (one, two) = (FakeDevice(cloud), FakeDevice(cloud))
        let (phone, tablet) = (try await store(one), try await store(two))
        let start = try Timestamp("2026-01-10T00:00:00Z")
        try await phone.record(.reported("q", transaction: "1", date: start))
        try await tablet.record(.reported("q", transaction: "2", date: start))
        for _ in 0..<2 {
            try await phone.sync()
            try await tablet.sync()
            for device in [two, one, two] { cloud.exchange(device) }
        }
        try await phone.sync()
        try await tablet.sync()
        for store in [phone, tablet] {
            #expect(try await store.snapshot()[group: "owls"]?.expires == (try Timestamp("2026-07-10T00:00:00Z")))
        }
        // A reinstalled app that has not downloaded anything yet must not take that for an empty store.
        let fresh = FakeDevice(cloud)
        let new = try await EntitlementStore(
            catalog: catalog, local: MemoryBackend(), remote: try open(fresh, creating: false), account: account)
        let error = await #expect(throws: EntitlementError.self) { try await new.restore() }
        #expect(error?.kind == .sync)
        cloud.exchange(fresh)
        #expect(try await new.restore().purchases.map(\.transaction.id) == ["1", "2"])
    }

    @Test("No account, another account, and an account that was signed out are errors of their own")
    func accounts() async throws {
        await expect(.unavailable) { _ = try open(FakeDevice(cloud, account: nil)) }
        let device = FakeDevice(cloud)
        let backend = try open(device)
        let key = try EntryKey("a")
        _ = try await backend.write([1], to: key, if: .any)
        device.signIn(2)
        await expect(.permissionDenied) { _ = try await backend.read(key) }
        await expect(.permissionDenied) { _ = try await backend.write([2], to: key, if: .any) }
        #expect(device.keys.isEmpty)
        device.signIn(nil)
        await expect(.unavailable) { _ = try await backend.list(prefix: "", after: nil, limit: 10) }
    }

    @Test("A store that the user has deleted is missing, not empty")
    func deleted() async throws {
        let device = FakeDevice(cloud)
        _ = try await open(device).write([1], to: EntryKey("a"), if: .any)
        cloud.exchange(device)
        let remote = try open(device, creating: false)
        #expect(try await remote.read(EntryKey("a")).outcome.value == [1])
        cloud.deleteAll(1)
        cloud.exchange(device)
        await expect(.missing) { _ = try await remote.read(EntryKey("a")) }
        await expect(.missing) { _ = try await remote.list(prefix: "", after: nil, limit: 10) }
        await expect(.missing) { _ = try await remote.write([2], to: EntryKey("a"), if: .any) }
        #expect(device.keys.isEmpty)
    }

    @Test("What does not fit into iCloud is refused before it is written, and other values of the app count")
    func quota() async throws {
        let device = FakeDevice(cloud)
        device.set([UInt8](repeating: 0, count: 700_000), of: "settings")
        let backend = try open(device)
        let key = try EntryKey("a")
        await expect(.full) { _ = try await backend.write([UInt8](repeating: 1, count: 400_000), to: key, if: .any) }
        #expect(try await backend.read(key).outcome == .absent)
        _ = try await backend.write([UInt8](repeating: 1, count: 300_000), to: key, if: .any)
        _ = try await backend.write([UInt8](repeating: 2, count: 300_000), to: key, if: .any)
        for index in 0..<1_100 { device.set([1], of: "other\(index)") }
        await expect(.full) { _ = try await backend.write([1], to: EntryKey("b"), if: .any) }
        await expect(.tooLarge) {
            _ = try await backend.write([UInt8](repeating: 1, count: 1_000_001), to: key, if: .any)
        }
    }

    @Test("A quota that iCloud reports later fails the next write, and the one after that is tried again")
    func laterQuota() async throws {
        let (one, two) = (FakeDevice(cloud), FakeDevice(cloud))
        one.set([UInt8](repeating: 0, count: 600_000), of: "one")
        let backend = try open(one)
        cloud.exchange(one)
        two.set([UInt8](repeating: 0, count: 600_000), of: "two")
        let other = try open(two)
        cloud.exchange(two)
        await expect(.full) { _ = try await other.write([1], to: EntryKey("a"), if: .any) }
        two.set(nil, of: "two")
        _ = try await other.write([1], to: EntryKey("a"), if: .any)
        cloud.exchange(two)
        cloud.exchange(one)
        #expect(try await backend.read(EntryKey("a")).outcome.value == [1])
    }

    @Test("A damaged value is listed and cannot be read; one of a later format asks for an update")
    func damaged() async throws {
        let device = FakeDevice(cloud)
        let backend = try open(device)
        let key = try EntryKey("a")
        _ = try await backend.write([1, 2, 3], to: key, if: .any)
        let name = try #require(device.keys.first { $0 != "entitlementsync.store" })
        var bytes = try #require(device.value(of: name))
        bytes[bytes.count - 1] ^= 1
        device.set(bytes, of: name)
        await expect(.damaged) { _ = try await backend.read(key) }
        #expect(try await backend.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key) == [key])
        bytes[3] = UInt8(ascii: "2")
        device.set(bytes, of: name)
        await expect(.newerFormat) { _ = try await backend.read(key) }
    }

    @Test("A local copy that cannot be saved leaves the outcome unknown")
    func failingDisk() async throws {
        let device = FakeDevice(cloud)
        let backend = try open(device)
        device.failToSave()
        let error = await #expect(throws: BackendError.self) {
            _ = try await backend.write([1], to: EntryKey("a"), if: .any)
        }
        #expect(error?.disposition == .outcomeUnknown)
    }
}

extension ReadOutcome {
    fileprivate var value: [UInt8]? { if case .found(let entry) = self { entry.value } else { nil } }
}
