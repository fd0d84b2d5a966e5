import Entitlements
import Foundation
import TestSupport
import Testing

@testable import syncd

@Suite("Checks by root for the user of the server", .timeLimit(.minutes(15)))
struct ServiceUserTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private static let isRoot = geteuid() == 0

    /// Gives everything in the sandbox to user 65534.
    private func giveAway() throws { try ProcessEnd.run("/bin/chown", "-R", "65534:65534", sandbox.folder.path) }

    private func writeToken(mode: Int32) throws {
        try sandbox.write(ServerProcess.operatorToken, to: "token")
        chmod(sandbox.path("token"), mode_t(mode))
    }

    @Test("A file or folder that the mode closes to the user is named; root and an owner have access")
    func modes() throws {
        try FileManager.default.createDirectory(atPath: sandbox.path("a/b"), withIntermediateDirectories: true)
        try sandbox.write("x", to: "a/b/file")
        for name in ["", "a", "a/b"] { chmod(sandbox.path(name), 0o711) }
        let file = sandbox.path("a/b/file")
        chmod(file, 0o640)
        let attributes = try FileManager.default.attributesOfItem(atPath: file)
        let group = try #require(attributes[.groupOwnerAccountID] as? NSNumber).uint32Value
        let other = ServiceUser(id: 54_321, groups: [54_321], description: "other")
        let member = ServiceUser(id: 54_321, groups: [54_321, group], description: "member")
        let owner = ServiceUser(id: geteuid(), groups: [], description: "owner")
        #expect(
            other.obstacle(to: file, R_OK)?.reason.hasSuffix(
                "/a/b/file has mode 0640 and belongs to user \(userName(geteuid()))") == true)
        #expect(other.unreadable(file)?.hasSuffix("sudo chown 54321:54321 \(file)") == true)
        #expect(member.obstacle(to: file, R_OK) == nil)
        #expect(member.obstacle(to: file, W_OK) != nil)
        #expect(owner.obstacle(to: file, R_OK | W_OK) == nil)
        chmod(sandbox.path("a"), 0o700)
        #expect(member.unreadable(file)?.contains("/a has mode 0700") == true)
        #expect(member.unreadable(file)?.hasSuffix("; choose another place for it") == true)
        #expect(ServiceUser(id: 0, groups: [], description: "root").obstacle(to: file, R_OK | W_OK) == nil)
        #expect(other.obstacle(to: sandbox.path("none"), R_OK)?.reason == "No such file or directory")
        #expect(other.unreadable(sandbox.path("none")) == nil, "a missing file is another mistake")

        var unit = owner
        unit.ownFolders = [try #require(realpath(sandbox.path("a"), nil).map { String(cString: $0) })]
        unit.writableFolders = unit.ownFolders
        #expect(unit.obstacle(to: file, W_OK) == nil)
        #expect(unit.obstacle(to: sandbox.path(""), W_OK)?.remedy.contains("ReadWritePaths=") == true)
        unit.hiddenFolders = unit.ownFolders
        #expect(unit.obstacle(to: file, R_OK)?.reason.hasPrefix("the unit hides /") == true)
    }

    @Test("Without a unit, secrets are checked for the owner of the store", .enabled(if: isRoot))
    func ownerOfStore() throws {
        let store = "sqlite:\(sandbox.path("server.sqlite"))"
        let server = try ServerProcess(store: store)
        #expect(server.stop() == 0)
        try giveAway()
        try writeToken(mode: 0o600)
        let token = sandbox.path("token")
        try sandbox.write(
            #"{"serve": {"store": "\#(store)", "listen": "127.0.0.1:0", "operator-token-file": "\#(token)"}}"#,
            to: "syncd.json")
        chmod(sandbox.path("syncd.json"), 0o644)
        let nobody = "user nobody (the owner of the store)"
        let reason = "\(nobody) cannot read \(token): \(token) has mode 0600 and belongs to user root"
        let refused = try sandbox.run("config check --config syncd.json")
        #expect(refused.exitCode == 2)
        #expect(
            refused.output == "syncd.json:1: serve.operator-token-file: \(reason); sudo chown nobody: \(token)\n")
        expectFailure(of: "secret-files", reason, in: try sandbox.doctor("serve --config syncd.json"))
        try giveAway()
        chown(sandbox.path("syncd.json"), 0, 0)
        let accepted = try sandbox.run("config check --config syncd.json")
        #expect(accepted == .done("syncd.json: no mistakes, checked for \(nobody)"))
        let report = try sandbox.doctor("serve --config syncd.json")
        #expect(report.names("failed") + report.names("warning") == [], "\(report.checks)")
        #expect(report["store-access"].hasPrefix("\(nobody) can read and write "))
        chown(sandbox.path("server.sqlite"), 0, 0)
        chmod(sandbox.path("server.sqlite"), 0o600)
        let foreign = try sandbox.doctor("serve --config syncd.json")
        #expect(foreign["store-access"].hasPrefix("\(nobody) cannot write "), "\(foreign.checks)")
        #expect(
            foreign["store-access"].hasSuffix("sudo chown nobody: \(sandbox.path("server.sqlite"))"),
            "\(foreign.checks)")
    }

    /// Lets `syncd` find a systemd with a unit that runs as user 65534.
    private func environment(withUnit properties: [String: (type: String, data: JSON)]) throws -> [String: String] {
        let command = JSON.array([.string("/usr/bin/syncd"), .array([.string("/usr/bin/syncd"), .string("serve")])])
        let all = properties.merging([
            "User": ("s", .string("nobody")), "ExecStart": ("a(sas)", .array([command])),
            "DynamicUser": ("b", .bool(false)),
        ]) { own, _ in own }
        let answer = JSON.object([
            (
                "data",
                .array([
                    .object(
                        all.map { ($0.key, .object([("type", .string($0.value.type)), ("data", $0.value.data)])) })
                ])
            )
        ])
        try FileManager.default.createDirectory(atPath: sandbox.path("bin"), withIntermediateDirectories: true)
        try sandbox.write(answer.text(), to: "unit.json")
        try sandbox.write("#!/bin/sh\nexec cat \(sandbox.path("unit.json"))\n", to: "bin/busctl")
        chmod(sandbox.path("bin/busctl"), 0o755)
        return ["PATH": "\(sandbox.path("bin")):/usr/bin:/bin", "SYNCD_CATALOG": ""]
    }

    private static func texts(_ texts: String...) -> (type: String, data: JSON) {
        ("as", .array(texts.map(JSON.string)))
    }

    @Test("A unit gives its variables and credentials to the checks, and its user", .enabled(if: isRoot))
    func unit() throws {
        try writeToken(mode: 0o600)
        chmod(sandbox.path(""), 0o755)
        let credential = "/run/credentials/syncd.service/token"
        try sandbox.write(#"{"serve": {"operator-token-file": "\#(credential)"}}"#, to: "syncd.json")
        chmod(sandbox.path("syncd.json"), 0o644)
        let variables = Self.texts(
            "SYNCD_STORE=sqlite:\(sandbox.path("server.sqlite"))", "SYNCD_LISTEN=127.0.0.1:0",
            "SYNCD_CONFIG=\(sandbox.path("syncd.json"))")
        let source = JSON.array([.array([.string("token"), .string(sandbox.path("token"))])])
        let with = try environment(withUnit: ["Environment": variables, "LoadCredential": ("a(ss)", source)])
        let path = sandbox.path("syncd.json")
        #expect(
            try sandbox.run("config check", environment: with)
                == .done("\(path): no mistakes, checked for user nobody of syncd.service"))
        let doctor = try sandbox.run("doctor serve", environment: with)
        #expect(doctor.output.contains("1 file, not accessible to all users"), "\(doctor)")
        #expect(doctor.output.contains("user nobody of syncd.service cannot write \(sandbox.path(""))"), "\(doctor)")

        let without = try environment(withUnit: ["Environment": variables])
        let missing = try sandbox.run("config check", environment: without)
        #expect(missing.exitCode == 2 && missing.output.contains("operator-token-file: no such file"), "\(missing)")
        let sealed = try environment(withUnit: ["Environment": variables, "LoadCredentialEncrypted": ("a(ss)", source)])
        #expect(
            try sandbox.run("config check", environment: sealed)
                == .done(
                    "\(path): no mistakes, checked for user nobody of syncd.service; not checked: "
                        + "operator-token-file (a credential of the running unit)"))

        chmod(path, 0o600)
        let closed = try sandbox.run("config check", environment: with)
        #expect(closed.exitCode == 2)
        #expect(closed.output.hasPrefix("\(path): user nobody of syncd.service cannot read \(path): "), "\(closed)")
    }

    @Test("A port below 1024 needs a capability of the unit")
    func port() throws {
        func unit(_ properties: [String: JSON]) throws -> ServiceUnit {
            let words = JSON.array([.string("syncd"), .string("serve"), .string("--config"), .string("/c.json")])
            let command = JSON.object(["data": .array([.array([.string("/usr/bin/syncd"), words])])])
            return try #require(ServiceUnit(["ExecStart": command].merging(properties) { $1 }))
        }
        func data(_ value: JSON) -> JSON { .object(["data": value]) }
        let user = data(.string("nobody"))
        #expect(try unit([:]).mayBindAnyPort, "root may")
        #expect(try !unit(["User": user]).mayBindAnyPort)
        #expect(try unit(["User": user, "AmbientCapabilities": data(.number(1 << 10))]).mayBindAnyPort)
        #expect(
            try !unit(["User": user, "AmbientCapabilities": data(.number(1 << 10)), "PrivateUsers": data(.bool(true))])
                .mayBindAnyPort)
        #expect(try unit(["User": user]).configurationPath == "/c.json")
        #expect(try unit(["User": data(.string("no such user"))]).user.description.hasPrefix("the missing user "))
        let other = ServiceUser(id: 1, groups: [], description: "user a")
        let place = ListeningAddress(host: "127.0.0.1", port: 1, isEncrypted: false, store: nil)
        #expect(place.privilege(of: other)?.finding == "user a may not listen on port 1")
        #expect(ListeningAddress(host: "::1", port: 65_535, isEncrypted: false, store: nil).privilege(of: other) == nil)
    }
}
