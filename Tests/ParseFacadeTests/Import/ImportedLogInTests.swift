import Foundation
import ParseFacade
import ServiceTestSupport
import SyncService
import Synchronization
import TestSupport
import Testing

@Suite("Log-ins of imported accounts")
struct ImportedLogInTests {
    @Test("The first log-in replaces the hash by scrypt, under each wire", arguments: [true, false])
    func upgrade(isFacade: Bool) async throws {
        let (stage, passwords) = try await ParseStage.importing()
        try await stage.add(users: OwlHashes.user(0, hash: OwlHashes.cheap[0]))
        func logIn(_ password: String) async throws -> Bool {
            isFacade
                ? try await stage.logIn("owl 0", password).status == 200
                : await stage.session("OWL 0", password).status == 200
        }
        // A wrong password costs as much, and replaces nothing.
        _ = passwords.take()
        #expect(try await !logIn("owl password 1"))
        #expect(passwords.take() == (1, 1))
        #expect(try await stage.hash(of: "user0") == OwlHashes.cheap[0])
        #expect(try await logIn("owl password 0"))
        #expect(passwords.take() == (1, 1))
        #expect(try await stage.hash(of: "user0")?.hasPrefix("$scrypt$") == true)
        #expect(try await logIn("owl password 0"))
        #expect(passwords.take() == (0, 1))
        #expect(try await !logIn("owl password 1"))
        #expect(try await !logIn(""))
        // Sessions of the epoch stay.
        let (first, second) = (
            try await stage.logIn("owl 0", "owl password 0"), try await stage.logIn("owl 0", "owl password 0")
        )
        #expect(await stage.ask("GET", "/users/me", token: first["sessionToken"]).status == 200)
        #expect(await stage.ask("GET", "/users/me", token: second["sessionToken"]).status == 200)
    }

    @Test("A zero byte never matches, and a password is right if its first 72 bytes are")
    func edges() async throws {
        let (stage, _) = try await ParseStage.importing()
        let long = String(repeating: "x", count: 72)
        try await stage.add(
            users: OwlHashes.user(0, hash: "$2a$04$SecretOwlPasswordSaltukfqEvM0QyJB3He4OAe/dMrzW8ApRQza")
                + OwlHashes.user(1, hash: OwlHashes.cheap[1]))
        for wrong in [String(long.dropLast()), "y" + long] {
            #expect(try await stage.logIn("owl 0", wrong).status == 404)
        }
        for wrong in ["owl password 1\0", "owl password 1\0x"] {
            #expect(try await stage.logIn("owl 1", wrong).status == 404)
        }
        #expect(try await stage.logIn("owl 0", long + " and more").status == 200)
        // From now on the whole password counts.
        #expect(try await stage.logIn("owl 0", long).status == 404)
        #expect(try await stage.logIn("owl 0", long + " and more").status == 200)
    }

    @Test("A password that is changed during the first log-in stays")
    func race() async throws {
        let (stage, passwords) = try await ParseStage.importing()
        try await stage.add(users: OwlHashes.user(0, hash: OwlHashes.cheap[0]))
        let token = "r:0123456789abcdef0123456789abcdef"
        let session =
            #"{"_id":"s","_p_user":"_User$user0","_session_token":"\#(token)","#
            + #""expiresAt":{"$date":1810000000000}}"#
        #expect(try await stage.importer().add(stage.sessions(session)) == [.added])
        passwords.beforeHashing.withLock { body in
            body = {
                let body = #"{"password":"new password"}"#
                _ = await stage.ask("PUT", "/users/user0", body, token: token)
            }
        }
        #expect(try await stage.logIn("owl 0", "owl password 0").status != 200)
        #expect(try await stage.logIn("owl 0", "owl password 0").status == 404)
        #expect(try await stage.logIn("owl 0", "new password").status == 200)
    }

    @Test("Of the imported users a tenth logs in: all work, wrong passwords stay wrong, and scrypt is what remains")
    func round() async throws {
        let count = Soak.importedUserCount
        let (stage, passwords) = try await ParseStage.importing()
        let importer = try await stage.importer()
        for start in stride(from: 0, to: count, by: ParseImport.batchCount) {
            // Users that log in have hashes of the usual cost.
            let lines = (start..<min(count, start + ParseImport.batchCount)).map { index in
                OwlHashes.user(index, hash: (index % 10 == 0 ? OwlHashes.usual : OwlHashes.cheap)[index % 4])
            }
            let outcomes = try await importer.add(stage.users(lines.joined()))
            #expect(outcomes.allSatisfy { $0 == .added })
        }
        var (first, second) = (Duration.zero, Duration.zero)
        for index in stride(from: 0, to: count, by: 10) {
            // The limits for an address and a minute are not what is tested.
            stage.clock.advance(seconds: 60)
            let (name, peer) = ("owl \(index)", "10.1.\(index / 256 % 256).\(index % 256)")
            #expect(try await stage.logIn(name, OwlHashes.password(index + 1), peer: peer).status == 404, "\(name)")
            _ = passwords.take()
            for isFirst in [true, false] {
                let start = ContinuousClock.now
                let status =
                    index % 20 == 0
                    ? try await stage.logIn(name, OwlHashes.password(index), peer: peer).status
                    : await stage.session(name, OwlHashes.password(index), peer: peer).status
                let time = ContinuousClock.now - start
                if isFirst { first += time } else { second += time }
                #expect(status == 200, "\(name)")
                #expect(passwords.take() == (isFirst ? 1 : 0, 1), "\(name)")
            }
            #expect(try await stage.hash(of: "user\(index)")?.hasPrefix("$scrypt$") == true, "\(name)")
            #expect(try await stage.logIn(name, OwlHashes.password(index + 1), peer: peer).status == 404, "\(name)")
            let other = try await stage.hash(of: "user\(index + 1)")
            #expect(other == OwlHashes.cheap[(index + 1) % 4], "a user that has not logged in")
        }
        print("\(count) imported users, \(count / 10) log-ins: the first took \(first), the second \(second) in total")
        expectFigure(first > second)
    }
}
