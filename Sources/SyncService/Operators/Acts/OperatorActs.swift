import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Acts of operators on customers, each of which happens once for each idempotency key.
///
/// 1. The act is planned on a ``TrialStore``. An act that is refused here has written nothing, except that an
///    interrupted transfer of the line is finished first. A dry run ends here.
/// 2. The plan is stored as ``ActRecord``. Of several attempts, also of several servers, one stores it, and all of them
///    do what it contains.
/// 3. The entry of the audit list is appended, before anything else is written.
/// 4. The act is done. Each of its steps may be repeated: facts have the stamps of the plan, so that a later statement
///    prevails over a repetition, and a line is taken only from the owners that the plan has seen.
/// 5. The outcome is stored, and repeated to each repetition for ``ActRecord/retention``.
///
/// After a crash, a repetition with the same key continues with step 3. If there is none, the daily ``sweep(now:)``
/// does.
package struct OperatorActs: Sendable {
    let support: SupportActs
    /// The server, for acts on accounts; `nil` for a program that works beside the servers.
    let service: EntitlementService?

    var records: RecordStore { support.records }
    private var audit: AuditLog { support.audit }

    /// Acts on the store of `support`, beside its servers. Only purchases can be given, taken and moved.
    package init(_ support: SupportActs) { (self.support, service) = (support, nil) }

    /// Acts of a server.
    init(_ service: EntitlementService) {
        let catalog = service.configuration.catalog ?? Self.noCatalog
        support = SupportActs(service.recorder, catalog: catalog, host: service.host)
        self.service = service
    }

    private static let noCatalog: Catalog = {
        do throws(InputError) { return try Catalog(products: []) } catch { preconditionFailure("\(error)") }
    }()

    /// Does `act` once for `key`, or tries what it would do.
    ///
    /// - Parameter key: The idempotency key; `nil` for a dry run.
    /// - Throws: ``RequestError``, ``SupportError`` or the store's error. After an error of the store, repeat the act
    ///   with the same key.
    package func perform(_ act: OperatorAct, key: String?) async throws -> ActOutcome {
        try await perform(act, key: key) { _ in }
    }

    /// Does `act` as ``perform(_:key:)`` does, unless `approve` throws an error for its plan.
    ///
    /// - Parameter approve: Receives the plan before anything is written, but not that of an act that has begun.
    func perform(
        _ act: OperatorAct, key: String?, approve: (ActRecord) async throws -> Void
    ) async throws -> ActOutcome {
        try act.check()
        if service == nil { try await support.checkStore() }
        guard let key else {
            let record = try await plan(act, id: String(repeating: "0", count: 64), isDryRun: true)
            try await approve(record)
            var outcome = record.outcome
            outcome.isDryRun = true
            return outcome
        }
        try OperatorAct.check(key: key)
        let id = hexadecimalDigest(of: key)
        let name = try ActRecord.key(id)
        for _ in 0..<8 {
            if let held = try await records.read(name, as: ActRecord.self)?.value {
                guard held.request == act.digest else {
                    throw RequestError(
                        .unprocessableContent,
                        "this Idempotency-Key was used for another request; use a new key for a new act")
                }
                return try await finish(held, id)
            }
            let record: ActRecord
            do {
                record = try await plan(act, id: id)
                try await approve(record)
            } catch {
                // Another attempt may have done the act in the meantime.
                guard try await records.read(name, as: ActRecord.self) != nil else { throw error }
                continue
            }
            if try await records.replace(name, with: record, if: nil) { return try await finish(record, id) }
        }
        throw BackendError(.busy, operation: .write, key: name, message: "the record of this act keeps changing")
    }

    /// Does what is left of an act, and returns its outcome.
    private func finish(_ record: ActRecord, _ id: String) async throws -> ActOutcome {
        if let failure = record.failure { throw failure.error }
        var done = record
        if record.finished == nil {
            let entry = try await audit.append(record.entry, unlessAfter: record.auditCount)
            done.outcome.entry = entry.number
            do { try await execute(record) } catch {
                guard let refusal = Self.refusal(error) else { throw error }
                // Another attempt may have done it, and the customer may have used the code since then.
                let known = try await records.read(try ActRecord.key(id), as: ActRecord.self)?.value
                if known?.finished != nil { return try await finish(known ?? record, id) }
                done.failure = ActRecord.Failure(status: refusal.status.code, detail: refusal.detail)
                try await enter(refusal, of: entry, record)
            }
            done.finished = support.host.now()
            let end = done
            let stored = try await records.update(try ActRecord.key(id)) { (known: ActRecord?) in
                known?.finished == nil ? known.map { _ in end } : known
            }
            if let stored { done = stored }
            if let failure = done.failure { throw failure.error }
        }
        if let code = record.work.code { done.outcome.recoveryCode = try await recoveryCode(of: record, id, code) }
        return done.outcome
    }

    /// Enters the failure of an act into the audit list.
    private func enter(
        _ refusal: RequestError, of entry: AuditLog.Entry, _ record: ActRecord
    ) async throws(BackendError) {
        var failed = record.entry
        failed.act = "failed"
        failed.detail = "entry \(entry.number) was not completed: \(refusal.detail)"
        (failed.before, failed.after) = (nil, nil)
        try await audit.append(failed, unlessAfter: record.auditCount)
    }

    /// The refusal for which `error` stands; `nil` for an error after which the act may be repeated.
    private static func refusal(_ error: any Error) -> RequestError? {
        switch error {
        case let error as RequestError: error
        case let error as SupportError: RequestError(error)
        case let error as BackendError where error.cause is LedgerFull:
            RequestError(.conflict, "the server ledger is full: \(error.message)")
        default: nil
        }
    }

    /// Does what `record` contains. Repeating it changes nothing.
    private func execute(_ record: ActRecord) async throws {
        guard let account = record.account.account else { return }
        guard let evidence = try record.work.evidence() else {
            guard let service else { throw OperatorActs.serverOnly }
            return try await service.execute(record, on: account)
        }
        let receiver = record.work.receiver?.account ?? account
        let review = try await support.recorder.review(evidence, for: receiver)
        do {
            try await support.write(
                evidence, review, for: receiver, transferActor: record.work.fence == nil ? nil : record.entry.actor,
                fence: record.work.fence)
        } catch let error as SupportError {
            // This act may have moved the line, and another one may have moved it back.
            guard error.kind == .ownedByAnother, record.work.fence != nil else { throw error }
            guard try await hasMoved(review.lines, to: receiver, record) else { throw error }
        }
    }

    /// Returns `true` if the audit list has the transfer of one of `lines` that `record` asks for.
    private func hasMoved(
        _ lines: [TransactionReference], to receiver: Account, _ record: ActRecord
    ) async throws(BackendError) -> Bool {
        var after = record.auditCount
        while true {
            let page = try await audit.entries(after: after, limit: 1_000)
            let isThere = page.contains { entry in
                entry.act == "transfer" && entry.id == nil && entry.account == receiver.name
                    && entry.actor == record.entry.actor && lines.contains { "\($0)" == entry.line }
            }
            guard !isThere, page.count == 1_000, let last = page.last else { return isThere }
            after = last.number
        }
    }

    /// Finishes the acts that were interrupted, and removes the records of those that ended long ago.
    ///
    /// - Parameter onError: Receives the error of an act that could not be finished.
    func sweep(now: Int64, onError: (BackendError) -> Void) async throws(BackendError) {
        try await records.forEach(
            under: ActRecord.prefix, as: ActRecord.self, onError: { (error) throws(BackendError) in onError(error) }
        ) { (key, held) async throws(BackendError) in
            if let finished = held.value.finished {
                guard now - finished >= ActRecord.retention else { return }
                _ = try await records.replace(key, with: ActRecord?.none, if: held.version)
            } else if now - held.value.begun >= Self.interruptedAfter {
                do {
                    _ = try await finish(held.value, String(key.text.dropFirst(ActRecord.prefix.count)))
                } catch let error as BackendError {
                    onError(error)
                } catch {
                    // The act failed, and its record says why.
                }
            }
        }
    }

    /// The age from which an act counts as interrupted, in milliseconds.
    private static let interruptedAfter: Int64 = 600_000

    static let serverOnly = RequestError(
        .conflict, "this act needs a running server: pass --remote https://HOST and --token-file FILE")
}

extension RequestError {
    /// The refusal of an act.
    package init(_ error: SupportError) {
        let status: HTTPResponse.Status =
            switch error.kind {
            case .notAServer, .clockIsBehind: .serviceUnavailable
            case .unknownAccount: .notFound
            case .erasedAccount: .gone
            case .ownedByAnother, .contradiction, .ledgerFull: .conflict
            case .unknownProduct, .invalid: .badRequest
            }
        self.init(status, error.description)
    }
}
