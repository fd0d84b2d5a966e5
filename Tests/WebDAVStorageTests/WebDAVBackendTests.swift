import CurlTransport
import EntitlementSync
import Entitlements
import Foundation
import SyncCore
import SyncCoreTesting
import SyncProtocol
import TestSupport
import Testing
import WebDAVStorage

@Suite("A WebDAV folder, on Apache's mod_dav", .serialized)
struct WebDAVBackendTests {
    private let apache: ApacheServer
    private let transport: CurlClient

    init() throws {
        apache = try ApacheServer()
        transport = try CurlClient()
    }

    @Test("passes the conformance checks")
    func conformance() async throws {
        await expectConformance(of: "WebDAV", seed: printedSeed("WebDAVBackendTests")) {
            try WebDAVBackend(address: try apache.makeFolder(), transport: transport)
        }
    }

    @Test("a value written within the same second is not taken for the one before")
    func weakTags() async throws {
        let address = try apache.makeFolder()
        let (one, two) = (
            try WebDAVBackend(address: address, transport: transport),
            try WebDAVBackend(address: address, transport: transport)
        )
        let key = try EntryKey("a")
        var known: EntryVersion?
        for round in 0..<50 as Range<UInt8> {
            guard case .written(let version) = try await one.write([round], to: key, if: .any).outcome else {
                Issue.record("not written")
                continue
            }
            let read = try await two.read(key, unless: known).outcome
            #expect(read == .found(Entry(value: [round], version: version)))
            known = version
            #expect(try await two.read(key, unless: version).outcome == .unchanged)
        }
    }

    @Test("a folder that is missing is an error, unless it may be made; a stranger's server is none")
    func missing() async throws {
        let address = try apache.makeFolder() + "none/"
        let key = try EntryKey("a")
        let careful = try WebDAVBackend(address: address, transport: transport)
        await expectKind(.missing) { try await careful.read(key) }
        await expectKind(.missing) { try await careful.write([1], to: key, if: .any) }
        await expectKind(.missing) { try await careful.list(prefix: "", after: nil, limit: 10) }
        await expectKind(.missing) { try await careful.delete(key, if: .any) }
        let making = try WebDAVBackend(address: address, transport: transport, creating: true)
        #expect(try await making.read(key).outcome == .absent)
        _ = try await making.write([1], to: key, if: .any)
        #expect(try await careful.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key) == [key])
        let nobody = try WebDAVBackend(address: "http://127.0.0.1:1/x/", transport: transport)
        await expectKind(.unavailable) { try await nobody.read(key) }
        for wrong in ["", "http://", "ftp://x/", "https://a@b/", "https://x/?y", "x"] {
            await expectKind(.notAStore) { try WebDAVBackend(address: wrong, transport: transport) }
        }
    }

    @Test("a file that was cut or is somebody else's is damaged, and keeps nobody from the others")
    func damage() async throws {
        let address = try apache.makeFolder()
        let backend = try WebDAVBackend(address: address, transport: transport)
        let (key, other) = (try EntryKey("a"), try EntryKey("b"))
        for key in [key, other] { _ = try await backend.write(Array(repeating: 7, count: 1_000), to: key, if: .any) }
        let name = URL(string: address)?.lastPathComponent ?? ""
        let path = apache.folder.path(of: "store/\(name)/a")
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        for bytes in [whole.dropLast(), whole.prefix(10), Data(), Data("hello".utf8), whole + [0]] {
            try Data(bytes).write(to: URL(fileURLWithPath: path))
            await expectKind(.damaged) { try await backend.read(key) }
            guard case .found = try await backend.read(other).outcome else {
                Issue.record("the other one")
                continue
            }
        }
    }

    @Test("two devices share purchases through it")
    func devices() async throws {
        let catalog = try Catalog(
            json: Array(
                """
                {"products":[{"id":"three","type":"nonRenewing","group":"owls","duration":"P3M"}],
                 "entitlements":[{"id":"owls","grantedBy":["group:owls"]}]}
                """.utf8))
        let address = try apache.makeFolder()
        func device() async throws -> EntitlementStore {
            try await EntitlementStore(
                catalog: catalog, local: MemoryBackend(),
                remote: try WebDAVBackend(address: address, transport: transport), account: Account("alice"))
        }
        let (phone, tablet) = (try await device(), try await device())
        for store in [phone, tablet] { try await store.record(.reported("three")) }
        try await phone.sync()
        try await tablet.sync()
        try await phone.sync()
        for store in [phone, tablet, try await device()] {
            try await store.restore()
            #expect(try await store.snapshot().subscriptions.first?.periods.count == 2)
        }
    }
}
