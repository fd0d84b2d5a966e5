import EntitlementSync
import Entitlements
import Foundation
import SyncCore
import Testing
import UbiquitousStorage

@Suite("The sample of an app without a server")
struct ICloudPurchasesTests {
    private let cloud = FakeCloud()
    private let catalog: Catalog
    private let start: Timestamp

    init() throws {
        catalog = try Catalog(
            json: """
                {"products": [{"id": "q", "type": "nonRenewing", "group": "owls", "duration": "P3M"}],
                 "entitlements": [{"id": "owls", "grantedBy": ["group:owls"]}]}
                """.utf8)
        start = try Timestamp("2026-01-10T00:00:00Z")
    }

    private func open(_ device: FakeDevice, _ local: MemoryBackend = MemoryBackend()) async throws -> Purchases {
        try await Purchases(catalog, local: local, iCloud: device)
    }

    private func expectSyncError(
        _ kind: BackendError.Kind, sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
    ) async {
        let error = await #expect(throws: (any Error).self, sourceLocation: sourceLocation) { try await body() }
        var found = error as? BackendError
        if case .backend(let cause) = (error as? EntitlementError)?.syncError?.reason { found = cause }
        #expect(found?.kind == kind, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    @Test("Two devices of one iCloud account restore each other's purchases in any order of exchanges")
    func twoDevices() async throws {
        let (one, two) = (FakeDevice(cloud), FakeDevice(cloud))
        let (phone, tablet) = (try await open(one), try await open(two))
        try await phone.record("q", transaction: "1", date: start)
        try await tablet.record("q", transaction: "2", date: start)
        for _ in 0..<2 {
            try await phone.sync()
            try await tablet.sync()
            for device in [two, one, two] { cloud.exchange(device) }
        }
        try await phone.sync()
        try await tablet.sync()
        for purchases in [phone, tablet] {
            let end = try await purchases.store.snapshot()[group: "owls"]?.expires
            #expect(end == (try Timestamp("2026-07-10T00:00:00Z")))
        }
    }

    @Test("A new device reports no absence of purchases before iCloud's download, and restores them after it")
    func newDevice() async throws {
        let one = FakeDevice(cloud)
        let phone = try await open(one)
        try await phone.record("q", transaction: "1", date: start)
        try await phone.sync()
        cloud.exchange(one)

        let two = FakeDevice(cloud)
        let tablet = try await open(two)
        await expectSyncError(.missing) { try await tablet.sync() }
        #expect(try await tablet.store.access(to: "owls") == .denied(.restoreNeeded))
        #expect(two.keys.isEmpty)
        cloud.exchange(two)
        #expect(try await tablet.store.restore().purchases.map(\.transaction.id) == ["1"])
    }

    @Test("The purchases of one iCloud account reach another one only if the buyer agrees")
    func accountChange() async throws {
        let (one, two) = (FakeDevice(cloud), FakeDevice(cloud, account: 2))
        let (phone, other) = (try await open(one), try await open(two))
        try await phone.record("q", transaction: "1", date: start)
        try await phone.sync()
        cloud.exchange(one)
        try await other.record("q", transaction: "2", date: start)
        try await other.sync()
        cloud.exchange(two)

        one.signIn(2)
        cloud.exchange(one)
        try await phone.record("q", transaction: "3", date: start)
        await expectSyncError(.permissionDenied) { try await phone.sync() }
        cloud.exchange(one)
        cloud.exchange(two)
        #expect(try await other.store.restore().purchases.isEmpty)

        try await phone.continueWithCurrentICloudAccount()
        cloud.exchange(one)
        cloud.exchange(two)
        #expect(try await other.store.restore().purchases.map(\.transaction.id) == ["1", "3"])
    }

    @Test("A store that was deleted in iCloud loses no purchase, and returns when the buyer agrees")
    func deletion() async throws {
        let (device, local) = (FakeDevice(cloud), MemoryBackend())
        let first = try await open(device, local)
        try await first.record("q", transaction: "1", date: start)
        try await first.sync()
        cloud.exchange(device)
        // The app starts again.
        let phone = try await open(device, local)
        try await phone.sync()
        cloud.deleteAll(1)
        cloud.exchange(device)
        await expectSyncError(.missing) { try await phone.sync() }
        #expect(device.keys.isEmpty)
        try await phone.continueWithCurrentICloudAccount()
        cloud.exchange(device)

        let two = FakeDevice(cloud)
        cloud.exchange(two)
        #expect(try await open(two).store.restore().purchases.map(\.transaction.id) == ["1"])
    }

    @Test("Docs/Backends.md shows the sample that is compiled here")
    func documentation() throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent()
        let root = folder.deletingLastPathComponent().deletingLastPathComponent()
        let source = try String(contentsOf: folder.appending(path: "ICloudPurchases.swift"), encoding: .utf8)
        let sample = try #require(source.components(separatedBy: "// Docs begin\n").last)
            .components(separatedBy: "// Docs end")[0]
        let page = try String(contentsOf: root.appending(path: "Docs/Backends.md"), encoding: .utf8)
        #expect(page.contains("import UbiquitousStorage\n\n" + sample + "```\n"))
    }
}
