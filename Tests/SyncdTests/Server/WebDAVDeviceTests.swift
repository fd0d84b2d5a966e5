import Foundation
import TestSupport
import Testing

@Suite(
    "Devices over a WebDAV folder, by the command line", .timeLimit(.minutes(15)),
    .enabled(if: ApacheServer.isInstalled, "there is no Apache with mod_dav here: apt-get install apache2-bin"))
struct WebDAVDeviceTests {
    private let sandbox: Sandbox
    private let folder: ApacheServer.Folder
    private let apache: ApacheServer

    init() throws {
        sandbox = try Sandbox()
        apache = try ApacheServer.shared.get()
        folder = try apache.makeFolder(guarded: true)
    }

    /// `webdav://USER@HOST/FOLDER`.
    private func url(user: String? = ApacheServer.user, in name: String = "") -> String {
        "webdav://" + (user.map { $0 + "@" } ?? "") + apache.authority + folder.name + name
    }

    private func run(
        _ command: String, on device: String = "phone", at url: String? = nil,
        _ environment: [String: String] = ["SYNCD_WEBDAV_PASSWORD": ApacheServer.password]
    ) throws -> Sandbox.Outcome {
        let outcome = try sandbox.run(
            "\(command) --local file:\(device) --remote \(url ?? self.url()) --account alice --at 2026-01-02",
            environment: ["XDG_STATE_HOME": sandbox.path("state")].merging(environment) { $1 })
        #expect(!(outcome.output + outcome.error).contains(ApacheServer.password))
        return outcome
    }

    /// Writes a file with credentials, by default readable only by its owner.
    private func credentials(_ text: String, rights: Int = 0o600) throws -> String {
        try sandbox.write(text, to: "credentials.json")
        let path = sandbox.path("credentials.json")
        try FileManager.default.setAttributes([.posixPermissions: rights], ofItemAtPath: path)
        return path
    }

    private func login(at origin: String? = nil) -> String {
        "{\"\(origin ?? "webdav://\(apache.authority)")\":{\"user\":\"\(ApacheServer.user)\","
            + "\"password\":\"\(ApacheServer.password)\"}}"
    }

    @Test("A purchase on one device is restored on another, both go on, and an idle sync writes nothing")
    func walk() throws {
        _ = try run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01")
        #expect(try run("sync") == .done("synced alice: received nothing, sent what the remote lacked"))
        #expect(try run("check night-owl", on: "tablet").exitCode == 10)
        #expect(try run("restore", on: "tablet").output.hasPrefix("restored for alice: 1 purchase\n  \(Owls.night)"))
        #expect(try run("check night-owl", on: "tablet").exitCode == 0)
        _ = try run("record purchase \(Owls.couch) --transaction t2 --date 2026-01-01", on: "tablet")
        #expect(try run("sync", on: "tablet").output.hasSuffix("sent what the remote lacked\n"))
        #expect(try run("sync").output.hasPrefix("synced alice: received 2 facts, sent nothing\n"))
        #expect(try run("check couch-owl").exitCode == 0)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(names.count == 2 && names.allSatisfy { $0.hasPrefix("accounts=2falice=2f") }, "\(names)")
        let before = try names.map { try Data(contentsOf: URL(filePath: folder.path + "/" + $0)) }
        for device in ["phone", "tablet"] {
            #expect(try run("sync", on: device) == .done("synced alice: received nothing, sent nothing"))
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == names)
        #expect(try names.map { try Data(contentsOf: URL(filePath: folder.path + "/" + $0)) } == before)
    }

    @Test("A missing folder is reported, and created only with --create-remote")
    func missing() throws {
        let new = url(in: "new/er")
        _ = try run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01")
        for command in ["sync", "restore"] {
            let outcome = try run(command, at: new)
            #expect(outcome.exitCode == 3 && outcome.error.contains("the folder does not exist"), "\(outcome)")
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/new"))
        #expect(try run("sync --create-remote", at: new).exitCode == 0)
        #expect(try run("restore", on: "tablet", at: new).output.hasPrefix("restored for alice: 1 purchase\n"))
    }

    @Test("The password comes from the environment or a file for that server, never from the URL")
    func passwords() throws {
        _ = try run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01")
        let origin = "webdav://\(apache.authority)"
        #expect(
            try run("sync", [:])
                == .refused(
                    4,
                    "the password of alice at \(origin) is required: set SYNCD_WEBDAV_PASSWORD or pass --credentials"))
        let wrong = try run("sync", ["SYNCD_WEBDAV_PASSWORD": "wrong"])
        #expect(wrong.exitCode == 4 && wrong.error.contains("(401)"), "\(wrong)")
        #expect(try run("sync", at: url(user: nil), [:]).exitCode == 4)
        let inAddress = try run("sync", at: "webdav://alice:hidden@\(apache.authority)\(folder.name)")
        #expect(inAddress.exitCode == 2 && !inAddress.error.contains("hidden"), "\(inAddress)")
        let insecure = try run("sync", at: "webdav://alice@nas.example/owls")
        #expect(insecure.exitCode == 2 && insecure.error.contains("--insecure-http"), "\(insecure)")
        // Credentials of another server are not sent to this one.
        let other = try credentials(login(at: "webdavs://nas.example"))
        #expect(try run("sync --credentials \(other)", [:]).exitCode == 4)
        let file = try credentials(login())
        #expect(try run("sync --credentials \(file)", at: url(user: nil), [:]).exitCode == 0)
        #expect(try run("sync", ["SYNCD_CREDENTIALS": file]).exitCode == 0)
        #expect(try run("sync --credentials \(file)", at: url(user: "bob"), [:]).exitCode == 4)
        let open = try credentials(login(), rights: 0o644)
        #expect(try run("sync --credentials \(open)", [:]).error.contains("must be your own file"))
        #expect(try run("sync --credentials \(try credentials("{}[]"))", [:]).exitCode == 4)
        #expect(try run("sync --credentials \(sandbox.path("none"))", [:]).exitCode == 3)
    }

    @Test("store check, copy and backup accept a WebDAV folder")
    func stores() throws {
        _ = try run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01")
        #expect(try run("sync").exitCode == 0)
        let password = ["SYNCD_WEBDAV_PASSWORD": ApacheServer.password]
        func store(_ command: String) throws -> Sandbox.Outcome {
            try sandbox.run("store \(command)", environment: password)
        }
        #expect(try store("check \(url())") == .done("\(url()): 1 entry intact"))
        #expect(try store("copy \(url()) sqlite:copy.sqlite").output.contains("1 entry copied"))
        #expect(try store("copy sqlite:copy.sqlite \(url(in: "copy"))").output.contains("1 entry copied"))
        #expect(try store("copy sqlite:copy.sqlite \(url(in: "copy"))").output.contains("1 already present"))
        #expect(try run("restore", on: "tablet", at: url(in: "copy/")).output.hasPrefix("restored for alice: 1 "))
        #expect(try store("backup \(url()) file:backup").exitCode == 0)
        #expect(try store("backup file:backup \(url(in: "backup"))").exitCode == 2)
        #expect(try store("check \(url(in: "none"))").exitCode == 3)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".entry") }
        let path = folder.path + "/" + (try #require(names.first))
        try Data(contentsOf: URL(filePath: path)).dropLast(3).write(to: URL(filePath: path))
        let damaged = try store("check \(url())")
        #expect(damaged.exitCode == 1 && damaged.output.contains("damaged: accounts/alice/"), "\(damaged)")
        let local = try sandbox.run("status --local \(url())", environment: password)
        #expect(local.exitCode == 2, "\(local)")
    }
}
