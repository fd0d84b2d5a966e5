import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("Names of accounts")
struct AccountNameTests {
    private let store = MemoryBackend()
    private let service: EntitlementService

    init() async throws { service = try await .open(store) }

    @Test(
        "A name that is invisible, or can look like another name, is refused",
        arguments: [
            " ", "alice ", " alice", "\u{A0}alice", "alice\u{3000}", "ali\u{200B}ce", "\u{202E}ecila", "alice\u{AD}",
            "a\u{2028}b", "a\u{85}b", "\u{FEFF}alice", "\u{E000}", "a\u{378}", "alice\u{FE0F}", "\u{3164}", "", "a\nb",
            "anonymous", "operator", "self", "Operator", "SELF", "Ａｎｏｎｙｍｏｕｓ", "Anonymous",
        ])
    func unfit(_ name: String) async throws {
        #expect(await AccountOwner(service, name).signUp().status == 400)
        // A header field cannot carry this name.
        guard !name.contains("\n") else { return }
        let issuing = try await EntitlementService.open(MemoryBackend(), issuer: "https://login.example.com")
        #expect(await issuing.status(of: .external(name, 1_800_000_600)) == 401)
    }

    @Test("A subject of another issuer with decomposed letters is refused", arguments: ["cafe\u{301}", "\u{212B}"])
    func decomposed(_ subject: String) async throws {
        let issuing = try await EntitlementService.open(MemoryBackend(), issuer: "https://login.example.com")
        #expect(await issuing.status(of: .external(subject, 1_800_000_600)) == 401)
    }

    @Test(
        "A name in any script is accepted if all its characters are visible",
        arguments: [
            "alice", "Jos\u{E9} P.", "🦉", "李 雷", "\u{AC00}", "a/b", "..", "%2F", "o'hara@example.com", "x\u{328}",
        ])
    func fit(_ name: String) async throws {
        #expect(await AccountOwner(service, name).signUp().status == 201)
        let issuing = try await EntitlementService.open(MemoryBackend(), issuer: "https://login.example.com")
        #expect(await issuing.status(of: .external(name, 1_800_000_600)) == 200)
    }

    @Test("An existing account with a reserved name keeps working, and the name cannot be taken again")
    func reserved() async throws {
        #expect(await AccountOwner(service, "alice").signUp().status == 201)
        guard case .found(let entry) = try await store.read(try EntryKey("server/accounts/alice")).outcome else {
            Issue.record("the account has no record")
            return
        }
        for name in ["operator", "self"] {
            let record = String(decoding: entry.value, as: UTF8.self).replacing("\"alice\"", with: "\"\(name)\"")
            let key = try EntryKey("server/accounts/\(name)")
            _ = try await store.write(Array(record.utf8), to: key, if: .absent)
            let person = AccountOwner(service, name)
            #expect(await person.signUp().status == 200)
            let session = await person.logIn()
            #expect(session.status == 200 && session["account"] == name)
            #expect(await service.refresh(session["refresh_token"]).status == 200)
            #expect(await person.erase(token: session["access_token"]).status == 204)
            #expect(await person.signUp().status == 400)
        }
    }

    @Test("An ampersand in a path is part of the name: a request for a&b does not reach a")
    func ampersands() async throws {
        for name in ["a", "a&b", "a&name=c", "c"] {
            #expect(await AccountOwner(service, name).signUp().status == 201)
        }
        for (path, name) in [("a&b", "a&b"), ("a%26name%3Dc", "a&name=c"), ("a&name=c", "a&name=c")] {
            let code = await service.ask(.post, "/v1/accounts/\(path)/recovery-code", token: .operatorToken)
            #expect(await service.recover(name, code["recovery_code"], newPassword: "correct horse").status == 200)
        }
        for path in ["a&b", "a&name=c"] {
            #expect(await service.ask(.post, "/v1/accounts/\(path)/erasure", token: .operatorToken).status == 204)
        }
        for (name, status) in [("a", 200), ("c", 200), ("a&b", 400), ("a&name=c", 400)] {
            #expect(await AccountOwner(service, name).logIn().status == status, "\(name)")
        }
    }
}
