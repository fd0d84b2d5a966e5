import SyncService

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A JSON Web Token in three parts (RFC 7515, section 7.1), read strictly and not yet believed.
struct WebToken {
    /// What its header says of the signature.
    struct Header: Decodable {
        var alg: String
        var kid: String?
        var typ: String?
        var crit: [String]?
    }

    /// The longest token that anybody looks at. Those of large issuers have 2 to 4 KB.
    static let maximumByteCount = 16_384

    let header: Header
    /// The payload's JSON.
    let payload: [UInt8]
    /// What the signature is of.
    let signedBytes: [UInt8]
    let signature: [UInt8]

    init(_ text: String) throws(TokenRefusal) {
        guard text.utf8.count <= Self.maximumByteCount else { throw TokenRefusal("it is too long") }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = UnpaddedBase64.bytes(ofURLSafe: parts[0]),
            let payload = UnpaddedBase64.bytes(ofURLSafe: parts[1]),
            let signature = UnpaddedBase64.bytes(ofURLSafe: parts[2]), !signature.isEmpty
        else { throw TokenRefusal("it is not three parts in base64url") }
        guard StrictJSON.isUnambiguous(header), StrictJSON.isUnambiguous(payload) else {
            throw TokenRefusal("its header or payload is not JSON, or has a member twice")
        }
        guard let fields = try? JSONDecoder().decode(Header.self, from: Data(header)) else {
            throw TokenRefusal("its header is no JSON of a token")
        }
        // Extensions that must be understood; none is understood here (RFC 7515, section 4.1.11).
        guard fields.crit == nil else { throw TokenRefusal("its header has critical extensions") }
        self.header = fields
        self.payload = payload
        self.signature = signature
        signedBytes = Array(text.utf8.prefix(parts[0].utf8.count + 1 + parts[1].utf8.count))
    }

    /// What the payload says, as `Claims`.
    func claims<Claims: Decodable>(_ type: Claims.Type) throws(TokenRefusal) -> Claims {
        guard let claims = try? JSONDecoder().decode(type, from: Data(payload)) else {
            throw TokenRefusal("its payload is not that of such a token")
        }
        return claims
    }
}

/// A date in a token: seconds since 1970 UTC, perhaps with a fraction (RFC 7519, section 2).
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
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "no date")
        }
        seconds = whole
    }
}

/// Whom a token is for: one or several (RFC 7519, section 4.1.3).
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

/// The dates of a token, compared with now.
enum TokenDates {
    /// How far clocks of two servers may be apart, in seconds.
    static let leeway: Int64 = 60

    /// - Parameter now: in milliseconds since 1970 UTC.
    static func check(
        expiresAt: Int64, issuedAt: Int64?, notBefore: Int64?, now: Int64
    ) throws(TokenRefusal) {
        let seconds = now >= 0 ? now / 1_000 : (now - 999) / 1_000
        guard seconds < expiresAt else { throw TokenRefusal("it has expired", isExpired: true) }
        for start in [issuedAt, notBefore].compactMap(\.self) where start > seconds + leeway {
            throw TokenRefusal("it is from the future")
        }
    }
}
