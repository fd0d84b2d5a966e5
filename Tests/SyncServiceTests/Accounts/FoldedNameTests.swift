import EntitlementsTestSupport
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Folded names")
struct FoldedNameTests {
    @Test(
        "Spellings that differ by case, or by the form of the same letters, fold to one text",
        arguments: [
            ("Owl@Example.COM", "owl@example.com"), ("ＯＷＬ", "owl"), ("ﬁreﬂy", "firefly"), ("cafe\u{301}", "café"),
            ("\u{212B}ngstro\u{308}m", "ångström"), ("STRASSE", "straße"), ("STRAẞE", "straße"), ("ΟΔΟΣ", "οδος"),
            ("οδοσ", "οδος"), ("İzmir", "izmir"), ("IZMIR", "ızmır"), ("I\u{307}\u{323}", "ị"), ("Ǆ", "ǆ"), ("①", "1"),
            ("\u{1100}\u{1161}", "\u{AC00}"), ("\u{31F61}\u{345}", "\u{31F61}Ι"), ("ЩУКА", "щука"), ("ſ", "s"),
            ("ᾳ", "αι"), ("ŉ", "ʼN"), ("🦉", "🦉"),
        ])
    func equal(_ one: String, _ other: String) {
        #expect(AccountName.folded(one).utf8.elementsEqual(AccountName.folded(other).utf8))
    }

    @Test(
        "Different letters stay different",
        arguments: [
            ("owl", "ow1"), ("cafe", "café"), ("а", "a"), ("\u{31F61}\u{345}", "ᾡ"), ("o", "ø"), ("n", "ñ"),
            ("a b", "ab"), ("ß", "s"),
        ])
    func different(_ one: String, _ other: String) {
        #expect(AccountName.folded(one) != AccountName.folded(other))
    }

    @Test("Folding a folded text, and folding a normalized or lower-case spelling, gives the same text")
    func idempotence() throws {
        // Scalars that case or normalization changes, among all others.
        let scalars = (UInt32(0)...0x10FFFF).compactMap(Unicode.Scalar.init)
        let assigned = scalars.filter { $0.properties.generalCategory != .unassigned }
        let special = assigned.filter {
            let text = String($0)
            return $0.properties.canonicalCombiningClass != .notReordered || text.lowercased() != text
                || text.uppercased() != text
                || !text.decomposedStringWithCompatibilityMapping.unicodeScalars.elementsEqual(text.unicodeScalars)
        }
        let dotted = Array("iIİıſςΣß\u{307}\u{323}\u{345}".unicodeScalars)
        try forAll("folding is idempotent", cases: 20_000) { random, place in
            var name = ""
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let kind = random.pick([assigned, special, dotted])
                name.unicodeScalars.append(random.pick(kind))
            }
            let folded = AccountName.folded(name)
            let composed = AccountName.composed(name)
            for spelling in [
                folded, composed, composed.lowercased(), name.decomposedStringWithCanonicalMapping,
                name.decomposedStringWithCompatibilityMapping,
            ] {
                let isEqual = AccountName.folded(spelling).utf8.elementsEqual(folded.utf8)
                #expect(isEqual, "\(place): \(Array(name.unicodeScalars))")
            }
        }
    }
}

@Suite("Accounts by folded names")
struct FoldedAccountTests {
    private let store = MemoryBackend()
    private let service: EntitlementService

    init() async throws { service = try await .open(store) }

    private func claims() async throws -> [String] {
        try await store.list(prefix: "server/names/", after: nil, limit: 100).outcome.items.map(\.key.text)
    }

    @Test("Every spelling of a name signs up and logs in to one account, which keeps the name as it was typed")
    func spellings() async throws {
        let first = await AccountOwner(service, "Owl@Example.com").signUp()
        #expect(first.status == 201 && first["account"] == "Owl@Example.com")
        for name in ["Owl@Example.com", "owl@example.com", "OWL@EXAMPLE.COM", "ｏｗｌ@example.com"] {
            let session = await AccountOwner(service, name).logIn()
            #expect(session.status == 200 && session["account"] == "Owl@Example.com", "\(name)")
            let repeated = await AccountOwner(service, name).signUp()
            #expect(repeated.status == 200 && repeated["account"] == "Owl@Example.com", "\(name)")
            let other = await AccountOwner(service, name, password: "another horse").signUp(peer: "198.51.100.7")
            #expect(other.status == 409, "\(name)")
        }
        #expect(try await claims() == ["server/names/owl@example.com"])
    }

    @Test(
        "A name of decomposed letters is accepted, and stored with composed ones",
        arguments: [
            ("cafe\u{301}", "caf\u{E9}"), ("\u{212B}", "\u{C5}"), ("\u{1100}\u{1161}", "\u{AC00}"),
        ])
    func decomposed(_ typed: String, _ stored: String) async throws {
        let made = await AccountOwner(service, typed).signUp()
        #expect(made.status == 201)
        #expect(made["account"]?.utf8.elementsEqual(stored.utf8) == true)
        #expect(await AccountOwner(service, typed).signUp().status == 200)
        #expect(await AccountOwner(service, stored).logIn().status == 200)
    }

    @Test("A recovery code, and the operator's erasure and recovery code, work by every spelling")
    func others() async throws {
        let codes = await AccountOwner(service, "Owl").signUp().members["recovery_codes"] as? [String]
        let recovered = await service.recover("OWL", codes?.first, newPassword: "correct horse")
        #expect(recovered.status == 200 && recovered["account"] == "Owl")
        let code = await service.ask(.post, "/v1/accounts/oWL/recovery-code", token: .operatorToken)
        #expect(code["account"] == "Owl")
        #expect(await service.recover("owl", code["recovery_code"], newPassword: "correct horse").status == 200)
        #expect(await service.ask(.post, "/v1/accounts/oWl/erasure", token: .operatorToken).status == 204)
        #expect(await AccountOwner(service, "Owl").logIn().status == 400)
    }

    @Test("An erasure releases the folded name, and the next life may be spelled differently")
    func erasure() async throws {
        let token = await AccountOwner(service, "Owl").signUp()["access_token"]
        #expect(await AccountOwner(service, "Owl").erase(token: token).status == 204)
        #expect(try await claims().isEmpty)
        #expect(await AccountOwner(service, "OWL", password: "another horse").signUp().status == 201)
        let session = await AccountOwner(service, "owl", password: "another horse").logIn()
        #expect(session["account"] == "OWL")
        #expect(await AccountOwner(service, "Owl").logIn().status == 400)
        #expect(await AccountOwner(service, "Owl").signUp().status == 409)
    }

    @Test("Wrong guesses for all spellings of a name count together, whether there is an account or not")
    func guesses() async throws {
        #expect(await AccountOwner(service, "Owl").signUp().status == 201)
        for name in ["owl", "bat"] {
            for count in 0..<10 {
                let spelling = [name, name.uppercased(), name.capitalized][count % 3]
                #expect(await AccountOwner(service, spelling, password: "wrong horse").logIn().status == 400)
            }
            #expect(await AccountOwner(service, name.capitalized).logIn().status == 429)
        }
        #expect(await AccountOwner(service, "oWL").logIn(peer: "198.51.100.7").status == 200)
    }

    @Test("The subjects of another issuer are exact, and claim no name")
    func external() async throws {
        let store = MemoryBackend()
        let service = try await EntitlementService.open(store, issuer: "https://login.example.com")
        for subject in ["owl", "Owl"] {
            let account = await service.ask(.get, "/v1/accounts/self", token: .external(subject, 1_800_000_600))
            #expect(account.status == 200 && account["name"] == subject)
        }
        #expect(await AccountOwner(service, "OWL").signUp().status == 201)
        #expect(await AccountOwner(service, "owl").signUp().status == 409)
        #expect(try await store.list(prefix: "server/names/", after: nil, limit: 9).outcome.items.count == 1)
    }

    @Test(
        "The refusal of a name or a password is in words for its owner",
        arguments: [
            ("", "correct horse", "an account needs a name"),
            ("operator", "correct horse", "the name \"operator\" is reserved; choose another name"),
            ("Operator", "correct horse", "the name \"Operator\" is reserved; choose another name"),
            ("a\u{200B}b", "correct horse", "this name has a character that names cannot have; choose another name"),
            (" owl", "correct horse", "a name cannot begin or end with a space; remove it"),
            (String(repeating: "🦉", count: 64), "correct horse", "this name is too long; choose a shorter one"),
            (String(repeating: "\u{FDFA}", count: 80), "correct horse", "this name is too long; choose a shorter one"),
            ("owl", "short", "this password is too short; choose one of at least 8 characters"),
            ("owl", String(repeating: "x", count: 1_025), "this password is too long; choose a shorter one"),
        ])
    func refusals(_ name: String, _ password: String, _ detail: String) async throws {
        let reply = await AccountOwner(service, name, password: password).signUp()
        #expect(reply.status == 400 && reply.problem?.detail == detail, "\(reply.members)")
    }

    @Test("A password of 8 characters is long enough in every script", arguments: ["12345678", "пароль12", "🦉🦉🦉🦉🦉🦉🦉🦉"])
    func lengths(_ password: String) async throws {
        #expect(await AccountOwner(service, password: password).signUp().status == 201)
    }
}
