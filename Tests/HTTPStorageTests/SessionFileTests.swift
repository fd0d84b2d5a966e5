import Foundation
import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncCoreTesting
import SyncProtocol
import SyncService
import Synchronization
import TestSupport
import Testing

@Suite("A session file")
struct SessionFileTests {
    private let folder: TemporaryFolder
    private let path: String
    private let session = KeptSession(
        ServerSession(
            account: "älice/1", incarnation: "i1", accessToken: "a.b.c", lifetime: .seconds(600), refreshToken: "r+/="),
        received: 1_800_000_000_123)
    /// The file of `session`. Released versions of `syncd` read and write this format.
    private let text = """
        {
          "access_token" : "a.b.c",
          "account" : "älice/1",
          "expires_in" : 600,
          "incarnation" : "i1",
          "local" : "file:phone",
          "received" : 1800000000123,
          "refresh_token" : "r+/=",
          "server" : "https://sync.example.com"
        }
        """

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "session.json")
    }

    private func file(
        at path: String? = nil, local: String = "file:phone", server: String = "https://sync.example.com",
        host: HostServices = .system
    ) -> SessionFile {
        SessionFile(path ?? self.path, local: local, server: server, host: host)
    }

    private func write(_ text: String, mode: Int = 0o600) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }

    private func mode(_ name: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: folder.path(of: name))
        return try #require(attributes[.posixPermissions] as? Int)
    }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }

    @Test("A saved session is loaded by another object, and is gone after it was deleted")
    func saved() async throws {
        #expect(try await file().load() == nil)
        try await file().save(session)
        #expect(try await file().load() == session)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        #expect(try names() == ["session.json", "session.json.lock"])
        #expect(try mode("session.json") == 0o600 && mode("session.json.lock") == 0o600)
        try await file().delete()
        try await file().delete()
        #expect(try await file().load() == nil)
    }

    @Test("A file that an earlier version of syncd wrote is read")
    func earlier() async throws {
        try write(text)
        #expect(try await file().load() == session)
    }

    @Test("A missing folder is created for its owner only")
    func missingFolder() async throws {
        let deep = file(at: folder.path(of: "a/b/session.json"))
        #expect(try await deep.load() == nil)
        #expect(try names().isEmpty, "reading creates nothing")
        try await deep.save(session)
        #expect(try await deep.load() == session)
        #expect(try mode("a") == 0o700 && mode("a/b") == 0o700)
    }

    @Test("The session of another store or server has ended for this one, and a new log-in replaces it")
    func otherPair() async throws {
        try await file().save(session)
        let pairs = [("file:tablet", "https://sync.example.com"), ("file:phone", "https://other.example.com")]
        for (local, server) in pairs {
            let other = file(local: local, server: server)
            let error = await expectKind(.permissionDenied) { try await other.load() }
            #expect((error?.cause as? AccountError)?.kind == .sessionOver)
            #expect(
                error?.message == "\(path): the session belongs to file:phone at https://sync.example.com, not to "
                    + "\(local) at \(server); log in again")
        }
        #expect(try await file().load() == session)
        let moved = file(server: "https://other.example.com")
        let client = try AccountClient(
            server: moved.server, transport: DirectTransport(try await .open(MemoryBackend(), clock: TestClock(0))))
        let tokens = SessionTokens(client, store: moved)
        #expect(try await tokens.session() == nil)
        let error = await expectKind(.permissionDenied) { try await tokens.token() }
        #expect((error?.cause as? AccountError)?.kind == .sessionOver)
        try await tokens.begin(session.session)
        #expect(try await tokens.token() == "a.b.c")
    }

    @Test("A program whose log-in must not replace the session of another store gets an error with its advice")
    func protectedStore() async throws {
        try await self.file().save(session)
        func file(_ local: String, _ server: String) -> SessionFile {
            SessionFile(path, local: local, server: server, adviceForOtherStores: "pass another file")
        }
        let other = await expectKind(.permissionDenied) {
            try await file("file:tablet", "https://sync.example.com").load()
        }
        #expect(other?.cause == nil)
        #expect(
            other?.message
                == "\(path): the session belongs to file:phone at https://sync.example.com; pass another file")
        let moved = await expectKind(.permissionDenied) {
            try await file("file:phone", "https://other.example.com").load()
        }
        #expect((moved?.cause as? AccountError)?.kind == .sessionOver)
    }

    @Test("A damaged file is an error, never a missing session, and stays as it is")
    func damaged() async throws {
        let broken = ["", "{}", "null", String(text.dropLast(2)), text.replacing("600", with: "\"600\"")]
        for content in broken + [text.replacing("local", with: "place"), String(repeating: " ", count: 2 << 20)] {
            try write(content)
            let error = await expectKind(.damaged) { try await file().load() }
            #expect(error?.message.hasPrefix("\(path): ") == true, "\(content)")
            #expect(try String(contentsOfFile: path, encoding: .utf8) == content)
        }
    }

    @Test("A file that others can access, a link, a pipe and a folder are rejected with the path")
    func wrongFile() async throws {
        try write(text, mode: 0o640)
        let open = await expectKind(.permissionDenied) { try await file().load() }
        #expect(open?.message.contains("which other users cannot access: chmod 600 it") == true)
        try FileManager.default.moveItem(atPath: path, toPath: folder.path(of: "real"))
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: folder.path(of: "real"))
        let link = await expectKind(.permissionDenied) { try await file().load() }
        #expect(link?.message.hasSuffix("; use a file that is not a symbolic link") == true)
        try FileManager.default.removeItem(atPath: path)
        #expect(mkfifo(path, 0o600) == 0)
        await expectKind(.permissionDenied) { try await file().load() }
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        await expectKind(.permissionDenied) { try await file().load() }
        let taken = await expectKind(.unavailable) { try await file().save(session) }
        #expect(taken?.message.hasPrefix("\(path): cannot be written: ") == true)
        let below = file(at: folder.path(of: "real/session.json"))
        let noFolder = await expectKind(.unavailable) { try await below.save(session) }
        #expect(noFolder?.message.hasSuffix("; move what is in its place, or use another path") == true)
        #expect(try names() == ["real", "session.json", "session.json.lock"], "no new file is left")
    }

    @Test("A kill between the write and the rename leaves the old session, and the next save works")
    func killed() async throws {
        try await file().save(session)
        let strace = "/usr/bin/strace"
        if FileManager.default.isExecutableFile(atPath: strace) {
            let probe = try BuiltProgram.startProbe(
                "session", path, "1", "1",
                by: [strace, "-f", "-qq", "-o", "/dev/null", "-e", "inject=/^rename:signal=SIGKILL"])
            while case .line = probe.hear() {}
            #expect(probe.wait() == -SIGKILL)
            let left = try String(contentsOfFile: path + ".new", encoding: .utf8)
            #expect(left == text.replacing("0123", with: "0124"), "the write was complete")
        } else {
            print("strace is not installed: the test writes what a killed process leaves")
            try Data(text.replacing("0123", with: "0124").utf8).write(to: URL(filePath: path + ".new"))
        }
        #expect(try await file().load() == session)
        var next = session
        next.received += 7
        try await file().save(next)
        #expect(try await file().load() == next)
        #expect(try names() == ["session.json", "session.json.lock"])
    }

    @Test("Two processes with four tasks each lose no change of the session")
    func processes() async throws {
        try await file().save(session)
        let probes = try (0..<2).map { _ in try BuiltProgram.startProbe("session", path, "25", "4") }
        for probe in probes {
            while case .line = probe.hear() {}
            #expect(probe.wait() == 0)
        }
        #expect(try await file().load()?.received == session.received + 200)
    }

    @Test("A lock that another process keeps ends in an error after a minute, and a cancelled task stops waiting")
    func taken() async throws {
        try await file().save(session)
        let lock = open(path + ".lock", O_RDWR)
        defer { close(lock) }
        #expect(flock(lock, LOCK_EX) == 0)
        let machine = ManualHost(seed: 1)
        let busy = await expectKind(.busy) { try await file(host: machine.host).save(session) }
        #expect(busy?.message == "\(path): another process has held the lock for a minute; try again")
        #expect(machine.pauses.reduce(.zero, +) == .seconds(60))
        let waiting = Task { try await file().exclusively { () throws(BackendError) in true } }
        waiting.cancel()
        await expectKind(.cancelled) { try await waiting.value }
        #expect(try await file().load() == session, "reading needs no lock")
        // A user removes the lock file, and the next one is another file.
        try FileManager.default.removeItem(atPath: path + ".lock")
        try await file().save(session)
    }

    @Test("Two tasks with separate objects that refresh a session at once cause one refresh")
    func together() async throws {
        let clock = TestClock(1_800_000_000_000)
        let transport = RefreshCounter(try await .open(MemoryBackend(), clock: clock))
        let client = try AccountClient(server: "https://sync.example.com", transport: transport)
        let programs = (0..<2).map { _ in SessionTokens(client, store: file(), host: clock.host) }
        try await programs[0].begin(client.signUp("alice", password: "correct horse").session)
        let expired = try #require(try await programs[1].token())
        #expect(try await programs[0].token() == expired)
        clock.advance(seconds: 700)
        let tokens = try await withThrowingTaskGroup(of: String?.self) { group in
            for number in 0..<16 { group.addTask { try await programs[number % 2].token(refused: expired) } }
            return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
        }
        #expect(tokens.count == 1 && !tokens.contains(expired) && !tokens.contains(nil))
        #expect(transport.refreshCount == 1)
        #expect(try await file().load()?.session.accessToken == tokens.first)
    }

    @Test(
        "A full disk and a read-only disk are errors with a remedy, and keep the old session",
        .enabled(if: SmallDisk.isPossible, "a tmpfs cannot be mounted here"))
    func fullDisk() async throws {
        let disk = try SmallDisk(kilobytes: 64, in: folder)
        let file = file(at: disk.path(of: "session.json"))
        try await file.save(session)
        var next = session
        next.session.refreshToken = "next"
        try disk.fill()
        let full = await expectKind(.full) { try await file.save(next) }
        #expect(
            full?.message == "\(file.path): cannot be written: No space left on device; free some space")
        #expect(full?.disposition == .permanent)
        #expect(try await file.load() == session)
        #expect(!FileManager.default.fileExists(atPath: file.path + ".new"), "the incomplete file takes no space")
        try disk.empty()
        try await file.save(next)
        #expect(try await file.load() == next)
        try disk.makeReadOnly()
        let readOnly = await expectKind(.permissionDenied) { try await file.save(session) }
        #expect(readOnly?.message.hasSuffix("; mount the file system for writing") == true)
        #expect(try await file.load() == next)
    }
}

/// A transport to a service that counts refreshes.
private final class RefreshCounter: HTTPTransport {
    private let direct: DirectTransport
    private let count = Mutex(0)

    init(_ service: EntitlementService) { direct = DirectTransport(service) }

    var refreshCount: Int { count.withLock { $0 } }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        if request.path == "/v1/sessions", String(decoding: body, as: UTF8.self).contains("refresh_token") {
            count.withLock { $0 += 1 }
        }
        return try await direct.send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
    }
}
