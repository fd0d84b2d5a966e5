import EntitlementSync
import Entitlements
import SyncCore

/// The part of a server that verifies evidence: it owns the server ledgers of accounts, receives evidence of devices
/// and notifications of the store, and states the trust policy. Single-threaded.
///
/// It uses the ledger type of production, ``ServerLedger``. A line belongs to the first account that presents evidence
/// of it, or to the account whose token the purchase carries. Genuine evidence is what the simulated store has signed.
final class SimulatedServer: @unchecked Sendable {
    /// The state besides the server ledgers.
    private struct Books {
        var owners: [TransactionReference: Account] = [:]
        /// Notifications about lines without an owner.
        var parked: [TransactionReference: [StoreStatement]] = [:]
    }

    private let policy: TrustPolicy
    private let catalog: Catalog
    private unowned let world: World
    private var books = Books()
    private var copy = Books()
    /// The statements that the store has signed, by their bytes.
    private var signed: [[UInt8]: StoreStatement] = [:]

    init(_ policy: TrustPolicy, catalog: Catalog, world: World) {
        (self.policy, self.catalog, self.world) = (policy, catalog, world)
    }

    /// Registers a statement as signed by the store.
    func sign(_ statement: StoreStatement) { signed[statement.data()] = statement }

    func backUp() { copy = books }
    func putBack() { books = copy }
    func wipe() { books = Books() }

    /// The owner of a line; `nil` if it has none.
    func owner(of line: TransactionReference) -> Account? {
        guard let owner = books.owners[line], !isErased(owner) else { return nil }
        return owner
    }

    /// Answers evidence that a client of `account` sends.
    func submit(_ evidence: [[UInt8]], account: Account) async throws(BackendError) -> [EvidenceAnswer] {
        var answers: [EvidenceAnswer] = []
        for data in evidence {
            guard let statement = signed[data] else {
                world.auditor.didRefuse(data, nil, of: account, .evidenceRefused)
                answers.append(.refused(code: "evidence-refused", detail: "the store did not sign it"))
                continue
            }
            answers.append(try await record(statement, data, from: account))
        }
        return answers
    }

    private func record(
        _ statement: StoreStatement, _ data: [UInt8], from caller: Account
    ) async throws(BackendError) -> EvidenceAnswer {
        guard !isErased(caller) else {
            world.auditor.didRefuse(data, statement, of: caller, nil)
            return .refused(code: "account-erased", detail: "the account was erased")
        }
        let owner = owner(of: statement.line) ?? named(by: statement) ?? caller
        try await record(statement, for: owner)
        guard owner != caller else { return .recorded }
        world.auditor.didRefuse(data, statement, of: caller, .evidenceOfAnother)
        return .refused(code: "owned-by-another", detail: "the purchase belongs to another account")
    }

    /// Handles a notification of the store.
    func notify(_ statement: StoreStatement) async throws(BackendError) {
        guard let owner = owner(of: statement.line) ?? named(by: statement) else {
            books.parked[statement.line, default: []].append(statement)
            return world.marks.reach(.notificationParked)
        }
        try await record(statement, for: owner)
    }

    private func record(_ statement: StoreStatement, for owner: Account) async throws(BackendError) {
        books.owners[statement.line] = owner
        let parked = books.parked[statement.line] ?? []
        let statements = parked + [statement]
        let now = Timestamp(milliseconds: world.trueTime)
        try await update(owner) { ledger in
            for statement in statements {
                world.auditor.willDeliver(statement, to: owner, ledger)
                _ = ledger.add(statement.facts, catalog: catalog, at: now)
            }
        }
        guard !parked.isEmpty else { return }
        books.parked[statement.line]?.removeAll(where: parked.contains)
        world.marks.reach(.notificationApplied)
    }

    /// The living account whose token the purchase carries.
    private func named(by statement: StoreStatement) -> Account? { statement.account.flatMap(account) }

    /// The living account with this name that has a ledger here.
    func account(_ name: String) -> Account? {
        for key in world.remote.contents.keys {
            guard let place = LedgerPlace(key.text), place.kind == .account, place.name == name else { continue }
            do {
                let account = try Account(name, incarnation: place.incarnation)
                if !isErased(account) { return account }
            } catch { continue }
        }
        return nil
    }

    private func isErased(_ account: Account) -> Bool {
        world.auditor.ledger(of: account, on: nil)?.isErased == true
    }
}

extension SimulatedServer {
    /// The version of the server ledger beside an account's ledger, for the answer about that ledger; `nil` for any
    /// other key. States the policy first.
    func version(beside key: EntryKey?) async throws(BackendError) -> EntryVersion? {
        guard let key, let place = LedgerPlace(key.text), place.kind == .account, let name = place.name else {
            return nil
        }
        return try await update(try Self.account(name, place.incarnation)) { _ in }
    }

    private static func account(_ name: String, _ incarnation: String) throws(BackendError) -> Account {
        do { return try Account(name, incarnation: incarnation) } catch {
            throw BackendError(.other, message: "simulated: \(error)")
        }
    }

    /// Changes a server ledger. Returns its version, or `nil` if it is empty or its account was erased.
    @discardableResult
    private func update(
        _ account: Account, _ change: (inout ServerLedger) -> Void
    ) async throws(BackendError) -> EntryVersion? {
        let key = try LedgerKeys(account).serverLedger
        let contents = world.remote.contents
        while !isErased(account) {
            do throws(BackendError) {
                var ledger = ServerLedger()
                var stored: Entry?
                if case .found(let entry) = try await contents.read(key, unless: nil).outcome {
                    stored = entry
                    do { ledger = ServerLedger(try LedgerDocument(decoding: entry.value).ledger) } catch {
                        throw BackendError(.damaged, operation: .read, key: key, message: "simulated: \(error)")
                    }
                }
                let former = ledger
                _ = ledger.set(policy, at: Timestamp(milliseconds: world.trueTime))
                change(&ledger)
                guard ledger != former else { return stored?.version }
                let bytes = LedgerDocument(ledger: ledger.ledger).encoded()
                let condition = stored.map { Precondition.matches($0.version) } ?? .absent
                if case .written(let version) = try await contents.write(bytes, to: key, if: condition).outcome {
                    return version
                }
            } catch {
                try await world.recover(from: error)
            }
        }
        return nil
    }

    /// Deletes the server ledger of an account whose ledger was erased.
    func didErase(_ place: LedgerPlace) async throws(BackendError) {
        guard let name = place.name else { return }
        let key = try LedgerKeys(try Self.account(name, place.incarnation)).serverLedger
        while true {
            do throws(BackendError) {
                _ = try await world.remote.contents.delete(key, if: .any)
                return
            } catch {
                try await world.recover(from: error)
            }
        }
    }
}
