import CurlTransport
import Foundation
import HTTPTypes
import SyncCore
import SyncCoreTesting
import SyncProtocol
import TestSupport
import Testing
import WebDAVStorage

@Suite(
    "The WebDAV backend on Apache's mod_dav", .timeLimit(.minutes(15)),
    .enabled(if: ApacheServer.isInstalled, "Apache with mod_dav is not installed: apt-get install apache2-bin"))
struct WebDAVBackendTests {
    private let apache: ApacheServer
    private let transport: CurlClient

    init() throws {
        apache = try ApacheServer.shared.get()
        transport = try CurlClient()
    }

    private func backend(
        _ url: String, over transport: (any HTTPTransport)? = nil, creating: Bool = false,
        credentials: @escaping WebDAVBackend.Credentials = { () throws(BackendError) in nil }
    ) throws -> WebDAVBackend {
        try WebDAVBackend(
            address: url, transport: transport ?? self.transport, creating: creating, credentials: credentials)
    }

    private func file(_ name: String, in folder: ApacheServer.Folder) -> String { folder.path + "/\(name).entry" }

    @Test("Values that are written within the same second are told apart")
    func weakTags() async throws {
        let folder = try apache.makeFolder()
        let (one, two) = (try backend(folder.url), try backend(folder.url))
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

    @Test("An old file is read once; later listings are one request, and later reads transfer no body")
    func knownFiles() async throws {
        let folder = try apache.makeFolder()
        let counting = CountingTransport(transport)
        let backend = try backend(folder.url, over: counting)
        let key = try EntryKey("a")
        _ = try await backend.write([1], to: key, if: .any)
        #expect(counting.takeMethods() == ["PUT"])
        // Ages the file by a minute. Apache derives its tags from the modification time.
        try FileManager.default.setAttributes(
            [.modificationDate: Date.now.addingTimeInterval(-60)], ofItemAtPath: file("a", in: folder))
        let page = try await backend.list(prefix: "", after: nil, limit: 10).outcome
        #expect(counting.takeMethods() == ["PROPFIND", "GET"])
        #expect(try await backend.list(prefix: "", after: nil, limit: 10).outcome == page)
        #expect(counting.takeMethods() == ["PROPFIND"])
        #expect(try await backend.read(key, unless: page.items[0].version).outcome == .unchanged)
        // The write of another client is detected.
        _ = try await self.backend(folder.url).write([2], to: key, if: .any)
        guard case .found(let entry) = try await backend.read(key, unless: page.items[0].version).outcome else {
            Issue.record("the new value was not read")
            return
        }
        #expect(entry.value == [2])
        #expect(try await backend.list(prefix: "", after: nil, limit: 10).outcome.items[0].version == entry.version)
        // A slow machine takes more than the three seconds after which the file need not be read again.
        let methods = counting.takeMethods()
        #expect([["GET", "GET", "PROPFIND", "GET"], ["GET", "GET", "PROPFIND"]].contains(methods))
    }

    @Test("A missing folder is an error, not an empty store, unless the backend may create it")
    func missing() async throws {
        let url = try apache.makeFolder().url + "some/where"
        let key = try EntryKey("a")
        let strict = try backend(url)
        for _ in 0..<2 {
            await expectKind(.missing) { try await strict.read(key) }
            await expectKind(.missing) { try await strict.write([1], to: key, if: .any) }
            await expectKind(.missing) { try await strict.list(prefix: "", after: nil, limit: 10) }
            await expectKind(.missing) { try await strict.delete(key, if: .any) }
        }
        let creating = try backend(url + "/", creating: true)
        #expect(creating.label == strict.label)
        #expect(try await creating.read(key).outcome == .absent)
        #expect(try await creating.list(prefix: "", after: nil, limit: 10).outcome.items.isEmpty)
        await expectKind(.missing) { try await strict.read(key) }
        _ = try await creating.write([1], to: key, if: .any)
        #expect(try await strict.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key) == [key])
        let unreachable = try backend("http://127.0.0.1:1/x/")
        await expectKind(.unavailable) { try await unreachable.read(key) }
    }

    @Test("A truncated, changed, renamed or foreign file is damaged, and does not affect other keys")
    func damage() async throws {
        let folder = try apache.makeFolder()
        let backend = try backend(folder.url)
        let (key, other) = (try EntryKey("a"), try EntryKey("b"))
        for key in [key, other] { _ = try await backend.write(Array(repeating: 7, count: 1_000), to: key, if: .any) }
        let path = URL(filePath: file("a", in: folder))
        let whole = try Data(contentsOf: path)
        let foreign = try Data(contentsOf: URL(filePath: file("b", in: folder)))
        var flipped = whole
        flipped[500] ^= 1
        var newer = whole
        newer[3] = UInt8(ascii: "2")
        let contents: [(Data, BackendError.Kind)] = [
            (whole.dropLast(), .damaged), (whole.prefix(10), .damaged), (Data(), .damaged), (whole + [0], .damaged),
            (Data("hello".utf8), .damaged), (flipped, .damaged), (foreign, .damaged), (newer, .newerFormat),
        ]
        var versions: Set<EntryVersion> = []
        for (content, kind) in contents {
            try Data(content).write(to: path)
            let error = await expectKind(kind) { try await backend.read(key) }
            #expect(error?.key == key && error?.disposition == .permanent)
            let items = try await backend.list(prefix: "", after: nil, limit: 10).outcome.items
            #expect(items.map(\.key) == [key, other])
            #expect(versions.insert(items[0].version).inserted)
            guard case .found = try await backend.read(other).outcome else {
                Issue.record("the other key was not read")
                continue
            }
        }
        // Files with other names are not listed as keys.
        for name in ["notes.txt", "a", "A.entry", "a (conflicted copy).entry", "=61.entry", ".entry"] {
            try Data("hello".utf8).write(to: URL(filePath: folder.path + "/" + name))
        }
        try FileManager.default.createDirectory(atPath: folder.path + "/c.entry", withIntermediateDirectories: false)
        #expect(try await backend.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key) == [key, other])
    }

    @Test("Concurrent readers see no errors, no mixed values and no false absence")
    func concurrentReaders() async throws {
        let folder = try apache.makeFolder()
        let (staying, going) = (try EntryKey("staying"), try EntryKey("going"))
        let backend = try backend(folder.url)
        _ = try await backend.write([0], to: staying, if: .any)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 1...2 as ClosedRange<UInt8> {
                group.addTask {
                    for round in 1...150 {
                        // Lengths vary, because a server may combine the length of one value with the bytes of another.
                        let value = [UInt8](repeating: writer, count: round * 37 % 4_000 + 1)
                        _ = try await backend.write(value, to: staying, if: .any)
                        if round.isMultiple(of: 2) {
                            _ = try await backend.write(value, to: going, if: .any)
                        } else {
                            _ = try await backend.delete(going, if: .any)
                        }
                    }
                }
            }
            for _ in 0..<3 {
                group.addTask {
                    for _ in 0..<200 {
                        guard case .found(let entry) = try await backend.read(staying).outcome else {
                            Issue.record("an entry that is never deleted was reported as absent")
                            return
                        }
                        #expect(Set(entry.value).count == 1)
                        if case .found(let entry) = try await backend.read(going).outcome {
                            #expect(Set(entry.value).count == 1)
                        }
                        let keys = try await backend.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key)
                        #expect(keys.contains(staying))
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("An interrupted write keeps the previous value")
    func cutWrite() async throws {
        let folder = try apache.makeFolder()
        let backend = try backend(folder.url)
        let key = try EntryKey("a")
        guard case .written(let version) = try await backend.write([1, 2, 3], to: key, if: .any).outcome else {
            Issue.record("not written")
            return
        }
        for announced in [10, 100_000] {
            let head = "PUT \(folder.name)a.entry HTTP/1.1\r\nHost: \(apache.authority)\r\n"
            try apache.sendRaw(
                Array("\(head)Content-Length: \(announced)\r\n\r\n".utf8)
                    + [UInt8](repeating: 1, count: announced / 2))
            #expect(try await backend.read(key).outcome == .found(Entry(value: [1, 2, 3], version: version)))
        }
        let items = try await backend.list(prefix: "", after: nil, limit: 10).outcome.items
        #expect(items == [KeyPage.Item(key: key, version: version)])
    }

    @Test("Missing or wrong credentials and a forbidden folder are denied, and no error shows a password")
    func credentials() async throws {
        let folder = try apache.makeFolder(guarded: true)
        let key = try EntryKey("a")
        let known = try backend(folder.url) { () throws(BackendError) in
            .init(user: ApacheServer.user, password: ApacheServer.password)
        }
        _ = try await known.write([1], to: key, if: .any)
        guard case .found = try await known.read(key).outcome else {
            Issue.record("not read")
            return
        }
        let wrongCredentials: [WebDAVBackend.Credential?] = [
            nil, .init(user: ApacheServer.user, password: "wr0ng-secret"),
            .init(user: "mallory", password: ApacheServer.password), .init(user: "a:b", password: "wr0ng-secret"),
            .init(user: "al\nice", password: "wr0ng-secret"),
        ]
        for credential in wrongCredentials {
            let backend = try backend(folder.url) { () throws(BackendError) in credential }
            let errors = [
                await expectKind(.permissionDenied) { try await backend.read(key) },
                await expectKind(.permissionDenied) { try await backend.write([1], to: key, if: .any) },
                await expectKind(.permissionDenied) { try await backend.delete(key, if: .any) },
                await expectKind(.permissionDenied) { try await backend.list(prefix: "", after: nil, limit: 1) },
            ]
            for error in errors {
                #expect(error?.disposition == .permanent)
                let text = "\(error.map { "\($0)" } ?? "")"
                #expect(!text.contains("secret") && !text.contains(ApacheServer.password), "\(text)")
            }
        }
        let closed = try backend("http://\(apache.authority)/closed/x")
        await expectKind(.permissionDenied) { try await closed.read(key) }
        await expectKind(.permissionDenied) { try await closed.write([1], to: key, if: .any) }
        await expectKind(.permissionDenied) { try await closed.list(prefix: "", after: nil, limit: 1) }
    }

    @Test("A locked file can be read, but changing it fails as busy")
    func locked() async throws {
        let folder = try apache.makeFolder()
        let backend = try backend(folder.url)
        let key = try EntryKey("a")
        _ = try await backend.write([1], to: key, if: .any)
        let lock =
            "<?xml version=\"1.0\"?><lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope>"
            + "<locktype><write/></locktype></lockinfo>"
        let request = HTTPRequest(
            method: try #require(HTTPRequest.Method("LOCK")), scheme: "http", authority: apache.authority,
            path: folder.name + "a.entry", headerFields: [.contentType: "application/xml"])
        let answer = try await transport.send(
            request, body: Array(lock.utf8), timeout: Patience.limit, maximumByteCount: 10_000)
        #expect(answer.response.status == .ok)
        for change in [true, false] {
            let error = await expectKind(.busy) {
                change ? try await backend.write([2], to: key, if: .any) : try await backend.delete(key, if: .any)
            }
            #expect(error?.disposition == .transient)
        }
        guard case .found(let entry) = try await backend.read(key).outcome else {
            Issue.record("not read")
            return
        }
        #expect(entry.value == [1])
    }
}
