import Entitlements
import HTTPTypes
import SyncCore

/// The statement of a content session: the paths that its bearer may fetch.
struct ContentPass: Hashable, Sendable {
    /// The `typ` of its token.
    static let type = "entitlement-content+jwt"
    /// The audience of its token.
    static let audience = "content"
    /// The longest token, in bytes. With it a header field fits into the usual 8 KiB.
    static let maximumByteCount = 8_000
    /// The longest token in a cookie, in bytes. Browsers keep cookies of at most 4,096 bytes with their attributes.
    static let cookieByteCount = 3_800

    /// The server's name.
    var server: String
    /// The environment of the purchases that count.
    var environment: String
    /// A pseudonym of the account, or of the purchase that was presented.
    var subject: String
    /// The time of issue and the expiry, in seconds since 1970 UTC.
    var issuedAt: Int64
    var expiresAt: Int64
    var openings: [ContentOpening]
    /// The periods that contain the time of issue.
    var current: [ContentAccess.PaidPeriod]

    /// The claims of the token.
    var json: JSON {
        .object([
            ("iss", .string(server)), ("aud", .string(Self.audience)), ("sub", .string(subject)),
            ("env", .string(environment)), ("iat", .number(issuedAt)), ("exp", .number(expiresAt)),
            ("paths", .array(openings.map(\.json))),
            ("periods", .array(current.map(\.json))),
        ])
    }
}

extension ContentPass {
    /// Reads the claims of a token whose signature was verified.
    ///
    /// - Throws: ``TokenRefusal`` for other claims.
    init(_ token: WebToken) throws(TokenRefusal) {
        let audience: String
        (self, audience) = try token.claims { claims throws(InputError) in
            let pass = ContentPass(
                server: try claims.required("iss").string(), environment: try claims.required("env").string(),
                subject: try claims.required("sub").string(), issuedAt: try claims.required("iat").integer(),
                expiresAt: try claims.required("exp").integer(),
                openings: try claims.required("paths").array().map { (reader) throws(InputError) in
                    try ContentOpening(reader)
                }, current: [])
            return (pass, try claims.required("aud").string())
        }
        guard audience == Self.audience else { throw TokenRefusal("its audience is not \(Self.audience)") }
    }
}

extension ContentAccess.PaidPeriod {
    /// The object in answers and tokens.
    var json: JSON {
        .object([
            ("group", .string(group.rawValue)), ("index", .number(index)), ("level", .number(level)),
            ("start", .string("\(start)")), ("end", JSON(end.asEnd?.description)),
        ])
    }
}

extension ContentOpening {
    fileprivate var json: JSON {
        let part: (String, JSON) =
            switch extent {
            case .all(let isOpen): ("open", .bool(isOpen))
            case .sets(let ranges):
                ("sets", .array(ranges.map { .array([.number($0.lowerBound), .number($0.upperBound)]) }))
            case .dates(let ranges):
                ("dates", .array(ranges.map { .array([.string("\($0.lowerBound)"), .string("\($0.upperBound)")]) }))
            }
        return .object([("path", .string(path)), part])
    }

    fileprivate init(_ reader: JSONReader) throws(InputError) {
        let members = try reader.object()
        let extent: Extent
        if let sets = members["sets"] {
            extent = .sets(
                try sets.ranges { (end) throws(InputError) in try end.integer() }.map { $0.first...$0.last })
        } else if let dates = members["dates"] {
            extent = .dates(
                try dates.ranges { (end) throws(InputError) in try end.timestamp() }.map { $0.first..<$0.last })
        } else {
            extent = .all(try members.required("open").bool())
        }
        self.init(path: try members.required("path").string(), extent: extent)
    }
}

extension JSONReader {
    /// The ends of ranges: an array of pairs in ascending order.
    fileprivate func ranges<End: Comparable>(
        _ read: (JSONReader) throws(InputError) -> End
    ) throws(InputError) -> [(first: End, last: End)] {
        try array().map { (pair) throws(InputError) in
            let ends = try pair.array()
            guard ends.count == 2 else { throw pair.error("a range has two ends") }
            let (first, last) = (try read(ends[0]), try read(ends[1]))
            guard first <= last else { throw pair.error("a range must ascend") }
            return (first, last)
        }
    }
}

/// A content session that this server has verified, so that the check of a path costs no signature.
///
/// A session is believed under the rule of ``FeedFreshness``, as access tokens are: if its key was removed from the
/// store, all servers refuse it within ``FeedFreshness/trust``.
final class VerifiedContentPass: Sendable {
    /// The largest number of sessions in the cache, of which the 8,192 used last are sure to stay. They have at most
    /// 8,000 bytes each, and as much again when they are decoded.
    static let capacity = 2 * 8_192

    let pass: ContentPass
    /// The name of the key that signed it.
    let key: String

    init(_ pass: ContentPass, key: String) { (self.pass, self.key) = (pass, key) }
}
