import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore

// Acts on accounts themselves: recovery codes, erasure and sessions.
extension EntitlementService {
    /// Completes the plan of an act on `account`. Writes nothing.
    func plan(
        _ parameters: ActParameters, _ account: Account, id: String, _ record: inout ActRecord
    ) async throws {
        guard let name = account.name, let held = try await accounts.credentials.record(name),
            held.activeAccount == account
        else { throw RequestError(.gone, "the account was erased in the meantime") }
        record.work.epoch = held.epoch
        func count(_ member: String, _ before: Int, _ after: Int) {
            record.outcome.customer.before = "{\"\(member)\":\(before)}"
            record.outcome.customer.after = "{\"\(member)\":\(after)}"
        }
        switch record.kind {
        case .recovery:
            guard held.issuer == nil else {
                throw RequestError(.conflict, "the account \(account.quoted) has no password here")
            }
            try await accounts.sessions.keys.refresh()
            let digest = hexadecimalDigest(of: recoveryCode(of: record, id))
            record.work.code = digest
            record.entry.detail = "recovery code"
            count("recoveryCodes", held.recoveryCodes.count, held.recoveryCodes.count + 1)
        case .sessions:
            let sessions = try await accounts.sessions.all(of: account, epoch: held.epoch)
            if let session = parameters["session"] {
                guard sessions.contains(session) else {
                    throw RequestError(.notFound, "the account \(account.quoted) has no session of this id")
                }
                (record.work.session, record.entry.detail) = (session, "end of the session \(session)")
                count("sessions", sessions.count, sessions.count - 1)
            } else {
                record.entry.detail = "end of all sessions"
                count("sessions", sessions.count, 0)
            }
        default: record.entry.detail = "erasure"
        }
    }

    /// Does what `record` contains. Repeating it changes nothing.
    func execute(_ record: ActRecord, on account: Account) async throws {
        switch record.kind {
        case .erasure:
            if try await beginErasure(of: account, by: nil) { try await finishErasure(of: account) }
        case .recovery:
            guard let code = record.work.code, let epoch = record.work.epoch,
                try await accounts.addRecoveryCode(digest: code, to: account, epoch: epoch)
            else {
                throw RequestError(
                    .conflict, "the account was erased, or its password changed, in the meantime; use a new key")
            }
        case .sessions:
            guard let name = account.name else { return }
            if let session = record.work.session {
                try await accounts.sessions.end(session, of: name)
                authenticator.forget(account: name, session: session)
            } else if let epoch = record.work.epoch {
                try await accounts.endSessions(of: account, epoch: epoch, now: record.begun)
            }
            hub.wakeUp()
        case .grant, .refund, .reinstatement, .transfer: break
        }
    }

    /// The recovery code of an act. It is derived from the server's secret, so that it can be repeated and is not
    /// stored. An act that reuses the idempotency key of a forgotten one has another code.
    func recoveryCode(of record: ActRecord, _ id: String) -> String {
        let text = "recovery code \(id) \(record.account.account?.incarnation ?? "") \(record.begun)"
        let seed = authenticationCode(of: Array(text.utf8), key: accounts.sessions.keys.secret)
        return AccountService.code(from: Array(seed.prefix(16)))
    }
}

extension OperatorActs {
    /// The recovery code of the act `id`, which has this digest.
    func recoveryCode(of record: ActRecord, _ id: String, _ digest: String) async throws -> String {
        guard let service else { throw Self.serverOnly }
        try await service.accounts.sessions.keys.refresh()
        let code = service.recoveryCode(of: record, id)
        guard hexadecimalDigest(of: code) == digest else {
            throw RequestError(.conflict, "the code of this act cannot be repeated; use a new key for a new code")
        }
        return code
    }
}
