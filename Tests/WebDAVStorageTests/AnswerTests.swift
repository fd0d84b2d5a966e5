import CurlTransport
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import TestSupport
import Testing

@testable import WebDAVStorage

@Suite("Answers of a WebDAV server", .timeLimit(.minutes(15)))
struct AnswerTests {
    private let key: EntryKey
    private let host = ManualHost(seed: 1).host

    init() throws { key = try EntryKey("a") }

    private func backend(_ script: TransportAnswer...) throws -> (WebDAVBackend, ScriptedTransport) {
        try backend(script.map { .success($0) })
    }

    private func backend(
        _ script: [Result<TransportAnswer, TransportError>]
    ) throws -> (WebDAVBackend, ScriptedTransport) {
        let transport = ScriptedTransport(script)
        let backend = try WebDAVBackend(
            address: "webdavs://nas.example/owls", transport: transport, host: host
        ) { () throws(BackendError) in WebDAVBackend.Credential(user: "alice", password: "geheim") }
        return (backend, transport)
    }

    /// Returns the error of each operation if the server always gives this answer.
    private func errors(_ answer: TransportAnswer) async throws -> [BackendError.Operation: BackendError] {
        var errors: [BackendError.Operation: BackendError] = [:]
        // Some operations send more than one request.
        func backend() throws -> WebDAVBackend { try self.backend(Array(repeating: .success(answer), count: 9)).0 }
        errors[.read] = await expectKind(nil) { try await backend().read(key) }
        errors[.write] = await expectKind(nil) { try await backend().write([1], to: key, if: .any) }
        errors[.delete] = await expectKind(nil) { try await backend().delete(key, if: .any) }
        errors[.list] = await expectKind(nil) { try await backend().list(prefix: "", after: nil, limit: 1) }
        for (operation, error) in errors {
            #expect(error.operation == operation)
            #expect(!"\(error)".contains("geheim") && !"\(error)".contains("YWxpY2U6"), "\(error)")
        }
        return errors
    }

    @Test(
        "Each error status maps to a kind of error, and none to absence",
        arguments: [
            (301, BackendError.Kind.notAStore, BackendError.Disposition.permanent),
            (302, .notAStore, .permanent), (307, .notAStore, .permanent), (308, .notAStore, .permanent),
            (400, .notAStore, .permanent), (401, .permissionDenied, .permanent), (403, .permissionDenied, .permanent),
            (405, .notAStore, .permanent), (413, .tooLarge, .permanent), (423, .busy, .transient),
            (429, .busy, .transient), (412, .other, .permanent),
        ])
    func refusals(status: Int, kind: BackendError.Kind, disposition: BackendError.Disposition) async throws {
        for (operation, error) in try await errors(TransportAnswer(status)) {
            #expect(error.kind == kind && error.disposition == disposition, "\(operation): \(error.kind) \(error)")
        }
    }

    @Test(
        "After a server error, the outcome of a write is unknown",
        arguments: [(500, BackendError.Kind.unavailable), (502, .unavailable), (503, .unavailable), (507, .full)])
    func serverErrors(status: Int, kind: BackendError.Kind) async throws {
        let answer = TransportAnswer(status, [.retryAfter: "7"])
        for (operation, error) in try await errors(answer) {
            #expect(error.kind == kind && error.retryAfter == .seconds(7))
            let mayBeDone = operation == .write || operation == .delete
            #expect((error.disposition == .outcomeUnknown) == mayBeDone, "\(operation): \(error)")
        }
    }

    @Test("An answer that is not WebDAV is an error", arguments: [200, 202, 203, 206, 299])
    func portal(status: Int) async throws {
        // A captive portal answers every request with its log-in page.
        let errors = try await errors(TransportAnswer(status, HTTPFields(), "<html><body>Welcome!</body></html>"))
        #expect(errors[.list]?.kind == .notAStore && errors[.list]?.disposition == .permanent)
        for operation in [BackendError.Operation.write, .delete] {
            #expect(errors[operation]?.kind == .notAStore && errors[operation]?.disposition == .outcomeUnknown)
        }
    }

    @Test("A redirect is not followed, and the error shows its target without secrets")
    func redirect() async throws {
        for (place, shown) in [
            ("https://other.example/owls/?token=abc", "https://other.example/owls/ "),
            ("https://bob:pw@other.example/", "another place "), ("https://x/ y", "another place "),
        ] {
            let (backend, transport) = try backend(TransportAnswer(301, [.location: place]))
            let error = await expectKind(.notAStore) { try await backend.list(prefix: "", after: nil, limit: 1) }
            #expect(error?.message.contains("redirects to \(shown)") == true, "\(error?.message ?? "")")
            #expect(transport.requests.count == 1)
        }
    }

    @Test("A listing is accepted only if it describes the requested folder")
    func listings() async throws {
        let strange: [TransportAnswer] = [
            .listing(), .listing("/owls"), .listing("/owls/a.entry"), .listing("/owls/a.entry", "/owls/b.entry"),
            .listing("/owls/", "/dogs/"), .listing("/owls/", "/dogs/a.entry"), .listing("owls/"),
            .listing("/owls/", "/owls/%zz"), .listing("/owls/", "/owls/&lol;"),
            TransportAnswer(207), TransportAnswer(207, HTTPFields(), "<multistatus xmlns='DAV:'></multistatus>"),
            TransportAnswer(207, HTTPFields(), "{\"owls\":[]}"),
        ]
        for answer in strange {
            let (backend, _) = try backend(answer)
            await expectKind(.notAStore) { try await backend.list(prefix: "", after: nil, limit: 1) }
        }
        // A 404 means absence only if the folder exists.
        for answer in strange {
            let (reading, _) = try backend(TransportAnswer(404), answer)
            await expectKind(.notAStore) { try await reading.read(key) }
            let (deleting, _) = try backend(TransportAnswer(404), answer)
            await expectKind(.notAStore) { try await deleting.delete(key, if: .any) }
        }
        let (reading, transport) = try backend(TransportAnswer(404), .listing("/owls/"))
        #expect(try await reading.read(key).outcome == .absent)
        #expect(transport.requests.map(\.path) == ["/owls/a.entry", "/owls/"])
    }

    @Test("A listing may contain rewritten paths, full URLs, duplicates and nested folders")
    func paths() async throws {
        let answers: [TransportAnswer] = [
            .listing("/owls/", "/owls/a.entry"), .listing("/remote.php/dav/owls/", "/remote.php/dav/owls/a.entry"),
            .listing("https://nas.example/owls/", "https://nas.example/owls/%61.entry"),
            .listing("/owls/", "/owls/a.entry", "/owls/a.entry", "/owls/more/", "/owls/more/b.entry"),
        ]
        for answer in answers {
            // The file was deleted after the listing.
            let (backend, transport) = try backend(answer, TransportAnswer(404))
            #expect(try await backend.list(prefix: "", after: nil, limit: 9).outcome == KeyPage(items: [], next: nil))
            #expect(transport.requests.map(\.path) == ["/owls/", "/owls/a.entry"])
        }
    }

    @Test("A read that a concurrent write disturbs is repeated a limited number of times")
    func repeats() async throws {
        let broken = TransportError(.interrupted, mayHaveArrived: true, message: "the connection ended")
        let (backend, transport) = try backend([
            .success(TransportAnswer(403)), .failure(broken), .success(TransportAnswer(200, HTTPFields(), "half")),
            .success(TransportAnswer(404)), .failure(broken), .success(.listing("/owls/")),
        ])
        #expect(try await backend.read(key).outcome == .absent)
        #expect(transport.requests.count == 6)
        for failure in [Result<TransportAnswer, TransportError>.failure(broken), .success(TransportAnswer(403))] {
            let (backend, transport) = try self.backend(Array(repeating: failure, count: 100))
            await expectKind(nil) { try await backend.read(key) }
            #expect(transport.requests.count == 8)
        }
        // The same damaged bytes twice are not a race: they are what is stored.
        let (damaged, asked) = try self.backend(
            Array(repeating: .success(TransportAnswer(200, HTTPFields(), "half")), count: 9))
        await expectKind(.damaged) { try await damaged.read(key) }
        #expect(asked.requests.count == 2)
        // A write is not repeated, because it may have been applied.
        let (writing, sent) = try self.backend([.failure(broken)])
        let error = await expectKind(.unavailable) { try await writing.write([1], to: key, if: .any) }
        #expect(error?.disposition == .outcomeUnknown && sent.requests.count == 1)
    }

    @Test(
        "A tag is used only if it is strong and the file was at least three seconds old when read",
        arguments: [
            ("\"1\"", "Sun, 06 Nov 1994 08:49:37 GMT", true), ("\"1\"", "Sun, 06 Nov 1994 08:49:38 GMT", false),
            ("\"1\"", "Sun, 06 Nov 1994 08:49:41 GMT", false), ("W/\"1\"", "Sun, 06 Nov 1994 08:49:00 GMT", false),
            ("\"1\"", "yesterday", false), ("\"1\"", nil, false), (nil, "Sun, 06 Nov 1994 08:49:00 GMT", false),
        ] as [(String?, String?, Bool)])
    func tags(tag: String?, changed: String?, isUsed: Bool) async throws {
        let version = EntryVersion(bytes: Array(0..<16))
        var fields: HTTPFields = [.date: "Sun, 06 Nov 1994 08:49:40 GMT"]
        fields[.eTag] = tag
        fields[.lastModified] = changed
        let file = TransportAnswer(
            HTTPResponse(status: .ok, headerFields: fields),
            body: StoredFile.bytes(of: [7], version: version, key: key))
        let (backend, transport) = try backend(file, isUsed ? TransportAnswer(304) : file, file)
        #expect(try await backend.read(key).outcome == .found(Entry(value: [7], version: version)))
        #expect(try await backend.read(key, unless: version).outcome == .unchanged)
        #expect(transport.requests[1].headerFields[.ifNoneMatch] == (isUsed ? tag : nil))
        // The tag is not sent for another version.
        let other = EntryVersion(bytes: Array(1...16))
        #expect(try await backend.read(key, unless: other).outcome == .found(Entry(value: [7], version: version)))
        #expect(transport.requests[2].headerFields[.ifNoneMatch] == nil)
    }

    @Test("A silent server causes a timeout, and an endless answer is cut off")
    func endless() async throws {
        let curl = try CurlClient()
        let silent = try RawServer { connection, _ in connection.ignore() }
        let waiting = try WebDAVBackend(
            address: "http://\(silent.authority)/", transport: curl, timeout: .seconds(1))
        await expectKind(.unavailable) { try await waiting.read(key) }
        let error = await expectKind(.unavailable) { try await waiting.write([1], to: key, if: .any) }
        #expect(error?.disposition == .outcomeUnknown)
        await expectKind(.unavailable) { try await waiting.list(prefix: "", after: nil, limit: 1) }
        let endless = try RawServer { connection, _ in
            while connection.readRequest() != nil {
                connection.write("HTTP/1.1 207 Multi-Status\r\nTransfer-Encoding: chunked\r\n\r\n")
                let chunk = Array("10000\r\n".utf8) + [UInt8](repeating: 0x20, count: 65_536) + Array("\r\n".utf8)
                while connection.write(chunk) {}
            }
        }
        let reading = try WebDAVBackend(address: "http://\(endless.authority)/", transport: curl)
        await expectKind(.tooLarge) { try await reading.list(prefix: "", after: nil, limit: 1) }
    }

    @Test("Equivalent addresses have one label, and invalid ones are rejected without showing a password")
    func addresses() throws {
        let transport = ScriptedTransport([])
        for (address, label) in [
            ("webdavs://NAS.example", "webdavs://nas.example/"), ("https://nas.example//", "webdavs://nas.example/"),
            ("HTTP://127.0.0.1:80/a%20b//c", "webdav://127.0.0.1:80/a%20b/c/"),
            ("webdav://[::1]/x/", "webdav://[::1]/x/"),
        ] {
            #expect(try WebDAVBackend(address: address, transport: transport).label == label)
        }
        for wrong in [
            "", "x", "http://", "ftp://x/", "https://a@b/", "https://a:secret@b/", "https://x/?y", "https://x/#y",
            "https://x/a b", "https://x/../y", "https://x/%2e%2e/y", "https://x/%2fy", "https://x/%", "https://é/",
        ] {
            let error = #expect(throws: BackendError.self) {
                try WebDAVBackend(address: wrong, transport: transport)
            }
            #expect(error?.kind == .notAStore && error.map { "\($0)".contains("secret") } == false)
        }
    }
}
