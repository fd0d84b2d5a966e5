import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore

/// Confirmations of acts: values that a dry run returns, and without which an assistant cannot act.
///
/// A confirmation is `EXPIRY.ACT.STATE`. Both codes are authenticated with the server's secret. The first one is for
/// the act with all its arguments, the token and the expiry; the second one is for the customer's state. Nothing is
/// stored. The act's idempotency key is derived from all of that, so a confirmation acts once.
struct ActConfirmations {
    let acts: OperatorActs
    /// The secret of the servers.
    let key: [UInt8]
    /// The catalogue, which decides what an act does.
    let catalog: [UInt8]

    /// The time for which a confirmation is valid, in milliseconds: 10 minutes.
    static let lifetime: Int64 = 600_000
    private static let codeLength = 20

    /// The outcome of a dry run of `act`, and its confirmation.
    func tried(
        _ act: OperatorAct, by caller: OperatorCaller, now: Int64
    ) async throws -> (outcome: ActOutcome, confirmation: String) {
        var state = ""
        let outcome = try await acts.perform(act, key: nil) { state = try await digest(of: $0) }
        let expiry = now + Self.lifetime
        let code = actCode(act, caller, expiry)
        return (outcome, "\(expiry).\(code).\(stateCode(code, state))")
    }

    /// Does the act that `confirmation` confirms, unless it was done.
    ///
    /// - Returns: The outcome, and `true` if the act had been done before.
    /// - Throws: ``RequestError`` for a confirmation of something else, of another state or that has expired, and the
    ///   errors of ``OperatorActs/perform(_:key:approve:)``.
    func done(
        _ act: OperatorAct, by caller: OperatorCaller, _ confirmation: String, now: Int64
    ) async throws -> (outcome: ActOutcome, isRepeated: Bool) {
        let parts = confirmation.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let expiry = Int64(parts[0]), "\(expiry)" == parts[0],
            parts.dropFirst().allSatisfy({ $0.utf8.count == Self.codeLength })
        else {
            throw Self.refusal("is not one that a dry run returned")
        }
        guard Self.isEqual(parts[1], actCode(act, caller, expiry)) else {
            throw Self.refusal("belongs to another act, customer, argument, reason or token")
        }
        let key = "confirmed-" + hexadecimalDigest(of: confirmation)
        // An act that has happened is repeated to a caller that did not get the response, however late.
        let isRepeated = try await acts.isKnown(key)
        guard isRepeated || now < expiry else {
            throw Self.refusal("expired at \(Timestamp(milliseconds: expiry))")
        }
        let outcome = try await acts.perform(act, key: key) { record in
            guard Self.isEqual(parts[2], stateCode(parts[1], try await digest(of: record))) else {
                throw Self.refusal("was for a state of the customer that has changed since")
            }
        }
        return (outcome, isRepeated)
    }

    private static func refusal(_ reason: String) -> RequestError {
        RequestError(
            .conflict,
            "the argument \"confirmation\" \(reason); nothing was done. Call the tool without it, and show the new dry "
                + "run to the operator")
    }

    private static func isEqual(_ text: String, _ code: String) -> Bool {
        Array(text.utf8).isEqual(toSecret: Array(code.utf8))
    }

    private func actCode(_ act: OperatorAct, _ caller: OperatorCaller, _ expiry: Int64) -> String {
        code("act", act.digest, caller.token ?? "", caller.name, "\(expiry)")
    }

    private func stateCode(_ actCode: String, _ state: String) -> String { code("state", actCode, state) }

    private func code(_ parts: String...) -> String {
        let text = "confirmation\u{0}" + parts.joined(separator: "\u{0}")
        return String(Hexadecimal.text(authenticationCode(of: Array(text.utf8), key: key)).prefix(Self.codeLength))
    }

    /// The digest of what decides the act's effect: the ledgers and the present access of the accounts.
    private func digest(of record: ActRecord) async throws -> String {
        var parts = [hexadecimalDigest(of: catalog), record.outcome.customer.before]
        if let receiver = record.outcome.receiver { parts.append(receiver.before) }
        for case let account? in [record.account.account, record.work.receiver?.account] {
            parts += [account.incarnation, try await acts.support.ledgerDigest(of: account)]
        }
        return hexadecimalDigest(of: parts.joined(separator: "\u{0}"))
    }
}

extension OperatorActs {
    /// Returns `true` if an act with this idempotency key has begun.
    fileprivate func isKnown(_ key: String) async throws -> Bool {
        try await records.read(try ActRecord.key(hexadecimalDigest(of: key)), as: ActRecord.self) != nil
    }
}

extension SupportActs {
    /// A digest of the facts in both ledgers of an account. A server may state its policy at any time, so that does
    /// not count.
    fileprivate func ledgerDigest(of account: Account) async throws -> String {
        let server = try await recorder.writer.read(account).ledger.records.filter { record in
            if case .policy = Fact(record) { false } else { true }
        }
        let ledgers = [try await recorder.ledger(of: account), Ledger(server)]
        return hexadecimalDigest(of: ledgers.flatMap { LedgerDocument(ledger: $0).encoded() })
    }
}
