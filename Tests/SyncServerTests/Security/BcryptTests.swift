import SyncServer
import SyncService
import Testing

@Suite("Imported password hashes by bcrypt")
struct BcryptTests {
    private let passwords = PasswordHashing(cost: .init(logarithm: 8))
    private let peer = "127.0.0.1"
    private static let salt = "$2a$05$CCCCCCCCCCCCCCCCCCCCC."

    @Test(
        "Known vectors are verified, under each name of the algorithm",
        arguments: [
            ("U*U", "\(salt)E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"), ("U*U*", "\(salt)VGOzA784oUp/Z0DY336zx7pLYAy0lwK"),
            ("", "\(salt)7uG0VCzI2bS7j6ymqJi9CdcdxiRTWNy"),
            ("U*U*U", "$2a$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a"),
            ("a", "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe"),
            ("abc", "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"),
        ])
    func vectors(password: String, hash: String) async throws {
        for name in ["$2a$", "$2b$", "$2y$"] {
            let hash = name + hash.dropFirst(4)
            #expect(try await passwords.verify(Array(password.utf8), hash, peer: peer), "\(hash)")
            for wrong in [password + "x", "x" + password, String(password.dropLast()) + "y"] {
                #expect(try await !passwords.verify(Array(wrong.utf8), hash, peer: peer), "\(wrong) \(hash)")
            }
        }
    }

    @Test("A byte above 127 counts as OpenBSD counts it, also in a hash that is named $2a$")
    func bytes() async throws {
        for name in ["$2a$", "$2y$"] {
            let hash = "\(name)05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e"
            #expect(try await passwords.verify([0xFF, 0xFF, 0xA3], hash, peer: peer))
            #expect(try await !passwords.verify([0xFF, 0xA3], hash, peer: peer))
        }
    }

    @Test("bcrypt reads 72 bytes, and a password with a zero byte is never right")
    func limits() async throws {
        let long = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        let hash = "$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui"
        #expect(long.utf8.count == 72)
        for tail in ["", "chars after 72 are ignored", String(repeating: "y", count: 900)] {
            #expect(try await passwords.verify(Array((long + tail).utf8), hash, peer: peer), "\(tail)")
        }
        #expect(try await !passwords.verify(Array(long.utf8.dropLast()), hash, peer: peer))
        for password in [Array("U*U".utf8) + [0], Array("U*U\0x".utf8), [0] + Array("U*U".utf8)] {
            let text = "\(Self.salt)E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
            #expect(try await !passwords.verify(password, text, peer: peer), "\(password)")
        }
        #expect(try await !passwords.verify([0], "\(Self.salt)7uG0VCzI2bS7j6ymqJi9CdcdxiRTWNy", peer: peer))
    }

    @Test(
        "A malformed hash and a cost above 14 are refused",
        arguments: [
            "$2a$15$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
            "$2a$03$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
            "$2a$5$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeWx",
            "$2x$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
            "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOe", "$2a$05$", "$2", "$2a$+5$" + "C",
            "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOe*",
        ])
    func malformed(text: String) async throws {
        #expect(throws: BcryptHash.Objection.self) { try BcryptHash(text) }
        let error = await #expect(throws: CryptographyError.self) {
            try await passwords.verify(Array("U*U".utf8), text, peer: peer)
        }
        #expect(error?.isPermanent == true)
    }
}
