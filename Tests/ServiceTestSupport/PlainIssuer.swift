import Entitlements
package import SyncService

/// An issuer whose tokens anyone can make, for tests of the code above it. See ``Swift/String/external(_:_:issued:)``.
package struct PlainIssuer: TokenIssuer {
    /// The issuer's name.
    package let name: String

    package init(name: String = "https://login.example.com") { self.name = name }

    package func verify(_ token: WebToken, now: Int64) async throws(TokenRefusal) -> VerifiedToken {
        let (subject, expires, issued) = try token.claims { claims throws(InputError) in
            (
                try claims.required("sub").string(), try claims.required("exp").integer(),
                try claims["iat"]?.integer()
            )
        }
        guard expires * 1_000 > now else { throw TokenRefusal("expired", isExpired: true) }
        return .external(issuer: name, subject: subject, issuedAt: issued, expiresAt: expires)
    }
}

extension String {
    /// A token of ``PlainIssuer``. The expiry and the time of issue are in seconds since 1970 UTC.
    package static func external(_ subject: String, _ expires: Int64, issued: Int64? = nil) -> String {
        let claims = JSON.object(
            [("iss", .string(PlainIssuer().name)), ("sub", .string(subject)), ("exp", .number(expires))]
                + (issued.map { [("iat", .number($0))] } ?? []))
        let header = JSON.object([("alg", .string("none")), ("kid", .string("k"))])
        return [header, claims].map { Base64.url.encode(Array($0.line.utf8)) }.joined(separator: ".") + ".AA"
    }
}
