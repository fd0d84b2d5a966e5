import EntitlementSync
import Entitlements
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Moves lines between accounts, resumably.
///
/// The compare-and-swap of the line's record is the transfer. After it the former owner's server ledger gets
/// `transferred` decisions without a name, and then the new owner's gets the facts. The journal entry
/// `server/transfers/…` exists from before the swap to the end. A server that starts finishes the transfers that were
/// interrupted. Each step may be repeated, also by several servers at the same time. Such a transfer may have two
/// entries in the audit list; both have the date of the swap.
struct LineTransfers: Sendable {
    let records: RecordStore
    let lines: LineOwners
    let writer: ServerLedgerWriter
    let claims: TransactionOwners
    let audit: AuditLog

    /// The journal entry of a transfer.
    struct Journal: Codable, Hashable, Sendable {
        var line: LineName
        var loser: AccountIdentity
        var winner: AccountIdentity
        /// The version of the line's record that the transfer replaces, in hexadecimal.
        var version: String
        /// The record that replaces it.
        var record: LineOwners.Record
        /// True for an explicit restore and for support; `false` if the former owner's server ledger lacks the line.
        var isRestore: Bool
        /// The person or program that moves the line for support; `nil` for a request of the winner.
        var actor: String?
        /// The facts that the winner has presented, as a ledger document.
        var facts: Data

        /// The cause, for the audit list.
        var cause: String {
            if !isRestore { return ", whose claim held nothing" }
            return actor == nil ? " by a restore" : " by support"
        }
    }

    private static let prefix = KeyScope.serverPrefix + "transfers/"

    /// Moves `line` if its record still has `version`.
    ///
    /// - Parameter actor: The person or program that moves it for support; `nil` for a request of `winner`.
    /// - Returns: `false` if the record has changed, or another transfer of the line is not finished yet. The caller
    ///   reads the record again.
    /// - Throws: ``LedgerFull`` as the cause if the winner has no room. Nothing is written then.
    func move(
        _ line: TransactionReference, from loser: Account, to winner: Account, _ record: LineOwners.Record,
        if version: EntryVersion, isRestore: Bool, actor: String?, facts: [Fact], now: Int64
    ) async throws(BackendError) -> Bool {
        let key = try key(of: line)
        if let held = try await records.read(key, as: Journal.self) {
            try await finish(held.value, key, held.version)
            return false
        }
        // The former owner must not lose the line to an account that cannot hold it.
        let known = try await writer.read(loser).facts(ofLine: line)
        try await writer.checkRoom(for: known + facts, of: winner)
        let next = LineOwners.Record(
            owners: [.init(account: AccountIdentity(winner), since: now)],
            transferred: isRestore ? now : record.transferred)
        let journal = Journal(
            line: LineName(line), loser: AccountIdentity(loser), winner: AccountIdentity(winner),
            version: "\(version)", record: next, isRestore: isRestore, actor: actor,
            facts: Data(LedgerDocument(ledger: Ledger(facts.map(\.record))).encoded()))
        guard try await records.replace(key, with: journal, if: nil),
            let held = try await records.read(key, as: Journal.self)
        else { return false }
        return try await finish(held.value, key, held.version)
    }

    /// Finishes the transfers that were interrupted.
    ///
    /// - Parameter onError: Receives the error of a journal entry that is damaged, or whose facts are too large for a
    ///   server ledger. The entry stays for the operator to see, and the others are finished.
    func resume(onError: (BackendError) -> Void) async throws(BackendError) {
        var after: EntryKey?
        repeat {
            let page = try await records.backend.list(prefix: Self.prefix, after: after, limit: 1_000).outcome
            for item in page.items {
                do throws(BackendError) {
                    guard let held = try await records.read(item.key, as: Journal.self) else { continue }
                    try await finish(held.value, item.key, held.version)
                } catch {
                    guard error.kind == .damaged || error.kind == .tooLarge else { throw error }
                    onError(error)
                }
            }
            after = page.next
        } while after != nil
    }

    /// Performs the steps of a transfer that have not happened yet, and removes its journal entry.
    ///
    /// - Returns: `false` if the line's record has changed before the swap. Nothing has moved then.
    @discardableResult
    private func finish(
        _ journal: Journal, _ key: EntryKey, _ version: EntryVersion
    ) async throws(BackendError) -> Bool {
        let line = journal.line.reference
        let isMoved = try await swap(journal, line)
        if isMoved {
            let facts = try await takeFromLoser(journal, line)
            try await giveToWinner(journal, line, facts)
            try await audit.append(
                AuditLog.Entry(
                    date: "\(Timestamp(milliseconds: journal.record.owners.first?.since ?? 0))", act: "transfer",
                    account: journal.winner.account?.name ?? "", line: "\(line)", actor: journal.actor ?? "server",
                    detail: "from \(journal.loser.account?.name ?? "")\(journal.cause)"))
        }
        _ = try await records.replace(key, with: Journal?.none, if: version)
        return isMoved
    }

    private func swap(_ journal: Journal, _ line: TransactionReference) async throws(BackendError) -> Bool {
        let key = try LineOwners.key(of: line)
        for _ in 0..<32 {
            guard let held = try await records.read(key, as: LineOwners.Record.self) else { return false }
            // The swap happened before the interruption.
            if held.value == journal.record { return true }
            guard "\(held.version)" == journal.version else { return false }
            if try await lines.replace(line, with: journal.record, if: held.version) { return true }
        }
        throw BackendError(.busy, operation: .write, key: key, message: "this line keeps changing; try again")
    }

    /// Writes the former owner's decisions.
    ///
    /// - Returns: The facts that the former owner's server ledger has about the line.
    private func takeFromLoser(_ journal: Journal, _ line: TransactionReference) async throws(BackendError) -> [Fact] {
        guard let loser = journal.loser.account else { return [] }
        let presented = try Self.facts(of: journal).compactMap(\.purchase?.transaction)
        let now = Timestamp(milliseconds: writer.now())
        try await writer.update(loser) { (ledger) async throws(BackendError) in
            // A later transfer may have given the line back.
            guard try await !lines.lines(of: loser, among: [line]).contains(line) else { return }
            let transactions = Set(ledger.transactions(ofLine: line) + presented).filter { transaction in
                if case .transferred = ledger.decision(about: transaction) { false } else { true }
            }
            if !transactions.isEmpty { ledger.decide(.transferred(to: ""), about: transactions.sorted(), at: now) }
        }
        return try await writer.read(loser).facts(ofLine: line)
    }

    private func giveToWinner(
        _ journal: Journal, _ line: TransactionReference, _ known: [Fact]
    ) async throws(BackendError) {
        guard let winner = journal.winner.account else { return }
        let facts = known + (try Self.facts(of: journal))
        try await claims.own(Set(facts.compactMap(\.purchase?.transaction)).sorted(), for: winner, writer: writer) {
            (_) async throws(BackendError) in try await lines.lines(of: winner, among: [line]).contains(line)
        }
        let now = Timestamp(milliseconds: writer.now())
        // Without the limit, because the loser has lost the line already.
        try await writer.update(winner, isLimited: false) { (ledger) async throws(BackendError) in
            // A later transfer may have taken the line away again.
            guard try await lines.lines(of: winner, among: [line]).contains(line) else { return }
            _ = ledger.add(facts, catalog: writer.catalog, at: now)
        }
    }

    private static func facts(of journal: Journal) throws(BackendError) -> [Fact] {
        do throws(LedgerFormatError) {
            return try LedgerDocument(decoding: Array(journal.facts)).ledger.records.map { Fact($0) }
        } catch {
            throw BackendError(.damaged, operation: .read, message: "the facts of a transfer cannot be read: \(error)")
        }
    }

    private func key(of line: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey(Self.prefix + lines.name(of: line))
    }
}
