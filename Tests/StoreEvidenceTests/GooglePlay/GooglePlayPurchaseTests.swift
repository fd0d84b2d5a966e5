import Crypto
import CryptoExtras
import Entitlements
import Foundation
import StoreEvidence
import Testing

@Suite("Purchases of Google Play")
struct GooglePlayPurchaseTests {
    private static let key = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }
    private static let now = Timestamp(milliseconds: 1_780_000_000_000)

    private func verifier() throws -> GooglePlayVerifier {
        let key = try Self.key.get().publicKey.derRepresentation.base64EncodedString()
        return try GooglePlayVerifier(packageNames: ["com.example.owl"], publicKey: key)
    }

    private func sign(_ data: String, by key: _RSA.Signing.PrivateKey? = nil) throws -> String {
        let digest = Insecure.SHA1.hash(data: Data(data.utf8))
        return try (key ?? Self.key.get()).signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation
            .base64EncodedString()
    }

    private func data(state: Int = 0, package: String = "com.example.owl", order: String = "GPA.1-2..3") -> String {
        "{\"orderId\":\"\(order)\",\"packageName\":\"\(package)\",\"productId\":\"owl\",\"purchaseTime\":1779999000000,"
            + "\"purchaseState\":\(state),\"purchaseToken\":\"token\",\"obfuscatedAccountId\":\"ABC\"}"
    }

    private func expectRefusal(_ check: EvidenceError.Check, _ data: String, _ signature: String) throws {
        let verifier = try verifier()
        let error = #expect(throws: EvidenceError.self) {
            try verifier.purchase(data: data, signature: signature, now: Self.now)
        }
        #expect(error?.check == check, "\(error.map { "\($0)" } ?? "accepted")")
    }

    @Test("A signed purchase gives its order, its line and the account token")
    func purchase() throws {
        let text = data()
        let evidence = try verifier().purchase(data: text, signature: sign(text), now: Self.now)
        guard case .purchase(let purchase)? = evidence.facts.first else {
            Issue.record("no purchase: \(evidence.facts)")
            return
        }
        #expect(evidence.facts.count == 1)
        #expect(purchase.transaction == TransactionReference(store: .googlePlay, id: "GPA.1-2..3"))
        #expect(purchase.line.id == "GPA.1-2")
        #expect(purchase.product == "owl")
        #expect(purchase.stamp.signedDate == Timestamp(milliseconds: 1_779_999_000_000))
        #expect(evidence.accountToken == "abc")
    }

    @Test("An edited text is refused")
    func edited() throws {
        let signature = try sign(data())
        try expectRefusal(.signature, data(order: "GPA.9-9"), signature)
        try expectRefusal(.signature, data() + " ", signature)
    }

    @Test("The signature of another app's key is refused")
    func anotherKey() throws {
        try expectRefusal(.signature, data(), sign(data(), by: _RSA.Signing.PrivateKey(keySize: .bits2048)))
    }

    @Test("A pending purchase is refused")
    func pending() throws { try expectRefusal(.state, data(state: 4), sign(data(state: 4))) }

    @Test("A purchase of another package is refused")
    func anotherPackage() throws {
        let text = data(package: "com.example.other")
        try expectRefusal(.app, text, sign(text))
    }

    @Test("Repeated members, a signature with line breaks, and every oversize are refused")
    func malformed() throws {
        let repeated = data().replacing("\"productId\":\"owl\"", with: "\"productId\":\"owl\",\"productId\":\"gold\"")
        try expectRefusal(.format, repeated, sign(repeated))
        try expectRefusal(.format, data(), sign(data()) + "\n")
        let long = String(repeating: " ", count: EvidenceLimits.transaction) + data()
        try expectRefusal(.size, long, sign(data()))
    }
}
