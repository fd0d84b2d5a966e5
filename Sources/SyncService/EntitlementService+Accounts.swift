import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

extension WireTarget.Place {
    /// Returns `true` if a request needs no access token.
    func isOpen(to request: HTTPRequest) -> Bool {
        switch self {
        case .devices, .catalog, .notifications, .contentCheck, .keySet: true
        case .accounts, .sessions: request.method == .post
        case .contentSessions: !request.headerFields.contains(.authorization)
        default: false
        }
    }
}

extension EntitlementService {
    func respondUnauthenticated(_ target: WireTarget, _ request: ServiceRequest) async throws -> TransportAnswer {
        switch target.place {
        case .accounts: return try await makeAccount(request)
        case .sessions: return try await makeSession(request)
        case .devices:
            let codes = try await devices.begin(for: request.peer)
            let page = configuration.approvalPage
            return try .json {
                json([
                    ("device_code", .string(codes.device)), ("user_code", .string(codes.user)),
                    ("verification_uri", .string(page)),
                    ("verification_uri_complete", .string(page + "?user_code=" + codes.user)),
                    ("expires_in", .number(DeviceGrants.lifetime / 1_000)),
                    ("interval", .number(DeviceGrants.interval / 1_000)),
                ])
            }
        case .notifications(let store): return try await notification(of: store, request)
        case .contentSessions: return try await contentSession(presenting: request)
        case .contentCheck: return try await contentCheck(request.head, peer: request.peer)
        case .keySet: return try await keySet()
        default: return try catalog(request)
        }
    }

    func respond(to target: WireTarget, _ request: ServiceRequest, as caller: Caller) async throws -> TransportAnswer {
        switch caller {
        case .operator: return try await respond(to: target, request, asOperator: ())
        case .account(let account): return try await respond(to: target, request, as: account)
        }
    }

    private func respond(to target: WireTarget, _ request: ServiceRequest, as caller: AccountCaller) async throws
        -> TransportAnswer
    {
        switch target.place {
        case .ownAccount:
            let record = try await accounts.credentials.record(caller.credential.name)
            return try .json { json(describing(caller.account, created: caller.isErased ? nil : record?.created)) }
        case .sessions:
            try await accounts.logOut(caller, everywhere: try target.query.flag("everywhere") ?? false)
            hub.wakeUp()
            return .done
        case .ownPassword:
            let fields = try RequestFields(request.body, request.head.headerFields)
            try await accounts.changePassword(
                of: caller, from: try fields.text("password"), to: try fields.text("new_password"),
                peer: request.peer)
            hub.wakeUp()
            return .done
        case .ownRecoveryCodes:
            let fields = try RequestFields(request.body, request.head.headerFields)
            let codes = try await accounts.renewRecoveryCodes(
                of: caller, password: try fields.text("password"), peer: request.peer)
            return try .json { json([("recovery_codes", .array(codes.map(JSON.string)))]) }
        case .ownErasure:
            let fields = try RequestFields(request.body, request.head.headerFields)
            let credential = try await accounts.credentials.check(
                password: try fields.text("password"), of: caller, peer: request.peer, isErasing: true)
            try await erase(caller.account, by: credential)
            return .done
        case .approvals:
            let fields = try RequestFields(request.body, request.head.headerFields)
            let (code, isApproved) = (try fields.text("user_code"), try fields.flag("approve"))
            guard !caller.isErased else { throw RequestError(.forbidden, "the account was erased") }
            // Denying a device requires only the token.
            let credential =
                isApproved
                ? try await accounts.credentials.checkPresence(
                    of: caller, password: fields.optionalText("password"), peer: request.peer) : caller.credential
            try await devices.decide(code, isApproved: isApproved, by: credential, peer: request.peer)
            return .done
        case .entitlements: return try await entitlements(of: caller, target.query, request)
        case .grants: return try await grant(of: caller, target.query)
        case .contentSessions: return try await contentSession(of: caller)
        case .transactions: return try await transactions(of: caller, request)
        case .ownToken: return try await token(of: caller, request)
        case .ownExport: return try await export(of: caller, request)
        default: return .problem(.outOfScope)
        }
    }

    private func respond(to target: WireTarget, _ request: ServiceRequest, asOperator: Void) async throws
        -> TransportAnswer
    {
        switch target.place {
        case .accounts: return try await list(target.query)
        case .recoveryCode(let name):
            let (code, account) = try await accounts.addRecoveryCode(to: name)
            return try .json { json([("recovery_code", .string(code)), ("account", .string(account))]) }
        case .erasure(let name):
            let name = try await accounts.aliases.resolveExactly(name)
            guard let account = try await accounts.credentials.record(name)?.account else {
                throw RequestError(.notFound, "there is no account of this name")
            }
            try await erase(account, by: nil)
            return .done
        default: throw RequestError(.forbidden, "this path is for accounts; the operator's token is not accepted")
        }
    }

    private func erase(_ account: Account, by credential: VerifiedCredential?) async throws {
        guard try await beginErasure(of: account, by: credential) else { return }
        try await finishErasure(of: account)
    }

    /// Marks an account as erased. It has no valid session from now on.
    ///
    /// - Returns: `false` if the account is already erased.
    func beginErasure(of account: Account, by credential: VerifiedCredential?) async throws -> Bool {
        let erasure = sweeper.erasure
        // Before the mark, so that a crash after it leaves an erasure that the sweeper finishes.
        try await erasure.schedule(account)
        guard try await erasure.begin(account, by: credential) else { return false }
        // Again, because a sweep between the two found an account without a mark.
        try await erasure.schedule(account)
        authenticator.forget(account: account.name ?? "")
        return true
    }

    /// Deletes what a marked account has. The caller must not be one of the requests that ``requests`` counts.
    func finishErasure(of account: Account) async throws {
        let erasure = sweeper.erasure
        // Requests that were admitted before the record was marked may still be writing.
        await requests.waitForEarlier()
        try await erasure.finish(account)
        authenticator.forget(account: account.name ?? "")
        hub.wakeUp()
        // The repetition comes a while after the end. Without this write, it comes a while after the beginning.
        do throws(BackendError) { try await erasure.schedule(account) } catch { onError(error) }
    }

    private func makeAccount(_ request: ServiceRequest) async throws -> TransportAnswer {
        // With another issuer's token, the request asks for a new incarnation after an erasure.
        if let field = request.head.headerFields[.authorization] { return try await makeExternalAccount(field) }
        let fields = try RequestFields(request.body, request.head.headerFields)
        let made = try await accounts.signUp(
            try fields.text("name"), password: try fields.text("password"), peer: request.peer)
        let codes = made.recoveryCodes.map { [("recovery_codes", JSON.array($0.map(JSON.string)))] } ?? []
        return try .json(made.recoveryCodes == nil ? .ok : .created) { json(describing(made.grant) + codes) }
    }

    private func makeExternalAccount(_ field: String) async throws -> TransportAnswer {
        guard case .account(let caller) = try await authenticator.caller(field), caller.session == nil,
            let name = caller.account.name
        else { throw RequestError(.forbidden, "an account without a password needs a token of another issuer") }
        let record = try await ExternalAccounts(records: accounts.records, host: host).renew(caller)
        guard let record else { throw RequestError.outdatedCredential }
        guard let account = record.activeAccount else {
            throw RequestError(.conflict, "the account is being erased; try again when that has finished")
        }
        try await AccountDirectory(backend: store).adopt(account, isRevivable: false)
        authenticator.forget(account: name)
        return try .json(.created) { json(describing(account, created: record.created)) }
    }

    private func makeSession(_ request: ServiceRequest) async throws -> TransportAnswer {
        let fields = try RequestFields(request.body, request.head.headerFields)
        let grant: Sessions.Grant
        switch try fields.text("grant_type") {
        case "password":
            grant = try await accounts.logIn(
                try fields.text("username"), password: try fields.text("password"), peer: request.peer)
        case "refresh_token":
            guard let refreshed = try await accounts.sessions.refresh(try fields.text("refresh_token")) else {
                throw RequestError(.badRequest, "the session has ended; log in again", code: "invalid_grant")
            }
            grant = refreshed
        case "urn:ietf:params:oauth:grant-type:device_code":
            grant = try await devices.redeem(try fields.text("device_code"))
        case "urn:entitlementsync:recovery-code":
            grant = try await accounts.recover(
                try fields.text("username"), code: try fields.text("recovery_code"),
                newPassword: try fields.text("new_password"), peer: request.peer)
        default:
            throw RequestError(.badRequest, "the grant_type is unknown", code: "unsupported_grant_type")
        }
        return try .json { json(describing(grant)) }
    }

    private func list(_ query: WireQuery) async throws -> TransportAnswer {
        let prefix = KeyScope.serverPrefix + "accounts/"
        var after: EntryKey?
        if let name = query["after"] {
            guard AccountName.canExist(name) else {
                throw RequestError(.badRequest, "after must be an account's name")
            }
            after = try AccountRecord.key(of: name)
        }
        guard let limit = query.pageSize(configuration.limits) else {
            throw query.refusal(ofLimit: configuration.limits)
        }
        let page = try await store.list(prefix: prefix, after: after, limit: limit).outcome
        var rows: [JSON] = []
        var last: String?
        for item in page.items {
            guard let record = try await accounts.records.read(item.key, as: AccountRecord.self)?.value else {
                continue
            }
            last = record.name
            if let account = record.account {
                rows.append(.object(describing(account, created: record.created)))
            }
        }
        let next = page.next == nil ? [] : last.map { [("next", JSON.string($0))] } ?? []
        return try .json { json([("accounts", .array(rows))] + next) }
    }

    private func describing(_ account: Account, created: Int64?) -> [(String, JSON)] {
        [
            ("name", .string("\(account)")), ("incarnation", .string(account.incarnation)),
            ("created", JSON(created.map { "\(Timestamp(milliseconds: $0))" })),
        ]
    }

    private func describing(_ grant: Sessions.Grant) -> [(String, JSON)] {
        [
            ("access_token", .string(grant.accessToken)), ("token_type", .string("Bearer")),
            ("expires_in", .number(Int64(grant.expiresIn))), ("refresh_token", .string(grant.refreshToken)),
            ("account", .string("\(grant.account)")), ("incarnation", .string(grant.account.incarnation)),
        ]
    }

    func json(_ members: [(String, JSON)]) -> [UInt8] { Array(JSON.object(members).text().utf8) }
}
