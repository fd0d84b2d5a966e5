import SyncServer
import SyncService
import Testing

@Suite("Password hashes")
struct PasswordTests {
    private let passwords = PasswordHashing(cost: .init(logarithm: 8))
    private let peer = "127.0.0.1"

    @Test("A hash verifies its password only, and each hash is different")
    func fits() async throws {
        let password = Array("correct horse".utf8)
        let hash = try await passwords.hash(password, peer: peer)
        #expect(hash.hasPrefix("$scrypt$ln=8,r=8,p=1$"))
        #expect(try await passwords.verify(password, hash, peer: peer))
        #expect(try await passwords.hash(password, peer: peer) != hash)
        for wrong in ["correct hors", "correct horse ", "", "Correct horse"] {
            #expect(try await !passwords.verify(Array(wrong.utf8), hash, peer: peer), "\(wrong)")
        }
    }

    @Test("A hash with other cost parameters is verified (third test vector of RFC 7914, section 12)")
    func vector() async throws {
        // Password "pleaseletmein", salt "SodiumChloride", N = 2^14, r = 8, p = 1, 64 bytes.
        let hash = "cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofLVQylVYT8Pz2LUlwUkKpr55h6F3A1lHkDfzwF7RVdYhw"
        let stored = "$scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU$\(hash)"
        #expect(try await passwords.verify(Array("pleaseletmein".utf8), stored, peer: peer))
        #expect(try await !passwords.verify(Array("pleaseletmeim".utf8), stored, peer: peer))
    }

    @Test("The default cost is that of OWASP, 128 MiB")
    func usualCost() async throws {
        let hash = try await PasswordHashing(threadCount: 1).hash(Array("correct horse".utf8), peer: peer)
        #expect(hash.hasPrefix("$scrypt$ln=17,r=8,p=1$"))
        #expect(try await passwords.verify(Array("correct horse".utf8), hash, peer: peer))
    }

    @Test("A malformed stored hash, or one with excessive cost, is an error")
    func damaged() async throws {
        let hash = try await passwords.hash(Array("correct horse".utf8), peer: peer)
        let parts = hash.split(separator: "$", omittingEmptySubsequences: false)
        for text in [
            "", "$", "correct horse", "$scrypt", hash + "$", "$bcrypt" + hash.dropFirst("$scrypt".count),
            hash.replacing("ln=8", with: "ln=31"), hash.replacing("ln=8", with: "ln=-1"),
            hash.replacing("ln=8", with: "ln=8,ln=8"), hash.replacing("r=8", with: "r=1000"),
            hash.replacing("p=1", with: "p=0"), hash.replacing("p=1", with: "p=99"), hash.replacing(",p=1", with: ""),
            String(hash.dropLast(30)), "$scrypt$\(parts[2])$*$\(parts[4])", "$scrypt$\(parts[2])$$\(parts[4])",
            "$scrypt$\(parts[2])$\(parts[3])=$\(parts[4])",
        ] {
            await #expect(throws: CryptographyError.self, "\(text)") {
                try await passwords.verify(Array("correct horse".utf8), text, peer: peer)
            }
        }
    }

    @Test("Hashes beyond the queue length are refused, and the others are served")
    func queue() async throws {
        let few = PasswordHashing(cost: .init(logarithm: 12), threadCount: 1, queueLength: 3)
        let results = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<32 {
                group.addTask { (try? await few.hash(Array("password \(number)".utf8), peer: peer)) != nil }
            }
            return await group.reduce(into: [Bool]()) { $0.append($1) }
        }
        let served = results.count { $0 }
        #expect(served >= 4 && served < 32, "\(served)")
        // Afterwards the queue accepts work again.
        #expect(try await few.hash([1], peer: peer).isEmpty == false)
    }
}
