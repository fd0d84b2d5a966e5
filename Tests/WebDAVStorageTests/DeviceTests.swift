import CurlTransport
import EntitlementSync
import Entitlements
import Foundation
import SyncCore
import TestSupport
import Testing
import WebDAVStorage

@Suite(
    "Devices over a WebDAV folder", .timeLimit(.minutes(15)),
    .enabled(if: ApacheServer.isInstalled, "Apache with mod_dav is not installed: apt-get install apache2-bin"))
struct DeviceTests {
    @Test("write one entry each and merge all purchases; a sync without changes is one request")
    func devices() async throws {
        let catalog = try Catalog(
            json: Array(
                """
                {"products":[{"id":"three","type":"nonRenewing","group":"owls","duration":"P3M"}],
                 "entitlements":[{"id":"owls","grantedBy":["group:owls"]}]}
                """.utf8))
        let folder = try ApacheServer.shared.get().makeFolder(guarded: true)
        let transport = CountingTransport(try CurlClient())
        func open() throws -> WebDAVBackend {
            try WebDAVBackend(address: folder.url, transport: transport) { () throws(BackendError) in
                .init(user: ApacheServer.user, password: ApacheServer.password)
            }
        }
        func device() async throws -> EntitlementStore {
            try await EntitlementStore(
                catalog: catalog, local: MemoryBackend(), remote: try open(), account: Account("alice"))
        }
        let (phone, tablet) = (try await device(), try await device())
        for store in [phone, tablet] { try await store.record(.reported("three")) }
        // Both sync concurrently, so that each lists while the other writes.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in [phone, tablet] { group.addTask { try await store.sync() } }
            try await group.waitForAll()
        }
        for store in [phone, tablet, try await device()] {
            try await store.restore()
            #expect(try await store.snapshot().subscriptions.first?.periods.count == 2)
        }
        let keys = try await open().list(prefix: "accounts/alice/", after: nil, limit: 10).outcome.items.map(\.key)
        #expect(keys.count == 2 && keys.allSatisfy { $0.text.contains("/ledger/") }, "\(keys)")
        // Ages the files by a minute, so that their tags are used and known entries are not read again.
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            try FileManager.default.setAttributes(
                [.modificationDate: Date.now.addingTimeInterval(-60)], ofItemAtPath: "\(folder.path)/\(name)")
        }
        try await phone.sync()
        _ = transport.takeMethods()
        try await phone.sync()
        #expect(transport.takeMethods() == ["PROPFIND"])
    }
}
