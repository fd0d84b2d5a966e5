import Foundation
import TestSupport
import Testing

@Suite("syncd doctor names each fault of a store and its machine", .timeLimit(.minutes(15)))
struct DoctorStoreFaultTests {
    private let sandbox: Sandbox
    private let database = "--local sqlite:phone.sqlite"

    init() throws {
        sandbox = try Sandbox()
        try sandbox.prepare("record purchase \(Owls.night) --local sqlite:phone.sqlite")
        try sandbox.prepare("record purchase \(Owls.night) --local file:phone")
    }

    @Test("A flipped byte in an SQLite store")
    func damagedDatabase() throws {
        // Closing writes everything to one file.
        let process = try sandbox.start(["run", "--local", "sqlite:phone.sqlite"])
        #expect(process.firstOutputLine() == "running")
        process.send(SIGTERM)
        #expect(process.outcome().exitCode == 0)
        var bytes = try sandbox.bytes(of: "phone.sqlite")
        let place = try #require(bytes.firstRange(of: Array(Owls.night.utf8))?.lowerBound)
        bytes[place] ^= 1
        try sandbox.write(bytes, to: "phone.sqlite")
        let report = try sandbox.doctor("run \(database)")
        expectFailure(of: "store", "1 damaged entry or page", in: report)
        #expect(report["store"].contains("syncd store recover sqlite:phone.sqlite NEW-URL"))
    }

    @Test("A flipped byte in a file store, and a folder that is no store")
    func damagedFolder() throws {
        var bytes = try sandbox.bytes(of: "phone/anonymous/ledger.entry")
        bytes[bytes.count - 20] ^= 1
        try sandbox.write(bytes, to: "phone/anonymous/ledger.entry")
        expectFailure(of: "store", "1 damaged entry or page", in: try sandbox.doctor("run --local file:phone"))
        expectFailure(
            of: "store", "this is not an SQLite database",
            in: try sandbox.doctor("run --local sqlite:phone/store.format"))
    }

    @Test("A missing folder is a failure, and a missing store a warning")
    func missing() throws {
        expectFailure(
            of: "store-access", "the folder \(sandbox.folder.path)/none/ does not exist",
            in: try sandbox.doctor("run --local sqlite:none/phone.sqlite"))
        let report = try sandbox.doctor("run --local sqlite:other.sqlite")
        #expect(report.healthy && report.names("warning") == ["store"], "\(report.checks)")
    }

    @Test("A store that another user owns", .enabled(if: geteuid() == 0))
    func notWritable() throws {
        try ProcessEnd.run("/bin/chmod", "-R", "a+rX", sandbox.folder.path)
        let report = try sandbox.doctor(["run", "--local", "file:phone"], asUser: 65_534)
        expectFailure(of: "store-access", "cannot write \(sandbox.path("phone"))", in: report)
        #expect(report["store-access"].contains("Permission denied; it belongs to user root"))
    }

    @Test(
        "A file left by root in the store of a user", .enabled(if: geteuid() == 0), arguments: [0, 65_534] as [uid_t])
    func leftByRoot(user: uid_t) throws {
        try ProcessEnd.run("/bin/chown", "-R", "65534:65534", sandbox.folder.path)
        let log = sandbox.path("phone.sqlite-wal")
        chown(log, 0, 0)
        let report = try sandbox.doctor(["run", "--local", "sqlite:phone.sqlite"], asUser: user == 0 ? nil : user)
        expectFailure(of: "store-files", "\(log) belongs to user root, but the store to user nobody", in: report)
        #expect(report["store-files"].hasSuffix("sudo chown nobody: \(log)"))
    }

    @Test("A full disk", .enabled(if: SmallDisk.isPossible, "a tmpfs cannot be mounted here"))
    func fullDisk() throws {
        let disk = try SmallDisk(kilobytes: 256, in: sandbox.folder)
        try sandbox.prepare("record purchase \(Owls.night) --local sqlite:disk/phone.sqlite")
        let report = try sandbox.doctor("run --local sqlite:disk/phone.sqlite")
        expectFailure(of: "disk-space", "\(disk.path): 0 MiB free, less than 16 MiB", in: report)
    }

    @Test("A lock that another program holds")
    func foreignLock() throws {
        let lock = open(sandbox.path("phone.sqlite.run-lock"), O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        defer { close(lock) }
        #expect(flock(lock, LOCK_EX) == 0)
        let report = try sandbox.doctor("run \(database)")
        expectFailure(of: "store-lock", "process \(getpid()) (", in: report)
        #expect(report["store-lock"].hasSuffix("end it: kill \(getpid())"))
    }

    @Test("A broken catalogue, with its line")
    func catalog() throws {
        try sandbox.write("{\n  \"products\": [\n    {\"id\": 7}\n  ]\n}\n", to: "catalog.json")
        expectFailure(of: "catalog", "catalog.json: ", in: try sandbox.doctor("run \(database) --catalog catalog.json"))
        try sandbox.write("{\n  \"products\": [\n", to: "catalog.json")
        expectFailure(
            of: "catalog", "catalog.json: line 3", in: try sandbox.doctor("run \(database) --catalog catalog.json"))
    }

    @Test("A wrong key of the configuration file, with its line, and a wrong value")
    func configuration() throws {
        func report(_ text: String) throws -> DoctorReport {
            try sandbox.write(text, to: "c.json")
            chmod(sandbox.path("c.json"), 0o600)
            return try sandbox.doctor("run --config c.json \(database)")
        }
        expectFailure(
            of: "configuration", "c.json:2: run.pol: unknown key, did you mean \"poll\"?",
            in: try report("{\"run\": {\n\"pol\": 5}}"))
        expectFailure(
            of: "configuration", "c.json:2: run.poll: must be a number", in: try report("{\"run\": {\n\"poll\": 0}}"))
        expectFailure(of: "configuration", "c.json:1: column ", in: try report("{"))
        expectFailure(
            of: "configuration", "--poll must be a number", in: try sandbox.doctor("run --poll 0 \(database)"))
    }

    @Test("A stale socket, a path that is too long, an open folder, and a folder of another user")
    func socket() throws {
        let path = sandbox.path("s/socket")
        let process = try sandbox.start(
            ["run", "--local", "file:phone", "--socket", path], environment: sandbox.device)
        #expect(process.firstOutputLine() == "listening on \(path)")
        process.kill()
        #expect(process.outcome().exitCode == -SIGKILL)
        let report = try sandbox.doctor("run --local file:phone --socket \(path)")
        expectFailure(of: "socket", "\(path) is a stale socket", in: report)
        #expect(report["socket"].hasSuffix("start syncd run, which replaces it, or: rm \(path)"))

        let long = "/" + String(repeating: "a", count: 200)
        expectFailure(
            of: "socket", "at most 107 bytes, not 201", in: try sandbox.doctor("run \(database) --socket \(long)"))
        chmod(sandbox.path("s"), 0o755)
        expectFailure(
            of: "socket", "other users may enter this folder",
            in: try sandbox.doctor("run \(database) --socket \(path)"))
        guard geteuid() == 0 else { return }
        chown(sandbox.path("s"), 65_534, 65_534)
        expectFailure(of: "socket", "belongs to user 65534", in: try sandbox.doctor("run \(database) --socket \(path)"))
    }

    @Test("A copy of a store without its log is not opened, because that would create files")
    func copyWithoutLog() throws {
        try FileManager.default.copyItem(atPath: sandbox.path("phone.sqlite"), toPath: sandbox.path("copy.sqlite"))
        let before = try sandbox.tree()
        let report = try sandbox.doctor("run --local sqlite:copy.sqlite")
        #expect(report.healthy && report.names("warning") == ["store"], "\(report.checks)")
        #expect(report["store"].contains("copy.sqlite-wal is missing"))
        #expect(try sandbox.tree() == before)
    }

    @Test(
        "Root is told to run it as the user of the store, and nothing of the user is called wrong",
        .enabled(if: geteuid() == 0))
    func asRoot() throws {
        try ProcessEnd.run("/bin/mkdir", "-m", "700", sandbox.path("s"))
        try ProcessEnd.run("/bin/chown", "-R", "65534:65534", sandbox.folder.path)
        let report = try sandbox.doctor("run \(database) --socket \(sandbox.path("s/socket"))")
        #expect(report.healthy && report.names("warning") == ["store-access"], "\(report.checks)")
        #expect(report["store-access"].contains("sudo -u nobody syncd doctor run"))
        #expect(report.names("skipped").contains("socket"))
    }
}
