import Crypto
import Entitlements
import EvidenceTestSupport
import Foundation
import Testing

@testable import StoreEvidence

@Suite("JSON web signatures that are malformed or signed otherwise are refused")
struct SignatureForgeryTests {
    private let foundry: AppStoreFoundry

    init() throws { foundry = try AppStoreFoundry.valid.get() }

    @Test("The valid signature that the forgeries start from is accepted")
    func valid() throws {
        let evidence = try AppStoreStage.transaction(foundry.transaction())
        #expect(evidence.kind == .appStoreTransaction)
        #expect(evidence.facts.count == 2)
    }

    @Test("Another algorithm", arguments: ["none", "None", "HS256", "RS256", "ES384", "PS256", "es256", ""])
    func algorithm(_ name: String) throws {
        try AppStoreStage.expectRefusal(.header, "must be ES256") { $0.header["alg"] = .text(name) }
    }

    @Test("A header without an algorithm, or with one that is no text")
    func algorithmMissing() throws {
        try AppStoreStage.expectRefusal(.header, "must be ES256") { $0.header = ["alg": nil] }
        try AppStoreStage.expectRefusal(.header, "alg") { $0.header["alg"] = 256 }
    }

    @Test("The algorithm none with an empty signature")
    func unsigned() throws {
        let jws = try foundry.transaction { text in
            text.header["alg"] = "none"
            text.changeSignature = { _ in [] }
        }
        AppStoreStage.expectRefusal(.format, "base64url") { try AppStoreStage.transaction(jws) }
    }

    @Test("HS256 with the signer's public key as the secret")
    func keyConfusion() throws {
        let jws = try foundry.transaction { $0.header["alg"] = "HS256" }
        let signed = jws.split(separator: ".").dropLast().joined(separator: ".")
        let secret = SymmetricKey(data: try AppStoreFoundry.der(foundry.leaf))
        let code = HMAC<SHA256>.authenticationCode(for: Array(signed.utf8), using: secret)
        AppStoreStage.expectRefusal(.header, "must be ES256") {
            try AppStoreStage.transaction(signed + "." + SignedText.encoded(Array(code)))
        }
    }

    @Test("Critical header parameters")
    func critical() throws {
        try AppStoreStage.expectRefusal(.header, "critical") { $0.header["crit"] = .json("[\"exp\"]") }
        try AppStoreStage.expectRefusal(.header, "critical") { $0.header["crit"] = .json("[]") }
        try AppStoreStage.expectRefusal(.header, "critical") { $0.header["crit"] = .json("null") }
    }

    @Test("A chain of 0, 1, 2 or 4 certificates", arguments: [0, 1, 2, 4])
    func chainLength(_ count: Int) throws {
        try AppStoreStage.expectRefusal(.header, "3 certificates (x5c), not \(count)") { text in
            text.certificates = Array((text.certificates + text.certificates).prefix(count))
        }
    }

    @Test("A header without x5c, or with something else in it")
    func chainMissing() throws {
        try AppStoreStage.expectRefusal(.header, "not 0") { $0.header = ["x5c": nil] }
        try AppStoreStage.expectRefusal(.header, "x5c") { $0.header["x5c"] = "certificate" }
        try AppStoreStage.expectRefusal(.header, "x5c") { $0.header["x5c"] = .json("[1,2,3]") }
        try AppStoreStage.expectRefusal(.header, "not base64") { $0.header["x5c"] = .json("[\"a\",\"b\",\"c\"]") }
    }

    @Test("Certificates in base64 without padding, or with line breaks")
    func certificateEncoding() throws {
        for separator in ["\\n", " "] {
            try AppStoreStage.expectRefusal(.header, "not base64") { text in
                let chain = text.certificates.map { bytes in
                    let base64 = Data(bytes).base64EncodedString()
                    return "\"\(base64.prefix(64))\(separator)\(base64.dropFirst(64))\""
                }
                text.header["x5c"] = .json("[\(chain.joined(separator: ","))]")
            }
        }
    }

    @Test("A number of segments other than three")
    func segments() throws {
        let parts = try foundry.transaction().split(separator: ".").map(String.init)
        let texts = [
            "", ".", "..", "a", parts[0], parts[0] + "." + parts[1], parts.joined(separator: ".") + ".",
            parts.joined(separator: ".") + "." + parts[2], "." + parts.joined(separator: "."),
            parts[0] + ".." + parts[2],
        ]
        for text in texts {
            AppStoreStage.expectRefusal(.format, "segment") { try AppStoreStage.transaction(text) }
        }
    }

    @Test("Base64url with padding, other characters, or bits after the last byte", arguments: [0, 1, 2])
    func encoding(_ index: Int) throws {
        // The body has a length that leaves unused bits in its last character.
        let body = Self.padded(AppStoreFoundry.transactionFields().json)
        let jws = try foundry.sign(body) { $0.headerText = Self.padded(Self.header(of: $0)) }
        #expect(try AppStoreStage.transaction(jws).facts.count == 2)
        let parts = jws.split(separator: ".").map(String.init)
        let part = parts[index]
        let last = try #require(part.last)
        let changed = [part + "=", part + "==", part + "\n", " " + part, "+" + part.dropFirst()]
        for text in changed + [part.dropLast() + Self.next(after: last)] {
            var forged = parts
            forged[index] = text
            AppStoreStage.expectRefusal(.format, "base64url") {
                try AppStoreStage.transaction(forged.joined(separator: "."))
            }
        }
    }

    @Test("A signature of another length", arguments: [1, 32, 63, 65, 96, 128])
    func signatureLength(_ count: Int) throws {
        try AppStoreStage.expectRefusal(.format, "64 bytes, not \(count)") { text in
            text.changeSignature = { bytes in Array((bytes + bytes).prefix(count)) }
        }
    }

    @Test("A signature in DER")
    func signatureInDER() throws {
        try AppStoreStage.expectRefusal(.format, "64 bytes") { text in
            text.changeSignature = { bytes in
                Array(try P256.Signing.ECDSASignature(rawRepresentation: bytes).derRepresentation)
            }
        }
    }

    @Test("A signature of zeros, with exchanged halves, or with one changed bit")
    func signatureBits() throws {
        try AppStoreStage.expectRefusal(.signature, "does not match") { text in
            text.changeSignature = { _ in [UInt8](repeating: 0, count: 64) }
        }
        try AppStoreStage.expectRefusal(.signature, "does not match") { text in
            text.changeSignature = { bytes in Array(bytes[32...] + bytes[..<32]) }
        }
        for place in 0..<64 {
            try AppStoreStage.expectRefusal(.signature, "does not match") { text in
                text.changeSignature = { bytes in
                    var bytes = bytes
                    bytes[place] ^= 1
                    return bytes
                }
            }
        }
    }

    @Test("A body or header that was exchanged after signing")
    func exchangedParts() throws {
        let parts = try foundry.transaction().split(separator: ".")
        let others = try foundry.transaction(["productId": "com.example.yearly"]) { $0.header["typ"] = "JWT" }
            .split(separator: ".")
        for index in 0..<3 {
            var forged = parts
            forged[index] = others[index]
            AppStoreStage.expectRefusal(.signature, "does not match") {
                try AppStoreStage.transaction(forged.joined(separator: "."))
            }
        }
    }

    @Test("The key of the intermediate certificate, or another key")
    func otherKeys() throws {
        try AppStoreStage.expectRefusal(.signature, "does not match") { $0.key = .p256(P256.Signing.PrivateKey()) }
        let intermediate = foundry.intermediateKey
        try AppStoreStage.expectRefusal(.format, "64 bytes, not 96") { $0.key = intermediate }
    }

    @Test("Members that are there twice, in the header and the body")
    func duplicates() throws {
        try AppStoreStage.expectRefusal(.format, "JSON") { text in
            text.headerText = "{\"alg\":\"ES256\"," + Self.header(of: text).dropFirst()
        }
        try AppStoreStage.expectRefusal(.format, "JSON") { text in
            text.body = "{\"bundleId\":\"com.example\"," + text.body.dropFirst()
        }
        // The same name with an escape.
        try AppStoreStage.expectRefusal(.format, "JSON") { text in
            text.body = "{\"bundle\\u0049d\":\"com.example\"," + text.body.dropFirst()
        }
    }

    @Test("A header or body that is no JSON object, and text after it")
    func json() throws {
        for text in ["[]", "1", "null", "\"\"", "{", "{}{}", "nonsense", "\u{FEFF}{}"] {
            try AppStoreStage.expectRefusal(.format, "") { $0.headerText = text }
            try AppStoreStage.expectRefusal(.format, "") { $0.body = text }
        }
        try AppStoreStage.expectRefusal(.format, "JSON") { $0.body += "x" }
    }

    @Test("Objects that are nested too deeply")
    func nesting() throws {
        let depth = 2_000
        let nested = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        try AppStoreStage.expectRefusal(.format, "JSON", fields: ["more": .json(nested)]) { _ in }
    }

    @Test("Everything that is larger than its limit")
    func sizes() throws {
        let filler = SignedField.text(String(repeating: "x", count: EvidenceLimits.notification))
        AppStoreStage.expectRefusal(.size, "more than 16384") {
            try AppStoreStage.transaction(foundry.transaction(["more": filler]))
        }
        AppStoreStage.expectRefusal(.size, "more than 16384") {
            try AppStoreStage.renewal(foundry.renewal(["more": filler]))
        }
        let payload = try foundry.notification("TEST", fields: ["more": filler])
        AppStoreStage.expectRefusal(.size, "more than 65536") { try AppStoreStage.notification(payload) }
        AppStoreStage.expectRefusal(.size, "more than 65536") {
            try AppStoreStage.verifier().notification(
                signedPayload: payload, now: Timestamp(milliseconds: AppStoreStage.now))
        }
        let inner = SignedField.text(try foundry.transaction(["more": .text(String(repeating: "x", count: 16_384))]))
        let outer = try foundry.notification("DID_RENEW", data: ["signedTransactionInfo": inner])
        AppStoreStage.expectRefusal(.size, "more than 16384") { try AppStoreStage.notification(outer) }
    }

    /// The header that a text has by default.
    private static func header(of text: SignedText) -> String {
        let chain = text.certificates.map { "\"\(Data($0).base64EncodedString())\"" }.joined(separator: ",")
        return "{\"alg\":\"ES256\",\"x5c\":[\(chain)]}"
    }

    /// Adds spaces until the length is 1 more than a multiple of 3, which leaves unused bits in base64.
    private static func padded(_ json: String) -> String {
        var text = json
        while text.utf8.count % 3 != 1 { text += " " }
        return text
    }

    /// The next character of the alphabet, which differs in the last bit.
    private static func next(after character: Character) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        let index = alphabet.firstIndex(of: character) ?? 0
        return String(alphabet[index ^ 1])
    }
}
