import EntitlementSync
package import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The record of an act, `server/acts/DIGEST` by the digest of its idempotency key.
///
/// It is created by compare-and-swap before anything else is written, and contains everything that the act writes. So
/// a server that continues an interrupted act writes the same again.
struct ActRecord: Codable, Hashable, Sendable {
    /// The digest of the request. Another request with the same key is refused.
    var request: String
    var kind: OperatorAct.Kind
    var account: AccountIdentity
    /// The time of the act, in milliseconds since 1970 UTC.
    var begun: Int64
    /// The number of entries that the audit list had before.
    var auditCount: Int
    /// The entry of the audit list, without its number.
    var entry: AuditLog.Entry
    var work: Work
    /// The outcome as it was predicted, without the number of the entry.
    var outcome: ActOutcome
    /// The time of the end, in milliseconds since 1970 UTC; `nil` for an act that may be half done.
    var finished: Int64?
    /// The refusal of an act that began and then could not be done.
    var failure: Failure?

    /// The content that the act writes.
    struct Work: Codable, Hashable, Sendable {
        /// The account that gets the facts; `nil` for ``ActRecord/account``.
        var receiver: AccountIdentity?
        /// The facts as a ledger document, and the line that the evidence states.
        var facts: Data?
        var line: LineName?
        /// The owners that the lines had; `nil` for an act that takes none from another account.
        var fence: OwnerFence?
        /// The credential epoch that the account had.
        var epoch: Int64?
        /// The session to end; `nil` for all.
        var session: String?
        /// The digest of the recovery code.
        var code: String?
    }

    struct Failure: Codable, Hashable, Sendable {
        var status: Int
        var detail: String

        var error: RequestError { RequestError(HTTPResponse.Status(code: status), detail) }
    }

    /// The time for which the outcome is kept and repeated, in milliseconds: 30 days.
    static let retention: Int64 = 30 * 86_400_000
    static let prefix = KeyScope.serverPrefix + "acts/"

    static func key(_ id: String) throws(BackendError) -> EntryKey { try EntryKey(prefix + id) }
}

extension ActRecord.Work {
    /// The evidence that ``facts`` and ``line`` are; `nil` for an act without facts.
    func evidence() throws(BackendError) -> VerifiedEvidence? {
        guard let facts else { return nil }
        let ledger: Ledger
        do throws(LedgerFormatError) { ledger = try LedgerDocument(decoding: Array(facts)).ledger } catch {
            throw BackendError(.damaged, operation: .read, message: "the facts of an act cannot be read: \(error)")
        }
        return VerifiedEvidence(
            kind: .support, facts: ledger.records.map { Fact($0) }, signedDate: nil, line: line?.reference)
    }

    mutating func set(_ evidence: VerifiedEvidence) {
        facts = Data(LedgerDocument(ledger: Ledger(evidence.facts.map(\.record))).encoded())
        line = evidence.line.map { LineName($0) }
    }
}

/// The outcome of an act, or of its dry run.
package struct ActOutcome: Codable, Hashable, Sendable {
    /// The customer's state, and that of the account that gets a purchase by a transfer.
    struct State: Codable, Hashable, Sendable {
        var account: String
        /// JSON objects.
        var before: String
        var after: String
    }

    /// The act's name.
    package var act: String
    /// The date of the act, in RFC 3339.
    package var date: String
    var customer: State
    var receiver: State?
    /// The purchase that was given, taken or moved.
    var transaction: LineName?
    /// The end of the group's paid time after a grant.
    var expires: String?
    var takenFrom: [String] = []
    package var warnings: [String] = []
    /// The number of the audit entry; `nil` for a dry run.
    package var entry: Int?
    /// Never stored.
    package var recoveryCode: String?
    /// True for a dry run. Never stored.
    package var isDryRun: Bool?

    /// The JSON object of the answer.
    package var json: JSON {
        var members = [("act", JSON.string(act)), ("dryRun", .bool(isDryRun == true)), ("date", .string(date))]
        members += Self.members(of: customer)
        if let receiver { members.append(("to", .object(Self.members(of: receiver)))) }
        if let reference = transaction?.reference {
            let named = [
                ("id", reference.id.rawValue), ("store", reference.store.rawValue),
                ("environment", reference.environment.rawValue),
            ]
            members.append(("transaction", .object(named.map { ($0, .string($1)) })))
        }
        if let expires { members.append(("expires", .string(expires))) }
        if !takenFrom.isEmpty { members.append(("takenFrom", .array(takenFrom.map(JSON.string)))) }
        if let recoveryCode { members.append(("recovery_code", .string(recoveryCode))) }
        members.append(("warnings", .array(warnings.map(JSON.string))))
        members.append(("entry", entry.map { .number(Int64($0)) } ?? .null))
        return .object(members)
    }

    private static func members(of state: State) -> [(String, JSON)] {
        [
            ("account", .string(state.account)), ("before", json(state.before)), ("after", json(state.after)),
        ]
    }

    private static func json(_ text: String) -> JSON { (try? JSON(parsing: Array(text.utf8))) ?? .null }

    /// The differing parts of the states, for the audit list.
    var changes: (before: String, after: String) {
        func side(_ text: (State) -> String, _ other: (State) -> String) -> String {
            func difference(_ state: State) -> JSON { Self.difference(Self.json(text(state)), Self.json(other(state))) }
            let own = difference(customer)
            guard let receiver else { return own.canonicalText }
            return JSON.object([customer.account: own, receiver.account: difference(receiver)]).canonicalText
        }
        return (side(\.before, \.after), side(\.after, \.before))
    }

    /// `value` without the members that `other` has with the same value. The members `access` are compared one by one.
    static func difference(_ value: JSON, _ other: JSON) -> JSON {
        guard case .object(let members) = value else { return value }
        return .object(
            members.compactMap { name, member in
                guard let held = other[name] else { return (name, member) }
                if held == member { return nil }
                return (name, name == "access" ? difference(member, held) : member)
            })
    }
}
