import SyncService

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A parsed JSON Web Token in compact form (RFC 7515, section 7.1). Its signature is not verified yet.
struct WebToken {
    /// The header members about the signature.
    struct Header: Decodable {
        var alg: String
        var kid: String?
        var typ: String?
        var crit: [String]?
    }

    /// The maximum length of a token. Tokens of large issuers have 2 to 4 KB.
    static let maximumByteCount = 16_384

    let header: Header
    /// The payload's JSON.
    let payload: [UInt8]
    /// The signed part: header and payload as they were encoded.
    let signedBytes: [UInt8]
    let signature: [UInt8]

    init(_ text: String) throws(TokenRefusal) {
        guard text.utf8.count <= Self.maximumByteCount else { throw TokenRefusal("it is longer than 16,384 bytes") }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = UnpaddedBase64.bytes(ofURLSafe: parts[0]),
            let payload = UnpaddedBase64.bytes(ofURLSafe: parts[1]),
            let signature = UnpaddedBase64.bytes(ofURLSafe: parts[2]), !signature.isEmpty
        else { throw TokenRefusal("it does not have three parts in base64url") }
        guard StrictJSON.isUnambiguous(header), StrictJSON.isUnambiguous(payload) else {
            throw TokenRefusal("its header or payload is not JSON or has a duplicate member")
        }
        guard let fields = try? JSONDecoder().decode(Header.self, from: Data(header)) else {
            throw TokenRefusal("its header is not that of a token")
        }
        // A token with an unsupported critical extension must be rejected (RFC 7515, section 4.1.11); none is
        // supported.
        guard fields.crit == nil else { throw TokenRefusal("its header has critical extensions") }
        self.header = fields
        self.payload = payload
        self.signature = signature
        signedBytes = Array(text.utf8.prefix(parts[0].utf8.count + 1 + parts[1].utf8.count))
    }

    /// Decodes the payload.
    func claims<Claims: Decodable>(_ type: Claims.Type) throws(TokenRefusal) -> Claims {
        guard let claims = try? JSONDecoder().decode(type, from: Data(payload)) else {
            throw TokenRefusal("its payload lacks a claim or has a claim of the wrong type")
        }
        return claims
    }
}

/// A date in a token: seconds since 1970 UTC, possibly with a fraction, which is dropped (RFC 7519, section 2).
struct NumericDate: Decodable {
    let seconds: Int64

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let whole = try? container.decode(Int64.self) {
            seconds = whole
            return
        }
        let value = try container.decode(Double.self).rounded(.down)
        guard let whole = Int64(exactly: value) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a date")
        }
        seconds = whole
    }
}

/// The audience of a token: one name or an array of names (RFC 7519, section 4.1.3).
struct Audience: Decodable {
    let names: [String]

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let name = try? container.decode(String.self) {
            names = [name]
        } else {
            names = try container.decode([String].self)
        }
    }
}

/// Checks the dates of a token.
enum TokenDates {
    /// The allowed difference between the clocks of two servers, in seconds.
    static let leeway: Int64 = 60

    /// - Parameter now: the current time, in milliseconds since 1970 UTC. The others are in seconds.
    /// - Throws: ``TokenRefusal`` if the token has expired or is not valid yet.
    static func check(
        expiresAt: Int64, issuedAt: Int64?, notBefore: Int64?, now: Int64
    ) throws(TokenRefusal) {
        let seconds = now >= 0 ? now / 1_000 : (now - 999) / 1_000
        guard seconds < expiresAt else { throw TokenRefusal("it has expired", isExpired: true) }
        for start in [issuedAt, notBefore].compactMap(\.self) where start > seconds + leeway {
            throw TokenRefusal("it is not valid yet")
        }
    }
}
