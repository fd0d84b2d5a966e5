import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore
import SyncProtocol
import Synchronization

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
    /// The field with the target of the original request, as the web server passes it on.
    static let original = HTTPField.Name("X-Original-URI")
}

extension EntitlementService {
    /// The response to `POST /v1/content-sessions` with the token of an account.
    func contentSession(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        guard let catalog = configuration.catalog, !catalog.content.isEmpty else { throw Self.noContent }
        guard !caller.isErased else { throw RequestError(.gone, "the account was erased") }
        let account = caller.account
        // Without the policy in the server ledger, statements of clients would count.
        try await ledgerRules(of: caller).checkPolicy()
        let entries = try await store.ledgerEntries(caller.keys)
        try limiter.takeReads(
            entries.byteCount >> RequestLimiter.replayShift, account: account.name ?? "", now: host.now())
        let instant = Timestamp(milliseconds: host.now())
        let environment = configuration.contentEnvironment
        let access = try await withTaskExecutorPreference(LongWork.executor) {
            let ledger = try entries.ledger.map { try LedgerRules.stored($0, caller.keys.ledger) } ?? Ledger()
            guard !ledger.isErased else { throw RequestError(.gone, "the account was erased") }
            let serverLedger =
                try entries.serverLedger.map { try LedgerRules.stored($0, caller.keys.serverLedger) } ?? Ledger()
            let replay = Replay(
                Facts(account: ledger, server: serverLedger), catalog: catalog, environment: environment)
            return ContentAccess(replay, at: instant, isComplete: true)
        }
        return try await contentSession(access, "account\n\(account.incarnation)\n\(account.name ?? "")", at: instant)
    }

    /// The response to `POST /v1/content-sessions` without a token: the body has evidence of the App Store.
    ///
    /// Only a receipt lists all purchases. With signed transactions alone, rules by period open nothing.
    func contentSessionByEvidence(_ call: Call) async throws -> ServiceResponse {
        guard let catalog = configuration.catalog, !catalog.content.isEmpty else { throw Self.noContent }
        guard let verifier = configuration.evidence.appStore else {
            throw RequestError(.unauthorized, "this server accepts no evidence here: log in, and send an access token")
        }
        try limiter.checkEvidence(of: call.peer, now: host.now())
        let texts = try Self.evidence(in: call.request)
        let instant = Timestamp(milliseconds: host.now())
        let evidence = try texts.map { (text) throws(RequestError) in
            do throws(EvidenceError) {
                // A JWS has points, which base64 has not.
                guard let bytes = Data(base64Encoded: text) else { return try verifier.transaction(text, now: instant) }
                return try verifier.receipt(Array(bytes), now: instant, deviceID: nil)
            } catch {
                if !error.isTransient { limiter.countRefusedEvidence(of: call.peer, now: host.now()) }
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
        let lines = Set(facts.compactMap(\.purchase?.line)).filter {
            $0.environment == configuration.contentEnvironment
        }.sorted()
        guard let line = lines.first else {
            throw RequestError(
                .unprocessableContent,
                "the evidence has no purchase of the environment \(configuration.contentEnvironment)")
        }
        for line in lines { try limiter.admit(line: "\(line)", now: host.now()) }
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
    ) async throws -> ServiceResponse {
        let last = instant.milliseconds + ContentSessions.lifetime
        let issuedAt = instant.milliseconds / 1_000
        let expiresAt = min(last, access.nextBoundary?.milliseconds ?? last) / 1_000
        guard expiresAt > issuedAt else {
            throw RequestError(
                .serviceUnavailable, "the access changes within this second; try again", retryAfter: 1)
        }
        let pass = ContentPass(
            server: configuration.name, environment: configuration.contentEnvironment.rawValue,
            subject: authenticationCode(of: Array("\(ContentPass.type)\n\(subject)".utf8), key: keys.secret)
                .hexadecimal,
            issuedAt: issuedAt, expiresAt: expiresAt, openings: access.openings, current: access.current(at: instant))
        let token = try await keys.signingKey().signer().sign(pass.json, type: ContentPass.type)
        guard token.utf8.count <= ContentPass.maximumByteCount else {
            throw BackendError(
                .full, message: "the content rules need a session of more than \(ContentPass.maximumByteCount) bytes")
        }
        let expires = Timestamp(milliseconds: expiresAt * 1_000)
        var answer = ServiceResponse.json(
            [
                ("session", .string(token)), ("expires", .string("\(expires)")),
                ("current", pass.current.first?.json ?? .null), ("periods", .array(access.periods.map(\.json))),
            ], status: .created)
        guard token.utf8.count <= ContentPass.cookieByteCount else { return answer }
        answer.head.headerFields[.setCookie] =
            "\(ContentSessions.cookie)=\(token); Max-Age=\(expiresAt - issuedAt); Path=/; HttpOnly; Secure; "
            + "SameSite=Lax"
        return answer
    }

    private static let noContent = RequestError(
        .notFound, "this server gates no content: its catalogue has no content rules")

    private static func evidence(in request: ServiceRequest) throws(RequestError) -> [String] {
        try request.head.headerFields.checkJSON()
        let value: JSON
        do throws(InputError) { value = try JSON(parsing: request.body) } catch {
            throw RequestError(.badRequest, "the body must be a JSON object: \(error)")
        }
        guard let elements = value["evidence"]?.elements,
            ContentSessions.evidenceCounts.contains(elements.count)
        else {
            throw RequestError(
                .unauthorized,
                "send an access token, or a JSON object with the array \"evidence\" of 1 to 32 texts")
        }
        return try elements.map { (element) throws(RequestError) in
            guard let text = element.string else {
                throw RequestError(
                    .badRequest,
                    "a piece of evidence must be a text: a JWS or a receipt. Purchases of Google Play need an account")
            }
            return text
        }
    }
}

extension EntitlementService {
    /// The public keys of this server, a JSON Web Key Set (RFC 7517, RFC 8037).
    func keySet(_ call: Call) async throws -> ServiceResponse {
        try await keys.refresh()
        let rows = keys.keys.map { key in
            JSON.object([
                ("kty", .string("OKP")), ("crv", .string("Ed25519")), ("alg", .string("EdDSA")),
                ("use", .string("sig")),
                ("kid", .string(key.id)), ("x", .string(key.publicText)),
            ])
        }
        var answer = ServiceResponse.json([("keys", .array(rows))])
        answer.head.headerFields[.cacheControl] = "public, max-age=300"
        return answer
    }
}

// Checks.
extension EntitlementService {
    /// The response to `GET /v1/content-check`: 204, 401 or 403.
    func contentCheck(_ call: Call) async throws -> ServiceResponse {
        let head = call.request.head
        guard let token = Self.contentToken(of: head) else { return Self.contentRefusal(.unauthorized, Self.noToken) }
        let now = host.now() / 1_000
        try await keys.refresh()
        if let known = current(token) {
            try limiter.takeReads(1, account: known.pass.subject, now: host.now())
            return try Self.contentVerdict(known.pass, head)
        }
        let pass: ContentPass
        do throws(TokenRefusal) {
            let parsed = try WebToken(token)
            let key = try parsed.verify(as: ContentPass.type, by: keys.keys)
            pass = try ContentPass(parsed)
            guard pass.server == configuration.name, now < pass.expiresAt,
                pass.environment == configuration.contentEnvironment.rawValue
            else {
                throw TokenRefusal("it has expired, or is from another server", isExpired: true)
            }
            let known = VerifiedContentPass(pass, key: key)
            contentPasses.withLock { $0.insert(known, under: token, weight: 1) }
        } catch {
            // A verification costs more than a known session, so a client may not cause many for nothing.
            if !error.isExpired { try limiter.admit(stranger: call.peer, .other, now: host.now()) }
            return Self.contentRefusal(
                .unauthorized, "the content session is invalid or has expired: ask for a new one")
        }
        return try Self.contentVerdict(pass, head)
    }

    /// The response to a check with a session that this server knows, on the caller's thread; `nil` for another
    /// request.
    func fastContentCheck(
        _ head: HTTPRequest, _ target: RequestTarget, _ peer: String, _ longest: Int
    ) -> ServiceResponse? {
        guard freshness.isFresh, let token = Self.contentToken(of: head), let known = current(token),
            let response = try? Self.contentVerdict(known.pass, head),
            limiter.admitsRead(peer, account: known.pass.subject, now: host.now())
        else { return nil }
        return response
    }

    /// The session of `token`, if it is known and has neither expired nor lost its key.
    private func current(_ token: String) -> VerifiedContentPass? {
        guard let known = contentPasses.withLock({ $0.value(of: token) }), host.now() / 1_000 < known.pass.expiresAt,
            keys.contains(known.key)
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

    private static func contentVerdict(_ pass: ContentPass, _ head: HTTPRequest) throws(RequestError) -> ServiceResponse
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

    private static func contentRefusal(_ status: HTTPResponse.Status, _ detail: String) -> ServiceResponse {
        var answer = ServiceResponse.refusal(status, detail)
        if status == .unauthorized { answer.head.headerFields[.wwwAuthenticate] = "Bearer" }
        return answer
    }
}
