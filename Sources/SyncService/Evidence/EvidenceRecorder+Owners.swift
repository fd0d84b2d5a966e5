import EntitlementSync
import Entitlements
import SyncCore

// The owners of the lines that evidence is about.
extension EvidenceRecorder {
    /// The owners of a line after a claim.
    enum Settlement: Sendable {
        /// The line belongs to these accounts. A new owner needs the known facts about it.
        case owned([Account], known: [Fact])
        case unowned
        case refused
    }

    /// Finds the owners of a line, and changes them if the claim asks for it and may.
    func settle(
        _ group: TransactionNames.Group, _ request: Request
    ) async throws(BackendError) -> Settlement {
        let line = group.line
        guard request.mayClaim else { return try await settleKnown(line, for: request.caller) }
        var claim = Ownership.Claim(
            line: line, named: request.named, caller: request.caller, restoredAt: request.restoredAt,
            isTransfer: request.transferActor != nil)
        for _ in 0..<32 {
            let (record, version) = try await owners.living(line)
            guard record.transfer == nil else {
                try await owners.finishTransfer(of: line)
                continue
            }
            let now = writer.now()
            let verdict = try await verdict(on: claim, record, now: now)
            if let fence = request.fence, verdict.changesOwner, !fence.holds(record, of: line) { return .refused }
            switch verdict {
            case .owned(let accounts):
                guard owners.policy == .share, let caller = claim.caller, accounts[0] != caller else {
                    return .owned(accounts, known: [])
                }
                // The request that added the caller may have been interrupted before the facts were copied.
                return .owned(accounts, known: try await writer.read(accounts[0]).facts(ofLine: line))
            case .unowned: return .unowned
            case .refused: return .refused
            case .claimed(let account):
                guard try await writer.records.isActive(account) else {
                    if account == claim.caller { return .refused }
                    // The token of an erased account counts like none.
                    claim.named = nil
                    continue
                }
                if try await owners.add(account, to: line, record, if: version, now: now) {
                    return .owned([account], known: [])
                }
            case .shared(let accounts, let account):
                if try await owners.add(account, to: line, record, if: version, now: now) {
                    // Read after the account was added. Facts that are written later are written for it, too.
                    return .owned(
                        accounts + [account], known: try await writer.read(accounts[0]).facts(ofLine: line))
                }
            case .moved(let winner, let isRestore):
                guard let version else { continue }
                try await owners.move(
                    line, to: winner, record, if: version, isRestore: isRestore, actor: request.transferActor,
                    facts: group.facts)
            }
        }
        throw BackendError(.busy, operation: .write, message: "the owner of this line keeps changing; try again")
    }

    /// Finds the owners of a line without claiming it.
    private func settleKnown(
        _ line: TransactionReference, for caller: Account?
    ) async throws(BackendError) -> Settlement {
        let accounts = try await owners.accounts(of: line)
        guard !accounts.isEmpty else { return .unowned }
        return caller.map(accounts.contains) ?? true ? .owned(accounts, known: []) : .refused
    }

    /// The verdict on a claim. The claim of the owner may be free if it is old, and the owner's server ledger lacks the
    /// line.
    func verdict(
        on claim: Ownership.Claim, _ record: Ownership, now: Int64
    ) async throws(BackendError) -> Ownership.Verdict {
        var isHeld = true
        if owners.policy != .share, let caller = claim.caller, let first = record.owners.first,
            let owner = first.account.account, owner != caller, now - first.since >= Ownership.freeAfter
        {
            isHeld = try await !writer.read(owner).facts(ofLine: claim.line).isEmpty
        }
        return record.verdict(on: claim, policy: owners.policy, now: now, isHeld: isHeld)
    }
}

/// The owners that some lines had before an act that moves them.
///
/// The act moves a line only from these owners. So it moves the line at most once, also if it is repeated after another
/// act has moved the line back: the owner has the line since a later time then.
struct OwnerFence: Codable, Hashable, Sendable {
    private struct Line: Codable, Hashable, Sendable {
        var line: LineName
        var owners: [Ownership.Owner]
    }

    private var lines: [Line] = []

    /// Adds the owners in `record`, a record of `line` without erased owners.
    mutating func add(_ record: Ownership, of line: TransactionReference) {
        lines.append(Line(line: LineName(line), owners: record.owners))
    }

    /// Returns `true` if `line` still has these owners.
    func holds(_ record: Ownership, of line: TransactionReference) -> Bool {
        lines.contains { $0.line == LineName(line) && $0.owners == record.owners }
    }
}

extension Ownership.Verdict {
    /// True if the line gets another owner.
    fileprivate var changesOwner: Bool {
        switch self {
        case .claimed, .shared, .moved: true
        case .owned, .unowned, .refused: false
        }
    }
}
