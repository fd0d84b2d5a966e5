#if PostgreSQL
import Foundation
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import TestSupport
import Testing

@Suite("A PostgreSQL store refuses")
struct PostgreSQLRefusalTests {
    private let store: TestStore
    private let folder: TemporaryFolder
    private let server: PostgreSQLServer

    init() throws {
        store = try TestStore()
        server = store.server
        folder = try TemporaryFolder()
    }

    /// Reads a key, and expects an error of `kind` whose text has all of `words`.
    private func expect(
        _ kind: BackendError.Kind, _ disposition: BackendError.Disposition = .permanent, at url: String,
        saying words: String..., sourceLocation: SourceLocation = #_sourceLocation,
        _ change: (inout PostgreSQLBackend.Configuration) -> Void = { _ in }
    ) async throws {
        var configuration = try PostgreSQLBackend.Configuration(url)
        change(&configuration)
        let backend = PostgreSQLBackend(configuration)
        for _ in 0..<2 {
            let error = await expectKind(kind, sourceLocation: sourceLocation) {
                try await backend.write([1], to: EntryKey("k"), if: .any)
            }
            #expect(error?.disposition == disposition, sourceLocation: sourceLocation)
            for word in words {
                let text = error?.description ?? ""
                #expect(text.contains(word), "\(word) is not in: \(text)", sourceLocation: sourceLocation)
            }
        }
    }

    @Test("a URL that is malformed or contains a password, and does not repeat the password")
    func urls() {
        let wrong = [
            ("sqlite:x", "must begin with postgres://"), ("postgres://u:secret@h/d", ".pgpass"),
            ("postgres://h/d?password=secret", ".pgpass"), ("postgres://h/d?options=-c", "options is not supported"),
            ("postgres://h/d?schema=Select%20*", "the schema must have"), ("postgres://h/d?schema=", "the schema"),
            ("postgres://h/d?nonsense=secret", "not valid"), ("postgres://u:1%secret@h/d", "not valid"),
        ]
        for (url, words) in wrong {
            do throws(BackendError) {
                _ = try PostgreSQLBackend(url)
                Issue.record("\(url) is accepted")
            } catch {
                #expect(error.kind == .notAStore && error.message.contains(words), "\(url): \(error)")
                #expect(!"\(error)".contains("secret"))
            }
        }
    }

    @Test("nothing about a URL with several hosts, and omits its parameters from the label")
    func label() throws {
        let backend = try PostgreSQLBackend("postgres://u@one:1,two:2/d?sslmode=require&schema=other")
        #expect(backend.label == "postgres://u@one:1,two:2/d")
        #expect(backend.capabilities.durability == .powerLoss)
    }

    @Test("a host, port or database that does not exist")
    func places() async throws {
        try await expect(
            .unavailable, .transient, at: "postgres://u@no-such-host.invalid/d", saying: "the host name is unknown")
        try await expect(
            .unavailable, .transient, at: "postgres://u@127.0.0.1:1/d?sslmode=disable", saying: "cannot be reached")
        try await expect(
            .missing, at: server.url(schema: store.schema, database: "nowhere"), saying: "create it", "nowhere")
    }

    @Test("a wrong password and an unknown user")
    func passwords() async throws {
        let file = folder.path(of: "pgpass")
        let url = "postgres://postgres@127.0.0.1:\(server.port)/postgres?sslmode=disable&schema=\(store.schema)"
        for (password, isRight) in [("wrong", false), (PostgreSQLServer.password, true)] {
            try Data("*:*:*:*:\(password)\n".utf8).write(to: URL(filePath: file))
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
            guard !isRight else {
                _ = try await PostgreSQLBackend("\(url)&passfile=\(file)").latestCursor()
                continue
            }
            try await expect(.permissionDenied, at: "\(url)&passfile=\(file)", saying: "password", "28P01")
        }
        try await expect(.permissionDenied, at: "\(url)&passfile=/dev/null", saying: "password")
        try await expect(
            .permissionDenied, at: server.url(schema: store.schema, user: "stranger"), saying: "check the user")
    }

    @Test("a server without TLS unless the URL allows it")
    func certificates() async throws {
        let url = "postgres://postgres@127.0.0.1:\(server.port)/postgres"
        try await expect(.permissionDenied, at: url, saying: "TLS", "sslmode=disable")
        try await expect(.permissionDenied, at: "\(url)?sslmode=require", saying: "TLS", "sslmode=disable")
    }

    @Test("a certificate of an unknown authority or another host, and accepts the one that the URL names")
    func unknownCertificates() async throws {
        let server = try PostgreSQLServer()
        let schema = server.freshSchema()
        let file = folder.path(of: "pgpass")
        try Data("*:*:*:*:\(PostgreSQLServer.password)\n".utf8).write(to: URL(filePath: file))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
        func url(_ certificate: String) -> String {
            "postgres://postgres@127.0.0.1:\(server.port)/postgres?schema=\(schema)&passfile=\(file)"
                + "&sslrootcert=\(certificate)"
        }
        let other = try server.offerTLS(as: "DNS:db.example.com")
        try await expect(.permissionDenied, at: url(other), saying: "certificate", "sslrootcert=FILE")
        let right = try server.offerTLS(as: "IP:127.0.0.1")
        try await expect(.permissionDenied, at: url(other), saying: "certificate", "sslrootcert=FILE")
        try await expect(.permissionDenied, at: url("/nowhere.pem"), saying: "certificate", "sslrootcert=FILE")
        _ = try await PostgreSQLBackend(url(right)).write([1], to: EntryKey("k"), if: .absent)
        let secured = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = "
        #expect(try server.sql("\(secured) 'EntitlementSync' AND NOT ssl") == "0")
    }

    @Test("a user without permissions, and serves one that may only read and write the tables")
    func permissions() async throws {
        let user = "plain_\(store.schema)"
        try store.sql("CREATE ROLE \(user) LOGIN")
        try await expect(.permissionDenied, at: server.url(schema: store.schema, user: user), saying: "permission")
        _ = try await store.open().latestCursor()
        try await expect(.permissionDenied, at: server.url(schema: store.schema, user: user), saying: "grant")
        try store.sql(
            """
            GRANT USAGE ON SCHEMA @ TO \(user);
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA @ TO \(user)
            """)
        let backend = try store.open(user: user)
        _ = try await backend.write([1], to: EntryKey("k"), if: .absent)
        #expect(try await backend.latestCursor().outcome?.sequence == 1)
    }

    @Test("a missing store where none may be created, a later format, and tables of another application")
    func formats() async throws {
        try await expect(.missing, .transient, at: store.url, saying: store.schema) { $0.creation = .never }
        let existing = try store.open().requiringExisting
        await expectKind(.missing) { try await existing.read(EntryKey("k")) }
        let backend = try store.open()
        _ = try await backend.write([1], to: EntryKey("k"), if: .any)
        #expect(try await existing.read(EntryKey("k")).outcome != .absent)
        try store.sql("UPDATE @.store SET format = 99")
        try await expect(.newerFormat, at: store.url, saying: "format 99", "update this program")
        let other = try TestStore()
        try other.sql("CREATE SCHEMA @; CREATE TABLE @.store (x int)")
        try await expect(.notAStore, at: other.url, saying: "choose another schema")
        #expect(try other.sql("SELECT count(*) FROM pg_tables WHERE schemaname = '@'") == "1")
    }

    @Test("a connection beyond the limit of the server")
    func tooMany() async throws {
        let user = "limited_\(store.schema)"
        try store.sql("CREATE ROLE \(user) LOGIN CONNECTION LIMIT 0")
        try await expect(
            .unavailable, .transient, at: server.url(schema: store.schema, user: user),
            saying: "too many connections", "53300")
    }

    @Test("a user whose transactions are read-only")
    func readOnly() async throws {
        let user = "reader_\(store.schema)"
        try store.sql("CREATE ROLE \(user) LOGIN; ALTER ROLE \(user) SET default_transaction_read_only = on")
        try await expect(
            .unavailable, .transient, at: server.url(schema: store.schema, user: user), saying: "accepts no writes")
    }

    @Test("a server that lacks a change that the process has seen")
    func formerPrimary() async throws {
        let backend = try store.open()
        _ = try await backend.write([1], to: EntryKey("k"), if: .any)
        _ = try await backend.latestCursor()
        let dump = try store.dump()
        _ = try await backend.write([2], to: EntryKey("k"), if: .any)
        _ = try await backend.latestCursor()
        try store.restore(dump)
        try store.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'EntitlementSync' "
                + "AND query LIKE '%@%'")
        try await waitUntil("the refusal") {
            do throws(BackendError) {
                _ = try await backend.read(EntryKey("k"))
                return false
            } catch {
                return error.message.contains("lacks change 2")
            }
        }
        // A process that has not seen the change cannot know.
        #expect(try await store.open().latestCursor().outcome?.sequence == 1)
    }
}
#endif
