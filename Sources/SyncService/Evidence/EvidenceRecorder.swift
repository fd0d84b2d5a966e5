import EntitlementSync
import Entitlements
import StoreEvidence
import SyncCore

/// Writes verified evidence into the server ledgers of the accounts to which its lines belong.
struct EvidenceRecorder: Sendable {
    let names: TransactionNames
    let lines: LineOwners
    let transfers: LineTransfers
    let tokens: AccountTokens
    let parked: ParkedFacts
    let writer: ServerLedgerWriter
    let claims: TransactionOwners

    init(
        _ records: RecordStore, _ claims: TransactionOwners, _ writer: ServerLedgerWriter,
        _ configuration: ServiceConfiguration, _ host: HostServices, digest: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        (self.claims, self.writer) = (claims, writer)
        names = TransactionNames(records: records)
        lines = LineOwners(records: records, policy: configuration.ownership, digest: digest)
        tokens = AccountTokens(records: records, host: host)
        parked = ParkedFacts(store: records.backend, limit: configuration.evidence.parkedByteLimit)
        transfers = LineTransfers(
            records: records, lines: lines, writer: writer, claims: claims,
            audit: AuditLog(store: records.backend, digest: digest))
    }

    /// Counts the parked facts, and finishes the transfers that were interrupted.
    func start(onError: (BackendError) -> Void) async throws(BackendError) {
        try await parked.load()
        try await transfers.resume(onError: onError)
    }

    /// The outcome of one piece of evidence.
    struct Outcome: Sendable {
        /// The facts that were written, or were known already.
        var facts: [Fact] = []
        /// The lines that belong to another account.
        var refused: [TransactionReference] = []
        /// The lines without an owner.
        var unowned: [TransactionReference] = []
    }

    /// The sender and the content of a request, as far as they matter to owners.
    private struct Request {
        var named: Account?
        var caller: Account?
        var restoredAt: Timestamp?
        var token: String?
        /// True if the evidence may give a line without an owner its first one.
        var mayClaim = true
    }

    private enum Settlement {
        /// The line belongs to these accounts. A new owner needs the known facts about it.
        case owned([Account], known: [Fact])
        case unowned
        case refused
    }

    private static let roundCount = 8

    /// Records `evidence`. Repeating it changes nothing.
    ///
    /// - Parameters:
    ///   - caller: The account that sent it; `nil` for a store.
    ///   - isRestore: True for an explicit restore, which may move lines to the caller.
    func record(
        _ evidence: VerifiedEvidence, from caller: Account?, isRestore: Bool
    ) async throws(BackendError) -> Outcome {
        let isTransaction = evidence.kind == .appStoreTransaction || evidence.kind == .googlePlay
        // A renewal info names no app, so it counts only for a line that is known.
        let isRenewal = evidence.kind == .appStoreRenewal
        var request = Request(
            named: isRenewal ? nil : try await holder(of: evidence), caller: caller,
            restoredAt: isRestore && isTransaction ? evidence.signedDate : nil, token: evidence.accountToken,
            mayClaim: !isRenewal)
        var groups = try await names.groups(of: evidence)
        for _ in 0..<Self.roundCount {
            let outcome = try await record(groups, request)
            // A purchase may have become known after a refund was parked under another name of it.
            let current = try await names.groups(of: evidence)
            // An account may have registered the token before the facts were parked.
            var named = request.named
            if !isRenewal, !outcome.unowned.isEmpty { named = try await holder(of: evidence) }
            if current == groups, named == request.named { return outcome }
            (groups, request.named) = (current, named)
        }
        throw BackendError(.busy, operation: .write, message: "the names of these purchases keep changing; try again")
    }

    /// The account that the evidence names: by its token, or else as the owner of the subscription that is replaced.
    private func holder(of evidence: VerifiedEvidence) async throws(BackendError) -> Account? {
        if let holder = try await tokens.holder(of: evidence.accountToken) { return holder }
        guard let replaced = evidence.replaced else { return nil }
        for line in try await names.lines(named: replaced.name) {
            if let owner = try await lines.owners(of: line).first { return owner }
        }
        return nil
    }

    /// Gives the lines that wait for `token` to `account`, to which the token belongs now.
    func claimLines(waitingFor token: String, for account: Account) async throws(BackendError) {
        for line in try await parked.lines(waitingFor: token) {
            let group = TransactionNames.Group(line: line, facts: [])
            let request = Request(named: account, caller: nil, restoredAt: nil, token: nil)
            // Nothing is claimed for an account that was erased in the meantime.
            guard try await record([group], request).unowned.isEmpty else { continue }
            try await parked.endWaiting(line, for: token)
        }
    }

    private func record(
        _ groups: [TransactionNames.Group], _ request: Request
    ) async throws(BackendError) -> Outcome {
        var outcome = Outcome()
        var facts: [TransactionReference: [Fact]] = [:]
        var pending = groups
        for _ in 0..<Self.roundCount {
            var shares: [Account: [TransactionNames.Group]] = [:]
            var leftovers: [(name: TransactionReference, version: EntryVersion, line: TransactionReference)] = []
            for var group in pending {
                let settlement = try await settle(group, request)
                switch settlement {
                case .refused: outcome.refused.append(group.line)
                case .unowned:
                    outcome.unowned.append(group.line)
                    // A renewal info may be of any app, so it is not kept.
                    guard request.mayClaim else { continue }
                    leftovers += try await park(group, request.token).map { ($0.0, $0.1, group.line) }
                    // The first owner may have claimed the line before the facts were parked.
                    guard try await !lines.owners(of: group.line).isEmpty else { continue }
                    fallthrough
                case .owned:
                    let stated = group.facts
                    var accounts: [Account] = []
                    if case .owned(let owners, let known) = settlement {
                        accounts = owners
                        group.facts += known
                    } else {
                        accounts = try await lines.owners(of: group.line)
                    }
                    let names = group.otherNames.union([group.line])
                    leftovers += try await addParked(to: &group, under: names).map { ($0.0, $0.1, group.line) }
                    for account in accounts { shares[account, default: []].append(group) }
                    if let caller = request.caller, !accounts.contains(caller) {
                        outcome.refused.append(group.line)
                    } else {
                        facts[group.line] = stated
                    }
                }
            }
            var lost: Set<TransactionReference> = []
            for (account, groups) in shares.sorted(by: { $0.key < $1.key }) {
                lost.formUnion(try await write(groups, to: account))
            }
            // Lines may share facts under one name. Facts that arrived in the meantime are written in the next round.
            let needed = Set(leftovers.filter { lost.contains($0.line) }.map(\.name))
            for leftover in leftovers where !needed.contains(leftover.name) {
                if try await !parked.remove(leftover.name, if: leftover.version) { lost.insert(leftover.line) }
            }
            pending = pending.filter { lost.contains($0.line) }
            guard !pending.isEmpty else {
                outcome.facts = groups.flatMap { facts[$0.line] ?? [] }
                return outcome
            }
            for line in lost { facts[line] = nil }
            outcome.refused.removeAll(where: lost.contains)
            outcome.unowned.removeAll(where: lost.contains)
        }
        throw BackendError(.busy, operation: .write, message: "the owners of these lines keep changing; try again")
    }

    /// Finds the owners of a line, and changes them if the claim asks for it and may.
    private func settle(
        _ group: TransactionNames.Group, _ request: Request
    ) async throws(BackendError) -> Settlement {
        let line = group.line
        var claim = LineOwners.Claim(
            line: line, named: request.mayClaim ? request.named : nil, caller: request.caller,
            restoredAt: request.restoredAt)
        for _ in 0..<32 {
            let (record, version) = try await lines.read(line)
            if !request.mayClaim {
                guard let owners = record?.owners.compactMap(\.account.account), !owners.isEmpty else {
                    return .unowned
                }
                return request.caller.map(owners.contains) ?? true ? .owned(owners, known: []) : .refused
            }
            let now = writer.now()
            let isHeld = try await isHeld(line, record, claim, now)
            let verdict = LineOwners.verdict(on: claim, record, policy: lines.policy, now: now, isHeld: isHeld)
            switch verdict {
            case .owned(let accounts):
                guard lines.policy == .share, let caller = claim.caller, accounts[0] != caller else {
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
                if try await lines.add(account, to: line, record, if: version, now: now) {
                    return .owned([account], known: [])
                }
            case .shared(let owners, let account):
                let known = try await writer.read(owners[0]).facts(ofLine: line)
                if try await lines.add(account, to: line, record, if: version, now: now) {
                    return .owned(owners + [account], known: known)
                }
            case .moved(let loser, let winner, let isRestore):
                guard let record, let version else { continue }
                _ = try await transfers.move(
                    line, from: loser, to: winner, record, if: version, isRestore: isRestore, facts: group.facts,
                    now: now)
            }
        }
        throw BackendError(.busy, operation: .write, message: "the owner of this line keeps changing; try again")
    }

    /// Returns `true` unless the claim of the owner may be free: it is old, and the owner's server ledger lacks the
    /// line.
    func isHeld(
        _ line: TransactionReference, _ record: LineOwners.Record?, _ claim: LineOwners.Claim, _ now: Int64
    ) async throws(BackendError) -> Bool {
        guard lines.policy != .share, let caller = claim.caller, let first = record?.owners.first,
            let owner = first.account.account, owner != caller, now - first.since >= LineOwners.freeAfter
        else { return true }
        return try await !writer.read(owner).facts(ofLine: line).isEmpty
    }

    /// Keeps the facts of a line without an owner, under the name of the line.
    ///
    /// - Returns: The other keys of the facts and their versions. They are removed once all lines are written.
    private func park(
        _ group: TransactionNames.Group, _ token: String?
    ) async throws(BackendError) -> [(TransactionReference, EntryVersion)] {
        var group = group
        let found = try await addParked(to: &group, under: group.otherNames)
        try await parked.park(group.facts, of: group.line, token: token)
        return found
    }

    /// Adds the facts that wait for an owner of the line, or for its purchase, under `names`.
    ///
    /// - Returns: The keys of the facts and their versions, to be removed once the facts are written.
    private func addParked(
        to group: inout TransactionNames.Group, under names: Set<TransactionReference>
    ) async throws(BackendError) -> [(TransactionReference, EntryVersion)] {
        var found: [(TransactionReference, EntryVersion)] = []
        for name in names.sorted() {
            guard let held = try await parked.facts(of: name) else { continue }
            var facts: [Fact] = []
            for fact in held.facts { facts += try await self.names.facts(of: fact, about: group.line) }
            // Only tokens may wait under the name of a line.
            guard !facts.isEmpty || held.facts.isEmpty && name == group.line else { continue }
            group.facts += facts
            found.append((name, held.version))
        }
        return found
    }

    /// Writes facts into the server ledger of `account`.
    ///
    /// - Returns: The lines that `account` does not own now. Nothing was written about them.
    private func write(
        _ groups: [TransactionNames.Group], to account: Account
    ) async throws(BackendError) -> Set<TransactionReference> {
        let all = groups.map(\.line)
        var lineOf: [TransactionReference: TransactionReference] = [:]
        for group in groups {
            for fact in group.facts { if let purchase = fact.purchase { lineOf[purchase.transaction] = group.line } }
        }
        let known = lineOf
        try await claims.own(known.keys.sorted(), for: account, writer: writer) {
            (transaction) async throws(BackendError) in
            guard let line = known[transaction] else { return false }
            return try await lines.lines(of: account, among: [line]).contains(line)
        }
        let now = Timestamp(milliseconds: writer.now())
        var owned: Set<TransactionReference> = []
        let version = try await writer.update(account) { (ledger) async throws(BackendError) in
            // After the ledger was read, see ``LineOwners``.
            owned = try await lines.lines(of: account, among: all)
            let facts = groups.filter { owned.contains($0.line) }.flatMap(\.facts)
            _ = ledger.add(facts, catalog: writer.catalog, at: now)
        }
        // An empty ledger that stays empty has no version, but its account may exist.
        if version == nil, try await !writer.records.isActive(account) { return Set(all) }
        return Set(all).subtracting(owned)
    }
}
