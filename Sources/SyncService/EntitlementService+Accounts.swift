import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

// Accounts, sessions and devices.
extension EntitlementService {
    func beginDevice(_ call: Call) async throws -> ServiceResponse {
        let codes = try await devices.begin(for: call.peer)
        let page = configuration.approvalPage
        return .json([
            ("device_code", .string(codes.device)), ("user_code", .string(codes.user)),
            ("verification_uri", .string(page)),
            ("verification_uri_complete", .string(page + "?user_code=" + codes.user)),
            ("expires_in", .number(DeviceAuthorizations.lifetime / 1_000)),
            ("interval", .number(DeviceAuthorizations.interval / 1_000)),
        ])
    }

    func decideDevice(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        let members = try call.members()
        let (code, isApproved) = (try members.text("user_code"), try members.flag("approve"))
        guard !caller.isErased else { throw RequestError(.forbidden, "the account was erased") }
        // Denying a device requires only the token.
        let credential =
            isApproved
            ? try await accounts.credentials.checkPresence(
                of: caller, password: members.optionalText("password"), peer: call.peer) : caller.credential
        try await devices.decide(code, isApproved: isApproved, by: credential, peer: call.peer)
        return .done
    }

    func ownAccount(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        let record = try await accounts.credentials.record(caller.credential.name)
        return .json(describing(caller.account, created: caller.isErased ? nil : record?.created))
    }

    func logOut(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        try await accounts.logOut(caller, everywhere: try call.query.flag("everywhere") ?? false)
        hub.wakeUp()
        return .done
    }

    func changePassword(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        let members = try call.members()
        try await accounts.changePassword(
            of: caller, from: try members.text("password"), to: try members.text("new_password"), peer: call.peer)
        hub.wakeUp()
        return .done
    }

    func renewRecoveryCodes(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        let password = try call.members().text("password")
        let codes = try await accounts.renewRecoveryCodes(of: caller, password: password, peer: call.peer)
        return .json([("recovery_codes", .array(codes.map(JSON.string)))])
    }

    func addRecoveryCode(_ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse {
        let (code, account) = try await accounts.addRecoveryCode(to: call.target.name ?? "")
        // Without an entry the code is not given away.
        try await enter("recovery", of: account, by: caller)
        return .json([("recovery_code", .string(code)), ("account", .string(account))])
    }

    func eraseOwnAccount(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        guard caller.session != nil else {
            let credential = try accounts.credentials.checkRecency(of: caller, for: "erasing the account")
            return try await erase(caller.account, by: credential)
        }
        let credential = try await accounts.credentials.check(
            password: try call.members().text("password"), of: caller, peer: call.peer, isErasing: true)
        return try await erase(caller.account, by: credential)
    }

    func eraseAccount(_ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse {
        let name = try await accounts.aliases.resolveExactly(call.target.name ?? "")
        guard let account = try await accounts.credentials.record(name)?.account else {
            throw RequestError(.notFound, "there is no account of this name")
        }
        try await enter("erasure", of: name, by: caller)
        return try await erase(account, by: nil)
    }

    /// Appends the entry of an act without a reason to the audit list. Acts on `/v1/customers` have a reason.
    private func enter(_ act: String, of account: String, by caller: OperatorCaller) async throws(BackendError) {
        try await AuditLog(store: store).append(
            AuditLog.Entry(
                date: "\(Timestamp(milliseconds: host.now()))", act: act, account: account, actor: caller.name,
                detail: "without a reason"))
    }

    private func erase(_ account: Account, by credential: VerifiedCredential?) async throws -> ServiceResponse {
        if try await beginErasure(of: account, by: credential) { try await finishErasure(of: account) }
        return .done
    }

    /// Marks an account as erased. It has no valid session from now on.
    ///
    /// - Returns: `false` if the account is already erased.
    func beginErasure(of account: Account, by credential: VerifiedCredential?) async throws -> Bool {
        let erasure = sweeper.erasure
        // Before the mark. After a crash between the two, the sweeper finishes the erasure.
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

    func makeAccount(_ call: Call) async throws -> ServiceResponse {
        // With another issuer's token, the request asks for a new incarnation after an erasure.
        if let field = call.fields[.authorization] { return try await makeExternalAccount(field) }
        let members = try call.members()
        let made = try await accounts.signUp(
            try members.text("name"), password: try members.text("password"), peer: call.peer)
        let codes = made.recoveryCodes.map { [("recovery_codes", JSON.array($0.map(JSON.string)))] } ?? []
        return .json(describing(made.session) + codes, status: made.recoveryCodes == nil ? .ok : .created)
    }

    private func makeExternalAccount(_ field: String) async throws -> ServiceResponse {
        guard case .account(let caller) = try await authenticator.caller(field), caller.session == nil,
            let name = caller.account.name
        else { throw RequestError(.forbidden, "an account without a password needs a token of another issuer") }
        let record = try await authenticator.renew(caller)
        guard let record else { throw RequestError.outdatedCredential }
        guard let account = record.activeAccount else {
            throw RequestError(.conflict, "the account is being erased; try again when that has finished")
        }
        try await AccountDirectory(backend: store).adopt(account, isRevivable: false)
        authenticator.forget(account: name)
        return .json(describing(account, created: record.created), status: .created)
    }

    func makeSession(_ call: Call) async throws -> ServiceResponse {
        let fields = try call.members()
        let session: IssuedSession
        switch try fields.text("grant_type") {
        case "password":
            session = try await accounts.logIn(
                try fields.text("username"), password: try fields.text("password"), peer: call.peer)
        case "refresh_token":
            guard let refreshed = try await accounts.sessions.refresh(try fields.text("refresh_token")) else {
                throw RequestError(.badRequest, "the session has ended; log in again", code: "invalid_grant")
            }
            session = refreshed
        case "urn:ietf:params:oauth:grant-type:device_code":
            session = try await devices.redeem(try fields.text("device_code"))
        case "urn:entitlementsync:recovery-code":
            session = try await accounts.recover(
                try fields.text("username"), code: try fields.text("recovery_code"),
                newPassword: try fields.text("new_password"), peer: call.peer)
        default:
            throw RequestError(.badRequest, "the grant_type is unknown", code: "unsupported_grant_type")
        }
        return .json(describing(session))
    }

    func listAccounts(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let prefix = KeyScope.serverPrefix + "accounts/"
        var after: EntryKey?
        if let name = call.query["after"] {
            guard AccountName.canExist(name) else {
                throw RequestError(.badRequest, "after must be an account's name")
            }
            after = try AccountRecord.key(of: name)
        }
        let limit = try call.query.pageSize(configuration.limits)
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
        return .json([("accounts", .array(rows))] + next)
    }

    private func describing(_ account: Account, created: Int64?) -> [(String, JSON)] {
        [
            ("name", .string("\(account)")), ("incarnation", .string(account.incarnation)),
            ("created", JSON(created.map { "\(Timestamp(milliseconds: $0))" })),
        ]
    }

    private func describing(_ session: IssuedSession) -> [(String, JSON)] {
        [
            ("access_token", .string(session.accessToken)), ("token_type", .string("Bearer")),
            ("expires_in", .number(Int64(session.expiresIn))), ("refresh_token", .string(session.refreshToken)),
            ("account", .string("\(session.account)")), ("incarnation", .string(session.account.incarnation)),
        ]
    }
}
