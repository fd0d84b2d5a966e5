import EntitlementSync
import Foundation
import Testing

@Suite("Two devices and a folder that a file-sync tool shares")
struct FolderCommandTests {
    private let sandbox: Sandbox
    private let phone = "--local file:phone --remote folder:phone-share --account alice --at 2026-01-02"
    private let tablet = "--local file:tablet --remote folder:tablet-share --account alice --at 2026-01-02"

    init() throws {
        sandbox = try Sandbox()
        for share in ["phone-share", "tablet-share"] {
            try FileManager.default.createDirectory(atPath: sandbox.path(share), withIntermediateDirectories: false)
        }
    }

    private func entries(in share: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: sandbox.path(share)).filter { $0.contains(".entry") }
            .sorted()
    }

    /// Copies files from one folder to the other, under new names, as a file-sync tool does.
    private func copy(_ source: String, to target: String, as rename: (String) -> String = { $0 }) throws {
        for name in try entries(in: source) {
            let path = URL(filePath: sandbox.path("\(target)/\(rename(name))"))
            try FileManager.default.createDirectory(
                at: path.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(sandbox.bytes(of: "\(source)/\(name)")).write(to: path)
        }
    }

    @Test("Purchases travel with the files, and an idle sync writes nothing")
    func exchange() throws {
        try sandbox.run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01 \(phone)")
        try sandbox.run("record purchase \(Owls.couch) --transaction t2 --date 2026-01-01 \(tablet)")
        #expect(
            try sandbox.run("sync \(phone)") == .done("synced alice: received nothing, sent what the remote lacked"))
        try copy("phone-share", to: "tablet-share")
        let restored = try sandbox.run("restore \(tablet)")
        #expect(restored.output.hasPrefix("restored for alice: 1 purchase\n  \(Owls.night)  2026-01-01"))
        try copy("tablet-share", to: "phone-share")
        #expect(try sandbox.run("sync \(phone)").output.hasPrefix("synced alice: received 2 facts, sent nothing\n"))
        #expect(try sandbox.run("check couch-owl \(phone)").exitCode == 0)
        let before = try sandbox.tree()
        for device in [phone, tablet] {
            #expect(try sandbox.run("sync \(device)") == .done("synced alice: received nothing, sent nothing"))
        }
        #expect(try sandbox.tree() == before)
        #expect(try entries(in: "phone-share").count == 2)
        #expect(try sandbox.tree().keys.filter { $0.contains("-share") && $0.contains("store.") }.isEmpty)
    }

    @Test("A conflict copy is read even if the device that wrote it is gone")
    func conflictCopy() throws {
        try sandbox.run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01 \(phone)")
        try sandbox.run("sync \(phone)")
        try copy("phone-share", to: "tablet-share") {
            $0.replacing(".entry", with: " (conflicted copy 2026-01-01).entry")
        }
        #expect(try sandbox.run("restore \(tablet)").output.hasPrefix("restored for alice: 1 purchase\n"))
    }

    @Test("No restore succeeds over a file that iCloud Drive has not downloaded, and the next one does after it")
    func notDownloaded() throws {
        try sandbox.run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01 \(phone)")
        try sandbox.run("sync \(phone)")
        try copy("phone-share", to: "tablet-share")
        let file = try sandbox.path("tablet-share/" + #require(entries(in: "tablet-share").first))
        let url = URL(filePath: file)
        let placeholder = url.deletingLastPathComponent().appending(path: ".\(url.lastPathComponent).icloud")
        try FileManager.default.moveItem(at: url, to: placeholder)
        for command in ["restore", "sync"] {
            let outcome = try sandbox.run("\(command) \(tablet)")
            #expect(outcome.exitCode == 75 && outcome.output.isEmpty, "\(outcome)")
            #expect(outcome.error.contains("iCloud Drive has not downloaded this file yet"), "\(outcome)")
        }
        #expect(try entries(in: "tablet-share").count == 1)
        try FileManager.default.moveItem(at: placeholder, to: url)
        #expect(try sandbox.run("restore \(tablet)").output.hasPrefix("restored for alice: 1 purchase\n"))
    }

    @Test(
        "A half-copied file is reported, blocks nothing, and is read when it is complete"
    )
    func halfCopied() throws {
        try sandbox.run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01 \(phone)")
        try sandbox.run("sync \(phone)")
        try copy("phone-share", to: "tablet-share")
        let file = try "tablet-share/" + #require(entries(in: "tablet-share").first)
        let whole = try sandbox.bytes(of: file)
        try sandbox.write(Array(whole.dropLast(20)), to: file)
        let outcome = try sandbox.run("restore \(tablet)")
        let lines = outcome.output.split(separator: "\n")
        #expect(
            outcome.exitCode == 0 && outcome.error.isEmpty && lines.count == 2 && lines[0] == "nothing new for alice")
        #expect(lines[1].hasPrefix("  unreadable, retried by the next sync: ") && lines[1].contains("the file ends"))
        #expect(
            try sandbox.run("check night-owl \(tablet)")
                == .init(exitCode: 10, output: "denied: restore needed\n", error: ""))
        try sandbox.write(whole, to: file)
        #expect(try sandbox.run("restore \(tablet)").output.hasPrefix("restored for alice: 1 purchase\n"))
    }

    @Test("--create-remote creates a missing folder", arguments: ["file", "folder"])
    func createRemote(scheme: String) throws {
        let remote = "--remote \(scheme):new/share --account alice"
        let device = "--local file:phone \(remote)"
        try sandbox.run("record purchase \(Owls.night) --transaction t1 \(device)")
        #expect(try sandbox.run("sync \(device)").exitCode == 3)
        #expect(try sandbox.run("restore --local file:other \(remote)").exitCode == 3)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("new")))
        let answer = try sandbox.run("check night-owl --local file:other \(remote)")
        #expect(answer.output == "denied: restore needed\n")
        #expect(try sandbox.run("sync --create-remote \(device)").exitCode == 0)
        #expect(try sandbox.run("sync \(device)").exitCode == 0)
    }
}
