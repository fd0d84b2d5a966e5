import Crypto
import Entitlements
import SyncSimulation

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A verifier of grants by their documented format. It shares nothing with those of the product.
struct GrantCheck {
    /// The public key of the root.
    let root: Curve25519.Signing.PublicKey
    let server: String

    /// The content of a grant, as far as it is checked.
    struct Content {
        var account: String
        var device: String
        /// The times of issue and expiry, in seconds since 1970 UTC.
        var issued: Int64
        var expires: Int64
        var keyID: String
        /// The entitlements that are granted.
        var entitlements: Set<String>
    }

    /// - Throws: ``ScenarioError`` with the check that failed.
    func content(of grant: String) throws -> Content {
        let (header, payload) = try Self.read(grant, type: "entitlement-grant+jwt")
        let statement = try Self.text(header, "key")
        let (_, key) = try Self.read(statement, type: "entitlement-key+jwt")
        try Self.verify(statement, by: root, "the root has not signed the key")
        let bytes = try Self.bytes(try Self.text(key, "x"))
        try Self.verify(
            grant, by: try Curve25519.Signing.PublicKey(rawRepresentation: bytes), "the key has not signed the grant")
        guard try Self.text(payload, "iss") == server, try Self.text(key, "iss") == server else {
            throw ScenarioError("it names another server")
        }
        guard try Self.text(payload, "env") == "production" else { throw ScenarioError("it names another environment") }
        let (issued, expires) = (try Self.number(payload, "iat"), try Self.number(payload, "exp"))
        guard try Self.number(key, "iat") <= issued, issued < expires, expires <= (try Self.number(key, "exp")) else {
            throw ScenarioError("its times are not within those of its key")
        }
        return Content(
            account: try Self.text(payload, "sub"), device: try Self.text(payload, "dev"), issued: issued,
            expires: expires, keyID: try Self.text(header, "kid"),
            entitlements: Set(payload["entitlements"]?.members?.keys.map { $0 } ?? []))
    }

    /// The content of an access token, as far as it is checked. The times are in seconds since 1970 UTC.
    struct Claims {
        var issued: Int64
        var expires: Int64
        var keyID: String
    }

    /// Reads an access token without its signature.
    ///
    /// - Throws: ``ScenarioError`` with the check that failed.
    static func claims(of accessToken: String) throws -> Claims {
        let (header, payload) = try read(accessToken, type: "JWT")
        return Claims(
            issued: try number(payload, "iat"), expires: try number(payload, "exp"), keyID: try text(header, "kid"))
    }

    /// The pseudonym of an account.
    static func pseudonym(server: String, _ life: Life) -> String {
        digest("entitlement-grant+jwt\n\(server)\n\(life.incarnation)\n\(life.name)")
    }

    /// The SHA-256 digest of a text, in hexadecimal.
    static func digest(_ text: String) -> String { digest(Array(text.utf8)) }

    /// The SHA-256 digest of bytes, in hexadecimal.
    static func digest(_ bytes: [UInt8]) -> String {
        SHA256.hash(data: bytes).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private static func read(_ token: String, type: String) throws -> (header: JSON, payload: JSON) {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3 else { throw ScenarioError("it has \(parts.count) parts") }
        let (header, payload) = (try JSON(parsing: bytes(parts[0])), try JSON(parsing: bytes(parts[1])))
        guard try text(header, "alg") == "EdDSA", try text(header, "typ") == type, header["crit"] == nil else {
            throw ScenarioError("it is no statement of the type \(type)")
        }
        return (header, payload)
    }

    private static func verify(_ token: String, by key: Curve25519.Signing.PublicKey, _ failure: String) throws {
        let end = token.lastIndex(of: ".") ?? token.startIndex
        let signature = try bytes(String(token[token.index(after: end)...]))
        guard key.isValidSignature(signature, for: Array(token[..<end].utf8)) else { throw ScenarioError(failure) }
    }

    private static func text(_ object: JSON, _ member: String) throws -> String {
        guard let text = object[member]?.string else { throw ScenarioError("it lacks \(member)") }
        return text
    }

    private static func number(_ object: JSON, _ member: String) throws -> Int64 {
        guard case .number(let number)? = object[member] else { throw ScenarioError("it lacks \(member)") }
        return number
    }

    private static func bytes(_ text: String) throws -> [UInt8] {
        let padded = text.replacing("-", with: "+").replacing("_", with: "/")
        let padding = String(repeating: "=", count: (4 - padded.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: padded + padding) else { throw ScenarioError("it is not base64url") }
        return Array(data)
    }
}

extension ServiceAudit {
    /// Checks a grant: its signatures, its times, the account and the device that it names, and the access.
    func checkGrant(_ delivery: Delivery, _ body: JSON?) {
        guard let life = chain(of: delivery)?.life else { return }
        do {
            let check = GrantCheck(root: world.grantRoot.publicKey, server: ServiceWorld.address)
            let grant = try check.content(of: body?["grant"]?.string ?? "")
            guard grant.account == GrantCheck.pseudonym(server: ServiceWorld.address, life) else {
                throw ScenarioError("it names another account")
            }
            guard delivery.query.split(separator: "&").contains("device=\(grant.device)") else {
                throw ScenarioError("it names another device")
            }
            guard grant.expires - grant.issued == Int64(ServiceWorld.grantDays) * 86_400 else {
                throw ScenarioError("it is valid for \(grant.expires - grant.issued) s")
            }
            // The server signs by its own clock, in whole seconds. A clock may have been moved meanwhile.
            let offset = delivery.process.machine.clockOffset
            let earliest = world.scheduler.trueTime - (now - delivery.arrival) / 1_000 + offset - 1_000
            let latest = world.scheduler.trueTime + offset
            if offset == delivery.clockOffset, !(earliest...latest).contains(grant.issued * 1_000) {
                throw ScenarioError("it was issued at \(grant.issued), not at \(earliest) to \(latest)")
            }
            checkAccess(delivery, Set((0..<StoreDesk.saleCount).filter { grant.entitlements.contains("e\($0)") }))
        } catch {
            report(.grants, "\(describe(delivery)) of \(life.name) was answered with an invalid grant: \(error)")
        }
    }
}
