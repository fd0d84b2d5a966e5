import Entitlements
import HTTPTypes
import SyncCore
import Synchronization

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
    var (issuedAt, expiresAt): (Int64, Int64)
    var openings: [ContentOpening]
    /// The periods that contain the time of issue.
    var current: [ContentAccess.PaidPeriod]

    init(
        server: String, environment: EnvironmentID, subject: String, issuedAt: Int64, expiresAt: Int64,
        openings: [ContentOpening], current: [ContentAccess.PaidPeriod]
    ) {
        (self.server, self.subject, self.issuedAt, self.expiresAt) = (server, subject, issuedAt, expiresAt)
        self.environment = environment.rawValue
        (self.openings, self.current) = (openings, current)
    }

    /// The claims of the token.
    var json: JSON {
        .object([
            ("iss", .string(server)), ("aud", .string(Self.audience)), ("sub", .string(subject)),
            ("env", .string(environment)), ("iat", .number(issuedAt)), ("exp", .number(expiresAt)),
            ("paths", .array(openings.map(\.json))),
            ("periods", .array(current.map(\.json))),
        ])
    }

    /// Reads the claims of a token whose signature was verified.
    ///
    /// - Throws: ``TokenRefusal`` for other claims.
    init(_ token: WebToken) throws(TokenRefusal) {
        let audience: String
        (self, audience) = try token.claims { claims throws(InputError) in
            var pass = ContentPass(
                server: try claims.required("iss").string(), environment: .production,
                subject: try claims.required("sub").string(), issuedAt: try claims.required("iat").integer(),
                expiresAt: try claims.required("exp").integer(),
                openings: try claims.required("paths").array().map { (reader) throws(InputError) in
                    try ContentOpening(reader)
                }, current: [])
            pass.environment = try claims.required("env").string()
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
                try sets.array().map { (pair) throws(InputError) in
                    let ends = try pair.array()
                    guard ends.count == 2 else { throw pair.error("a range has two ends") }
                    let (first, last) = (try ends[0].integer(), try ends[1].integer())
                    guard first <= last else { throw pair.error("a range must ascend") }
                    return first...last
                })
        } else if let dates = members["dates"] {
            extent = .dates(
                try dates.array().map { (pair) throws(InputError) in
                    let ends = try pair.array()
                    guard ends.count == 2 else { throw pair.error("a range has two ends") }
                    let (first, last) = (try ends[0].timestamp(), try ends[1].timestamp())
                    guard first <= last else { throw pair.error("a range must ascend") }
                    return first..<last
                })
        } else {
            extent = .all(try members.required("open").bool())
        }
        self.init(path: try members.required("path").string(), extent: extent)
    }
}

/// The content sessions that this server has verified, so that the check of a path costs no signature.
///
/// A session is believed under the rule of ``FeedFreshness``, as access tokens are: if its key was removed from the
/// store, all servers refuse it within ``FeedFreshness/trust``.
final class ContentPasses: Sendable {
    /// A verified session.
    final class Known: Sendable {
        let pass: ContentPass
        /// The name of the key that signed it.
        let key: String

        init(_ pass: ContentPass, key: String) { (self.pass, self.key) = (pass, key) }
    }

    /// The largest number of sessions in the cache. They have at most 8,000 bytes each, and as much again when they are
    /// decoded.
    static let capacity = 8_192

    private let known = Mutex<[String: Known]>([:])

    /// The session of `token`, if it was verified before.
    subscript(token: String) -> Known? { known.withLock { $0[token] } }

    /// Keeps a verified session. Makes room by dropping those that have expired, or else a quarter.
    ///
    /// - Parameter now: The time, in seconds since 1970 UTC.
    func insert(_ pass: Known, for token: String, now: Int64) {
        known.withLock { known in
            if known.count >= Self.capacity { known = known.filter { $0.value.pass.expiresAt > now } }
            if known.count >= Self.capacity {
                for key in Array(known.keys.prefix(Self.capacity / 4)) { known[key] = nil }
            }
            known[token] = pass
        }
    }
}
