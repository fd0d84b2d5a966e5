import Crypto
package import Entitlements

/// A parsed JSON Web Token in compact form (RFC 7515, section 7.1). Its signature is not verified yet.
package struct WebToken: Sendable {
    /// The maximum length of a token. Tokens of large issuers have 2 to 4 KB.
    private static let maximumByteCount = 16_384

    /// The algorithm that the header names.
    package let algorithm: String
    /// The key that the header names.
    package let key: String?
    /// The type that the header names.
    package let type: String?
    /// The signed part: header and payload as they were encoded.
    package let signedBytes: [UInt8]
    /// The signature.
    package let signature: [UInt8]
    private let payload: JSON

    /// Parses a token.
    package init(_ text: String) throws(TokenRefusal) {
        guard text.utf8.count <= Self.maximumByteCount else { throw TokenRefusal("it is longer than 16,384 bytes") }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(\.utf8)
        guard parts.count == 3, let header = Base64.url.decode(parts[0]), let payload = Base64.url.decode(parts[1]),
            let signature = Base64.url.decode(parts[2]), !signature.isEmpty
        else { throw TokenRefusal("it does not have three parts in base64url") }
        guard let header = try? JSON(parsing: header), let payload = try? JSON(parsing: payload) else {
            throw TokenRefusal("its header or payload is not JSON or has a duplicate member")
        }
        (self.payload, self.signature) = (payload, signature)
        signedBytes = Array(text.utf8.prefix(parts[0].count + 1 + parts[1].count))
        do throws(InputError) {
            let members = try JSONReader(header).object()
            algorithm = try members.required("alg").string()
            key = try members["kid"]?.string()
            type = try members["typ"]?.string()
            // A token with an unsupported critical extension must be rejected (RFC 7515, section 4.1.11); none is
            // supported.
            if let extensions = members["crit"] { throw extensions.error("critical extensions") }
        } catch {
            throw TokenRefusal("its header is not that of a token")
        }
    }

    /// Reads claims of the payload.
    package func claims<Claims>(
        _ read: (JSONObjectReader) throws(InputError) -> Claims
    ) throws(TokenRefusal) -> Claims {
        do throws(InputError) { return try read(try JSONReader(payload).object()) } catch {
            throw TokenRefusal("its payload lacks a claim or has a claim of the wrong type")
        }
    }

    /// Verifies a signature of this type by one of `keys`.
    ///
    /// - Returns: The name of the key.
    func verify(as type: String, by keys: [SigningKey]) throws(TokenRefusal) -> String {
        guard algorithm == SigningKey.algorithm else { throw TokenRefusal("its algorithm is not EdDSA") }
        guard self.type == type else { throw TokenRefusal("its type is not \(type)") }
        guard let key = keys.first(where: { $0.id == key }) else {
            throw TokenRefusal("this server does not have the key that it names", isKeyUnknown: true)
        }
        guard key.key.publicKey.isValidSignature(signature, for: signedBytes) else {
            throw TokenRefusal("its signature is wrong")
        }
        return key.id
    }

    /// Checks the dates of a token.
    ///
    /// - Parameters:
    ///   - leeway: The allowed difference between the clocks of the issuer and this server, in seconds.
    ///   - now: The current time, in milliseconds since 1970 UTC. The others are in seconds.
    /// - Throws: ``TokenRefusal`` if the token has expired or is not valid yet.
    package static func checkDates(
        expiresAt: Int64, notBefore starts: Int64?..., leeway: Int64 = 60, now: Int64
    ) throws(TokenRefusal) {
        let seconds = now >= 0 ? now / 1_000 : (now - 999) / 1_000
        guard seconds < expiresAt else { throw TokenRefusal("it has expired", isExpired: true) }
        for start in starts.compactMap(\.self) where start > seconds + leeway {
            throw TokenRefusal("it is not valid yet")
        }
    }
}

extension JSONReader {
    /// The date of a claim: seconds since 1970 UTC, possibly with a fraction, which is dropped (RFC 7519, section 2).
    package func seconds() throws(InputError) -> Int64 {
        guard case .decimal(let text) = value, let seconds = Double(text).flatMap({ Int64(exactly: $0.rounded(.down)) })
        else { return try integer() }
        return seconds
    }
}
