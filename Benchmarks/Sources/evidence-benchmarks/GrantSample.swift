import Crypto
import EntitlementSyncEvidence
import Entitlements
import Foundation

/// A signed grant of 20 entitlements, as a server signs it.
struct GrantSample {
    private let text: [UInt8]
    private let roots: GrantRoots
    /// The public key that signed the grant, its signature, and the signed bytes.
    private let key: Curve25519.Signing.PublicKey
    private let signature: Data
    private let signed: Data

    init() throws {
        let (root, key) = (Curve25519.Signing.PrivateKey(), Curve25519.Signing.PrivateKey())
        let x = Self.base64url(key.publicKey.rawRepresentation)
        let statement = try Self.sign(
            #"{"alg":"EdDSA","typ":"entitlement-key+jwt"}"#,
            #"{"iss":"bench","x":"\#(x)","iat":1800000000,"exp":1805000000}"#, root)
        let source = "entitlement-grant+jwt\nbench\ni1\nalice"
        let pseudonym = SHA256.hash(data: Array(source.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
        let items = (0..<20).map { #""owl-\#($0)":{"until":"2027-01-01T00:00:00Z"}"# }.joined(separator: ",")
        let grant = try Self.sign(
            #"{"alg":"EdDSA","typ":"entitlement-grant+jwt","kid":"k","key":"\#(statement)"}"#,
            #"{"iss":"bench","sub":"\#(pseudonym.joined())","dev":"d","env":"production","iat":1800000000,"#
                + #""exp":1800600000,"entitlements":{\#(items)}}"#, key)
        text = Array(grant.utf8)
        roots = try GrantRoots([Self.base64url(root.publicKey.rawRepresentation)])
        let end = grant.lastIndex(of: ".") ?? grant.endIndex
        (self.key, signed) = (key.publicKey, Data(grant[..<end].utf8))
        signature = try key.signature(for: signed)
    }

    /// Verifies the grant.
    var isAccepted: Bool {
        do { return try roots.verify(text, account: ("alice", "i1"), device: "d").items.count == 20 } catch {
            return false
        }
    }

    /// Verifies one signature of the grant's bytes.
    func verifiesBareSignature() -> Bool { key.isValidSignature(signature, for: signed) }

    private static func sign(
        _ header: String, _ payload: String, _ key: Curve25519.Signing.PrivateKey
    ) throws -> String {
        let signed = [header, payload].map { base64url(Data($0.utf8)) }.joined(separator: ".")
        return signed + "." + base64url(try key.signature(for: Data(signed.utf8)))
    }

    private static func base64url(_ data: Data) -> String {
        data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
