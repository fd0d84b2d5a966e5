import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore
import SyncProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Creates content sessions, and checks paths against them.
enum ContentSessions {
    /// The longest life of a session, in milliseconds.
    static let lifetime: Int64 = 600_000
    /// The largest age of the signature of evidence, in milliseconds.
    static let evidenceAge: Int64 = 3_600_000
    /// The number of pieces of evidence in one request.
    static let evidenceCounts = 1...32
    /// The name of the cookie. Browsers accept a name with this prefix only from the host itself, over TLS and for all
    /// paths.
    static let cookie = "__Host-content"
    /// The sessions that one line of purchases gets without an account: 300 at once, and 300 a day after that.
    static let lineRate = Rate(perSecond: 300.0 / 86_400, burst: 300)
    /// The field in which a web server passes on the target of the request that it asks about.
    static let original = HTTPField.Name("X-Original-URI")
}

extension EntitlementService {
    /// The answer to `POST /v1/content-sessions` with the token of an account.
    func contentSession(of caller: AccountCaller) async throws -> TransportAnswer {
        guard let catalog = configuration.catalog, !catalog.content.isEmpty else { throw Self.noContent }
        guard !caller.isErased else { throw RequestError(.gone, "the account was erased") }
        let account = caller.account
        let entries = try await ledgerEntries(of: caller)
        let cost = entries.reduce(0) { $0 + ($1?.value.count ?? 0) }
        try limiter.takeReads(cost >> RequestLimiter.replayShift, account: account.name ?? "", now: host.now())
        let instant = Timestamp(milliseconds: host.now())
        let environment = configuration.contentEnvironment
        let access = try await withTaskExecutorPreference(globalConcurrentExecutor) {
            let ledger = try entries[0].map { try LedgerRules.stored($0, caller.keys.ledger) } ?? Ledger()
            guard !ledger.isErased else { throw RequestError(.gone, "the account was erased") }
            let decisions = try entries[1].map { try LedgerRules.stored($0, caller.keys.decisions) } ?? Ledger()
            let replay = Replay(
                Facts(account: ledger, server: decisions), catalog: catalog, environment: environment)
            return ContentAccess(replay, at: instant, isComplete: true)
        }
        return try await contentSession(access, "account\n\(account.incarnation)\n\(account.name ?? "")", at: instant)
    }

    /// The answer to `POST /v1/content-sessions` without a token: the body has evidence of the App Store.
    ///
    /// Only a receipt lists all purchases. With signed transactions alone, rules by period open nothing.
    func contentSession(presenting request: ServiceRequest) async throws -> TransportAnswer {
        guard let catalog = configuration.catalog, !catalog.content.isEmpty else { throw Self.noContent }
        guard let verifier = configuration.evidence.appStore else {
            throw RequestError(.unauthorized, "this server accepts no evidence here: log in, and send an access token")
        }
        try failures.check(request.peer, now: host.now())
        let texts = try Self.evidence(in: request)
        let instant = Timestamp(milliseconds: host.now())
        let evidence = try texts.map { (text) throws(RequestError) in
            do throws(EvidenceError) {
                // A JWS has points, which base64 has not.
                guard let bytes = Data(base64Encoded: text) else { return try verifier.transaction(text, now: instant) }
                return try verifier.receipt(Array(bytes), now: instant, deviceID: nil)
            } catch {
                if !error.isTransient { failures.fail(request.peer, now: host.now()) }
                throw RequestError(.unprocessableContent, "the evidence is refused: \(error)")
            }
        }
        for piece in evidence {
            let age = piece.signedDate.map { instant.milliseconds - $0.milliseconds } ?? .max
            guard age <= ContentSessions.evidenceAge else {
                throw RequestError(
                    .unprocessableContent, "the evidence was signed more than an hour ago: refresh it, or log in")
            }
        }
        let facts = evidence.flatMap(\.facts)
        let lines = Set(facts.compactMap(\.contentLine)).filter {
            $0.environment == configuration.contentEnvironment
        }.sorted()
        guard let line = lines.first else {
            throw RequestError(
                .unprocessableContent,
                "the evidence has no purchase of the environment \(configuration.contentEnvironment)")
        }
        for line in lines { try contentLines.admit("\(line)", now: host.now()) }
        // Anything beside a receipt could shift the numbers of its periods.
        let isComplete = evidence.count == 1 && evidence[0].kind == .appStoreReceipt
        var server = ServerLedger()
        _ = server.set(.verified, at: instant)
        _ = server.add(facts, catalog: catalog, at: instant)
        let replay = Replay(
            Facts(account: Ledger(), server: server.ledger), catalog: catalog,
            environment: configuration.contentEnvironment)
        let access = ContentAccess(replay, at: instant, isComplete: isComplete)
        return try await contentSession(access, "line\n\(line)", at: instant)
    }

    private func contentSession(
        _ access: ContentAccess, _ subject: String, at instant: Timestamp
    ) async throws -> TransportAnswer {
        let last = instant.milliseconds + ContentSessions.lifetime
        let issuedAt = instant.milliseconds / 1_000
        let expiresAt = min(last, access.nextBoundary?.milliseconds ?? last) / 1_000
        guard expiresAt > issuedAt else {
            throw RequestError(
                .serviceUnavailable, "the access changes within this second; try again", retryAfter: 1)
        }
        let pass = ContentPass(
            server: configuration.name, environment: configuration.contentEnvironment,
            subject: Hexadecimal.text(
                accounts.cryptography.authenticationCode(
                    of: Array("\(ContentPass.type)\n\(subject)".utf8), key: keys.secret)),
            issuedAt: issuedAt, expiresAt: expiresAt, openings: access.openings, current: access.current(at: instant))
        let token = try accounts.cryptography.sign(
            Array(pass.json.line.utf8), type: ContentPass.type, with: try await keys.signingKey())
        guard token.utf8.count <= ContentPass.maximumByteCount else {
            throw BackendError(
                .full, message: "the content rules need a session of more than \(ContentPass.maximumByteCount) bytes")
        }
        let expires = Timestamp(milliseconds: expiresAt * 1_000)
        var answer = try TransportAnswer.json(.created) {
            json([
                ("session", .string(token)), ("expires", .string("\(expires)")),
                ("current", pass.current.first?.json ?? .null), ("periods", .array(access.periods.map(\.json))),
            ])
        }
        guard token.utf8.count <= ContentPass.cookieByteCount else { return answer }
        answer.response.headerFields[.setCookie] =
            "\(ContentSessions.cookie)=\(token); Max-Age=\(expiresAt - issuedAt); Path=/; HttpOnly; Secure; "
            + "SameSite=Lax"
        return answer
    }

    /// The account's ledger and decisions.
    private func ledgerEntries(of caller: AccountCaller) async throws -> [Entry?] {
        // Without the policy in the server ledger, statements of clients would count.
        try await ledgerRules(of: caller).checkPolicy()
        let results = try await store.read([ReadRequest(caller.keys.ledger), ReadRequest(caller.keys.decisions)])
            .outcome
        guard results.count == 2 else { throw LedgerRules.incomplete }
        return try results.map { if case .found(let entry) = try $0.get() { entry } else { nil } }
    }

    private static let noContent = RequestError(
        .notFound, "this server gates no content: its catalogue has no content rules")

    private static func evidence(in request: ServiceRequest) throws(RequestError) -> [String] {
        guard request.head.headerFields.mediaType == "application/json" else {
            throw RequestError(.unsupportedMediaType, "the body must be application/json")
        }
        let value: JSONValue
        do throws(JSONSyntaxError) { value = try JSONValue(parsing: request.body) } catch {
            throw RequestError(.badRequest, "the body must be a JSON object: \(error)")
        }
        guard case .object(let members) = value, case .array(let elements) = members["evidence"],
            ContentSessions.evidenceCounts.contains(elements.count)
        else {
            throw RequestError(
                .unauthorized,
                "send an access token, or a JSON object with the array \"evidence\" of 1 to 32 texts")
        }
        return try elements.map { (element) throws(RequestError) in
            guard case .string(let text) = element else {
                throw RequestError(
                    .badRequest,
                    "a piece of evidence must be a text: a JWS or a receipt. Purchases of Google Play need an account")
            }
            return text
        }
    }
}

extension EntitlementService {
    /// The path of the public keys, which is outside of `/v1`.
    package static let keySetPath = WireTarget.keySetPath

    /// The public keys of this server, a JSON Web Key Set (RFC 7517, RFC 8037).
    func keySet() async throws -> TransportAnswer {
        try await keys.refresh()
        let cryptography = accounts.cryptography
        let rows = try keys.keys.map { key in
            JSON.object([
                ("kty", .string("OKP")), ("crv", .string("Ed25519")), ("alg", .string("EdDSA")),
                ("use", .string("sig")),
                ("kid", .string(key.id)), ("x", .string(Self.base64url(try cryptography.publicKey(of: key)))),
            ])
        }
        var answer = try TransportAnswer.json { json([("keys", .array(rows))]) }
        answer.response.headerFields[.cacheControl] = "public, max-age=300"
        return answer
    }

    private static func base64url(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}

// Checks.
extension EntitlementService {
    /// The answer to `GET /v1/content-check`: 204, 401 or 403.
    func contentCheck(_ head: HTTPRequest, peer: String) async throws -> TransportAnswer {
        guard let token = Self.contentToken(of: head) else { return Self.contentRefusal(.unauthorized, Self.noToken) }
        let now = host.now() / 1_000
        try await keys.refresh()
        if let known = current(token) {
            try limiter.takeReads(1, account: known.pass.subject, now: host.now())
            return try Self.contentVerdict(known.pass, head)
        }
        let pass: ContentPass
        do throws(TokenRefusal) {
            let (payload, key) = try accounts.cryptography.verify(token, type: ContentPass.type, keys: keys.keys)
            pass = try ContentPass(payload)
            guard pass.server == configuration.name, now < pass.expiresAt,
                pass.environment == configuration.contentEnvironment.rawValue
            else {
                throw TokenRefusal("it has expired, or is from another server", isExpired: true)
            }
            contentPasses.insert(ContentPasses.Known(pass, key: key), for: token, now: now)
        } catch {
            // A verification costs more than a known session, so a client may not cause many for nothing.
            if !error.isExpired { try limiter.admit(stranger: peer, .other, now: host.now()) }
            return Self.contentRefusal(
                .unauthorized, "the content session is invalid or has expired: ask for a new one")
        }
        return try Self.contentVerdict(pass, head)
    }

    /// The answer to a check with a session that this server knows, on the caller's thread; `nil` for another request.
    func fastContentCheck(_ head: HTTPRequest, peer: String) -> ServiceAnswer? {
        let now = host.now()
        guard freshness.isFresh, let token = Self.contentToken(of: head), let known = current(token),
            let answer = try? Self.contentVerdict(known.pass, head),
            limiter.admitsRead(peer, account: known.pass.subject, now: now)
        else { return nil }
        var whole = ServiceAnswer(answer, route: WireTarget.Place.contentCheck.route)
        note(head, in: &whole.response.headerFields)
        return whole
    }

    /// The session of `token`, if it is known and has neither expired nor lost its key.
    private func current(_ token: String) -> ContentPasses.Known? {
        guard let known = contentPasses[token], host.now() / 1_000 < known.pass.expiresAt, keys.contains(known.key)
        else { return nil }
        return known
    }

    private static let noToken = "the request needs a content session: POST /v1/content-sessions"

    /// The token in the `Authorization` field, or else in the cookie.
    private static func contentToken(of head: HTTPRequest) -> String? {
        // Other credentials, such as those of a proxy, leave the cookie to decide.
        if let field = head.headerFields.value(of: .authorization), field.prefix(7).lowercased() == "bearer " {
            return String(field.dropFirst(7))
        }
        let prefix = ContentSessions.cookie + "="
        for field in head.headerFields[values: .cookie] {
            for part in field.split(separator: ";") {
                let pair = part.drop { $0 == " " }
                if pair.hasPrefix(prefix) { return String(pair.dropFirst(prefix.count)) }
            }
        }
        return nil
    }

    private static func contentVerdict(_ pass: ContentPass, _ head: HTTPRequest) throws(RequestError) -> TransportAnswer
    {
        guard let name = ContentSessions.original, head.headerFields[values: name].count == 1,
            let target = head.headerFields[name]
        else {
            throw RequestError(
                .badRequest, "the web server must pass on the target of the request once, as X-Original-URI")
        }
        guard let path = ContentPath(target: target) else {
            return contentRefusal(
                .forbidden,
                "the path is ambiguous: it must have no empty, \".\" or \"..\" segments, also before a \";\", or "
                    + "encoded slashes")
        }
        guard ContentOpening.open(path, in: pass.openings) else {
            return contentRefusal(.forbidden, "no purchase opens this path")
        }
        return .done
    }

    private static func contentRefusal(_ status: HTTPResponse.Status, _ detail: String) -> TransportAnswer {
        var answer = TransportAnswer.refusal(status, detail)
        if status == .unauthorized { answer.response.headerFields[.wwwAuthenticate] = "Bearer" }
        return answer
    }
}

extension Fact {
    /// The line of a purchase.
    fileprivate var contentLine: TransactionReference? {
        if case .purchase(let purchase) = self { purchase.line } else { nil }
    }
}
