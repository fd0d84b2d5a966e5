import EntitlementSync
import Entitlements
import StoreEvidence
import SyncCore

/// Writes verified evidence into the server ledgers of the accounts to which its lines belong.
struct EvidenceRecorder: Sendable {
    let names: TransactionNames
    let owners: Owners
    let tokens: AccountTokens
    let parked: ParkedFacts
    /// Receives the error of an account's damaged ledger that only concerns others; `nil` to throw it.
    let onDamage: (@Sendable (BackendError) -> Void)?

    var writer: ServerLedgerWriter { owners.writer }

    init(
        _ owners: Owners, _ configuration: ServiceConfiguration, _ host: HostServices,
        onDamage: (@Sendable (BackendError) -> Void)? = nil
    ) {
        (self.owners, self.onDamage) = (owners, onDamage)
        let records = owners.records
        names = TransactionNames(records: records)
        tokens = AccountTokens(records: records, host: host)
        parked = ParkedFacts(store: records.backend, limit: configuration.evidence.parkedByteLimit)
    }

    /// A recorder for a program that works beside the servers of a store. It leaves the policy of each account as the
    /// server has stated it.
    init(besideServer records: RecordStore, _ configuration: ServiceConfiguration, _ host: HostServices) {
        let writer = ServerLedgerWriter(
            records: records, decoder: LedgerDecoder(), policy: nil, catalog: configuration.catalog, now: host.now)
        self.init(Owners(records: records, policy: configuration.ownership, writer: writer), configuration, host)
    }

    /// Counts the parked facts, and finishes the transfers that were interrupted.
    func start(onError: (BackendError) -> Void) async throws(BackendError) {
        try await parked.load()
        try await owners.finishTransfers(onError: onError)
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
    struct Request: Sendable {
        var named: Account?
        var caller: Account?
        var restoredAt: Timestamp?
        var token: String?
        /// True if the evidence may give a line without an owner its first one.
        var mayClaim = true
        /// The person or program that moves lines of other accounts to the caller for support; `nil` for none.
        var transferActor: String?
        /// The owners as support has seen them. A line with other owners is refused; `nil` for any.
        var fence: OwnerFence?
    }

    /// The answers about lines, and what has to be written for them.
    private struct Round {
        var answers: [TransactionReference: Outcome] = [:]
        /// The facts to write, by account.
        var shares: [Account: [TransactionNames.Group]] = [:]
        /// Parked facts that are part of the shares. They are removed once the shares are written.
        var leftovers: [Leftover] = []
    }

    /// Parked facts under one name, which were added to the facts about `line`.
    struct Leftover: Sendable {
        var name: TransactionReference
        var version: EntryVersion
        var line: TransactionReference
    }

    private static let roundCount = 8

    /// Records `evidence`. Repeating it changes nothing.
    ///
    /// - Parameters:
    ///   - caller: The account that sent it; `nil` for a store.
    ///   - isRestore: True for an explicit restore, which may move lines to the caller.
    ///   - transferActor: The person or program that moves lines of other accounts to the caller for support.
    ///   - fence: The owners from which a line may be taken; `nil` for any.
    func record(
        _ evidence: VerifiedEvidence, from caller: Account?, isRestore: Bool, transferActor: String? = nil,
        fence: OwnerFence? = nil
    ) async throws(BackendError) -> Outcome {
        let isTransaction = evidence.kind == .appStoreTransaction || evidence.kind == .googlePlay
        // A renewal info names no app, so it counts only for a line that is known.
        let isRenewal = evidence.kind == .appStoreRenewal
        var request = Request(
            named: isRenewal ? nil : try await holder(of: evidence), caller: caller,
            restoredAt: isRestore && isTransaction ? evidence.signedDate : nil, token: evidence.accountToken,
            mayClaim: !isRenewal, transferActor: transferActor, fence: fence)
        let evidence = try await withKnownNames(try await withTestPurchases(evidence))
        var groups = try await names.groups(of: try await withEnds(evidence))
        for _ in 0..<Self.roundCount {
            let outcome = try await record(groups, request)
            // A purchase may have become known after a refund was parked under another name of it.
            let current = try await names.groups(of: try await withEnds(evidence))
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
            if let owner = try await owners.accounts(of: line).first { return owner }
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

    /// Settles and writes `groups`, in rounds: a line whose owner changes meanwhile is settled again.
    func record(
        _ groups: [TransactionNames.Group], _ request: Request
    ) async throws(BackendError) -> Outcome {
        var answers: [TransactionReference: Outcome] = [:]
        var pending = groups
        for _ in 0..<Self.roundCount {
            var round = Round()
            for group in pending { try await place(group, request, in: &round) }
            let lost = try await write(round)
            answers.merge(round.answers) { $1 }
            pending.removeAll { !lost.contains($0.line) }
            guard pending.isEmpty else { continue }
            return groups.compactMap { answers[$0.line] }.reduce(into: Outcome()) { sum, answer in
                sum.facts += answer.facts
                sum.refused += answer.refused
                sum.unowned += answer.unowned
            }
        }
        throw BackendError(.busy, operation: .write, message: "the owners of these lines keep changing; try again")
    }

    /// Settles a line, and adds its facts to the shares of its owners, or parks them.
    private func place(
        _ group: TransactionNames.Group, _ request: Request, in round: inout Round
    ) async throws(BackendError) {
        switch try await settle(group, request) {
        case .refused: round.answers[group.line] = Outcome(refused: [group.line])
        case .owned(let accounts, let known):
            try await share(group, adding: known, among: accounts, request, in: &round)
        case .unowned:
            round.answers[group.line] = Outcome(unowned: [group.line])
            // A renewal info may be of any app, so it is not kept.
            guard request.mayClaim else { return }
            var group = group
            round.leftovers += try await park(&group, request.token)
            try await giveRefunds(group)
            // The first owner may have claimed the line before the facts were parked.
            let accounts = try await owners.accounts(of: group.line)
            if !accounts.isEmpty { try await share(group, among: accounts, request, in: &round) }
        }
    }

    /// Adds the facts about a line, and those that wait for its owner, to the shares of its owners.
    ///
    /// - Parameter known: Facts that a new owner needs. They are no part of the answer.
    private func share(
        _ group: TransactionNames.Group, adding known: [Fact] = [], among owners: [Account], _ request: Request,
        in round: inout Round
    ) async throws(BackendError) {
        var share = group
        share.facts += known
        round.leftovers += try await addParked(to: &share, under: group.otherNames.union([group.line]))
        for owner in owners { round.shares[owner, default: []].append(share) }
        let isAnothers = request.caller.map { !owners.contains($0) } ?? false
        round.answers[group.line] = isAnothers ? Outcome(refused: [group.line]) : Outcome(facts: group.facts)
    }

    /// Writes the shares, and removes the parked facts that are part of them.
    ///
    /// - Returns: The lines to settle again, because their owner changed or facts arrived in the meantime.
    private func write(_ round: Round) async throws(BackendError) -> Set<TransactionReference> {
        var lost: Set<TransactionReference> = []
        for (account, groups) in round.shares.sorted(by: { $0.key < $1.key }) {
            lost.formUnion(try await write(groups, to: account))
        }
        if owners.policy == .share {
            lost.formUnion(try await joinedLines(round))
            let groups = Dictionary(round.shares.values.joined().map { ($0.line, $0) }) { first, _ in first }
            for group in groups.values.sorted(by: { $0.line < $1.line }) { try await giveRefunds(group) }
        }
        // Lines may share facts under one name.
        let needed = Set(round.leftovers.filter { lost.contains($0.line) }.map(\.name))
        for leftover in round.leftovers where !needed.contains(leftover.name) {
            if try await !parked.remove(leftover.name, if: leftover.version) { lost.insert(leftover.line) }
        }
        return lost
    }

    /// The lines of the shares that have got a further owner, who may have read the facts of the others before these
    /// were written.
    private func joinedLines(_ round: Round) async throws(BackendError) -> Set<TransactionReference> {
        var joined: Set<TransactionReference> = []
        for line in Set(round.shares.values.joined().map(\.line)) {
            let known = round.shares.filter { $0.value.contains { $0.line == line } }.keys
            if try await !Set(owners.accounts(of: line)).isSubset(of: known) { joined.insert(line) }
        }
        return joined
    }

    /// Writes facts into the server ledger of `account`.
    ///
    /// - Returns: The lines that `account` does not own now. Nothing was written about them.
    private func write(
        _ groups: [TransactionNames.Group], to account: Account
    ) async throws(BackendError) -> Set<TransactionReference> {
        let all = groups.map(\.line)
        // A purchase proves its transaction and the name of its line.
        var confirmed: [TransactionReference: TransactionReference] = [:]
        for group in groups {
            for transaction in group.facts.compactMap(\.purchase?.transaction) {
                confirmed[group.line] = group.line
                confirmed[transaction] = group.line
            }
        }
        try await owners.confirm(confirmed, of: account)
        let now = Timestamp(milliseconds: writer.now())
        var owned: Set<TransactionReference> = []
        let version = try await writer.update(account) { (ledger) async throws(BackendError) in
            // After the ledger was read, see ``Owners``.
            owned = try await owners.lines(of: account, among: all)
            let facts = groups.filter { owned.contains($0.line) }.flatMap(\.facts)
            _ = ledger.add(facts, catalog: writer.catalog, at: now)
        }
        // An empty ledger that stays empty has no version, but its account may exist.
        if version == nil, try await !writer.records.isActive(account) {
            // The erasure may not have seen these claims.
            try await owners.release(confirmed.keys.sorted(), of: account)
            return Set(all)
        }
        return Set(all).subtracting(owned)
    }
}
