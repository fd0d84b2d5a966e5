import EntitlementSync
import Entitlements
import SyncCore

// Purchases that evidence proves, and lines that move between accounts.
//
// The compare-and-swap of the line's record is the transfer. After it the former owners' server ledgers get
// `transferred` decisions without a name, then the new owner's gets the facts, and the audit list an entry. The record
// contains the transfer until then, and `server/transfers/…` finds it from before the swap. A server that starts, each
// request for the line, and the ``Sweeper`` finish a transfer that was interrupted. Each step may be repeated, also by
// several servers at the same time. The record contains the length of the audit list before the swap, so that a
// repetition finds the entry of the transfer instead of appending another one.
extension Owners {
    static let transfersPrefix = KeyScope.serverPrefix + "transfers/"

    /// Confirms that transactions are part of lines that `account` owns by evidence.
    ///
    /// The claim of a client of another account ends, and that account gets a refusal. The claim stays in the record
    /// until the refusal is written, so that a repetition finishes what was interrupted.
    ///
    /// - Parameter lines: The line of each transaction.
    func confirm(
        _ lines: [TransactionReference: TransactionReference], of account: Account
    ) async throws(BackendError) {
        guard policy != .share else { return }
        let transactions = lines.keys.sorted()
        for start in stride(from: 0, to: transactions.count, by: Self.chunkCount) {
            let chunk = Array(transactions[start..<min(start + Self.chunkCount, transactions.count)])
            let stored = try await read(chunk)
            var (new, open): ([TransactionReference], [TransactionReference]) = ([], [])
            for transaction in chunk {
                guard let line = lines[transaction] else { continue }
                guard let held = stored[transaction]?.value else {
                    if transaction != line { new.append(transaction) }
                    continue
                }
                let next = held.confirm(transaction, in: line, of: account, former: [], now: writer.now())
                if next != .done { open.append(transaction) }
            }
            let requests = try new.map { (transaction) throws(BackendError) in
                let bytes = try records.bytes(of: Ownership(line: lines[transaction].map { LineName($0) }))
                return WriteRequest(try Self.key(of: transaction), value: bytes, if: .absent)
            }
            let results = requests.isEmpty ? [] : try await records.backend.write(requests).outcome
            guard results.count == new.count else { throw LedgerRules.incomplete }
            for (transaction, result) in zip(new, results) {
                if case .success(.written) = result { continue }
                open.append(transaction)
            }
            for transaction in open {
                if let line = lines[transaction] { try await confirm(transaction, in: line, of: account) }
            }
        }
    }

    private func confirm(
        _ transaction: TransactionReference, in line: TransactionReference, of account: Account
    ) async throws(BackendError) {
        let key = try Self.key(of: transaction)
        for _ in 0..<32 {
            // An account that has lost the line confirms nothing.
            guard try await lines(of: account, among: [line]).contains(line) else { return }
            let held = try await read(transaction)
            let record = held?.value ?? Ownership()
            var former: [Ownership.Owner] = []
            if let name = record.line?.reference, name != line { former = try await read(name)?.value.owners ?? [] }
            let next: Ownership
            switch record.confirm(transaction, in: line, of: account, former: former, now: writer.now()) {
            case .done: return
            case .write(let record): next = record
            case .refuse(let loser, let record):
                try await refuse(transaction, to: loser)
                next = record
            }
            _ = try await records.replace(key, with: next.isEmpty ? nil : next, if: held?.version)
        }
        throw BackendError(.busy, operation: .write, key: key, message: "this record keeps changing; try again")
    }

    private func refuse(_ transaction: TransactionReference, to account: Account) async throws(BackendError) {
        let now = Timestamp(milliseconds: writer.now())
        try await writer.update(account) { (ledger) async throws(BackendError) in
            switch ledger.decision(about: transaction) {
            case .refused, .transferred: break
            case .accepted, .countsAsOf, nil:
                ledger.decide(.refused(Acceptance.provedByAnother), about: CollectionOfOne(transaction), at: now)
            }
        }
    }

    /// Moves `line` to `winner` if the record still has `version`.
    ///
    /// - Parameters:
    ///   - record: The record of the line without its erased owners, and without an unfinished transfer.
    ///   - actor: The person or program that moves it for support; `nil` for a request of `winner`.
    ///   - facts: The facts that the winner has presented.
    /// - Throws: ``LedgerFull`` as the cause if the winner has no room. Nothing is written then.
    func move(
        _ line: TransactionReference, to winner: Account, _ record: Ownership, if version: EntryVersion,
        isRestore: Bool, actor: String?, facts: [Fact]
    ) async throws(BackendError) {
        // The former owner must not lose the line to an account that cannot hold it.
        let known = try await knownFacts(of: line, record.owners.map(\.account))
        try await writer.checkRoom(for: known + facts, of: winner)
        _ = try await records.backend.write(
            try records.bytes(of: LineName(line)), to: try transferKey(of: line), if: .any)
        try await Self.list(line, for: winner, in: records)
        let next = record.transfer(
            to: winner, isRestore: isRestore, actor: actor, facts: facts, auditCount: try await audit.lastNumber(),
            now: writer.now())
        if try await records.replace(try Self.key(of: line), with: next, if: version) {
            try await finishTransfer(of: line)
        }
    }

    /// Performs the steps of a transfer that have not happened yet.
    ///
    /// - Returns: `false` if `line` is not being transferred.
    @discardableResult
    func finishTransfer(of line: TransactionReference) async throws(BackendError) -> Bool {
        // Read before the record: a later transfer of the line writes the entry again, so it is not removed below.
        let entry = try await records.read(try transferKey(of: line), as: LineName.self)
        guard let record = try await read(line)?.value, let transfer = record.transfer else { return false }
        let presented = try Self.facts(of: transfer)
        for loser in transfer.from.compactMap(\.account) { try await take(line, from: loser, presented) }
        let winner = record.owners.first
        if let account = winner?.account.account {
            try await give(line, to: account, try await knownFacts(of: line, transfer.from) + presented)
        }
        let losers = transfer.from.map { $0.account?.name ?? "" }.joined(separator: ", ")
        try await audit.append(
            AuditLog.Entry(
                date: "\(Timestamp(milliseconds: winner?.since ?? writer.now()))", act: "transfer",
                account: winner?.account.account?.name ?? "", line: "\(line)", actor: transfer.actor ?? "server",
                detail: "from \(losers)\(transfer.cause)"),
            unlessAfter: transfer.auditCount ?? 0)
        try await change(line) { record in
            guard record.transfer == transfer, record.owners.first == winner else { return record }
            var next = record
            next.transfer = nil
            return next
        }
        if let entry {
            _ = try await records.replace(try transferKey(of: line), with: LineName?.none, if: entry.version)
        }
        return true
    }

    /// Finishes the transfers that were interrupted, except those whose swap has not happened: another server may be
    /// about to swap, so they are left to ``endTransfer(_:)``.
    ///
    /// - Parameter onError: Receives the error of a transfer that is damaged, or whose facts are too large for a
    ///   server ledger. It stays for the operator to see, and the others are finished.
    func finishTransfers(onError: (BackendError) -> Void) async throws(BackendError) {
        try await records.backend.forEachPage(under: Self.transfersPrefix, limit: 1_000) {
            (page) async throws(BackendError) in
            for item in page.items {
                do throws(BackendError) {
                    guard let held = try await records.read(item.key, as: LineName.self) else { continue }
                    try await finishTransfer(of: held.value.reference)
                } catch {
                    guard error.kind == .damaged || error.kind == .tooLarge else { throw error }
                    onError(error)
                }
            }
        }
    }

    /// Finishes the transfer that `item` announces, an entry under ``transfersPrefix``. If its swap has not happened,
    /// cancels it.
    ///
    /// The server that announced it may be suspended before the swap. So the record is stored again before the entry is
    /// removed: the swap fails then, because the record has another version, and that server begins again.
    func endTransfer(_ item: KeyPage.Item) async throws(BackendError) {
        guard let held = try await records.read(item.key, as: LineName.self), held.version == item.version else {
            return
        }
        let line = held.value.reference
        if try await finishTransfer(of: line) { return }
        if let stored = try await read(line) {
            guard stored.value.transfer == nil,
                try await records.replace(try Self.key(of: line), with: stored.value, if: stored.version)
            else { return }
        }
        _ = try await records.replace(item.key, with: LineName?.none, if: held.version)
    }

    /// The facts that the server ledgers of `accounts` have about `line`.
    private func knownFacts(
        of line: TransactionReference, _ accounts: [AccountIdentity]
    ) async throws(BackendError) -> [Fact] {
        var facts: [Fact] = []
        for account in accounts.compactMap(\.account) { facts += try await writer.read(account).facts(ofLine: line) }
        return facts
    }

    /// Writes a former owner's decisions.
    private func take(
        _ line: TransactionReference, from loser: Account, _ presented: [Fact]
    ) async throws(BackendError) {
        let now = Timestamp(milliseconds: writer.now())
        try await writer.update(loser) { (ledger) async throws(BackendError) in
            // A later transfer may have given the line back.
            guard try await !lines(of: loser, among: [line]).contains(line) else { return }
            let all = Set(ledger.transactions(ofLine: line) + presented.compactMap(\.purchase?.transaction))
            let transactions = all.filter { transaction in
                if case .transferred = ledger.decision(about: transaction) { false } else { true }
            }
            if !transactions.isEmpty { ledger.decide(.transferred(to: ""), about: transactions.sorted(), at: now) }
        }
    }

    private func give(_ line: TransactionReference, to winner: Account, _ facts: [Fact]) async throws(BackendError) {
        let transactions = facts.compactMap { $0.purchase.map { ($0.transaction, line) } }
        try await confirm(Dictionary(transactions) { first, _ in first }, of: winner)
        let now = Timestamp(milliseconds: writer.now())
        // Without the limit, because the loser has lost the line already.
        try await writer.update(winner, isLimited: false) { (ledger) async throws(BackendError) in
            // A later transfer may have taken the line away again.
            guard try await lines(of: winner, among: [line]).contains(line) else { return }
            _ = ledger.add(facts, catalog: writer.catalog, at: now)
        }
    }

    private static func facts(of transfer: Ownership.Transfer) throws(BackendError) -> [Fact] {
        do throws(LedgerFormatError) {
            return try LedgerDocument(decoding: Array(transfer.facts)).ledger.records.map { Fact($0) }
        } catch {
            throw BackendError(.damaged, operation: .read, message: "the facts of a transfer cannot be read: \(error)")
        }
    }

    private var audit: AuditLog { AuditLog(store: records.backend) }

    func transferKey(of line: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey(Self.transfersPrefix + Self.name(of: line))
    }
}
