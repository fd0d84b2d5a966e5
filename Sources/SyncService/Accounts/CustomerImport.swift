import EntitlementSync
package import Entitlements
import StoreEvidence
package import SyncCore

/// Creates accounts for the customers of another system, with their purchases in the server's ledgers.
///
/// An account is found by its external id, so an import can be repeated: what is there stays as it is, and a newer
/// statement about a purchase replaces the older one. The purchases are unsigned statements about the transactions of
/// the stores. A statement that a store has signed about the same transaction replaces them, so nothing counts twice.
package struct CustomerImport: Sendable {
    private let records: RecordStore
    private let recorder: EvidenceRecorder
    private let accounts: AccountImport
    private let external: ExternalIDs
    private let catalog: Catalog
    private let issuer: String?
    private let now: @Sendable () -> Int64

    /// A customer of the other system, or a part of its purchases.
    package struct Customer: Sendable {
        /// The id in the app's backend, or an anonymous id of the other system.
        package var id: String
        /// Further ids of the other system.
        package var otherIDs: [String]
        /// The earliest known date of the customer.
        package var created: Timestamp
        /// Purchases and revocations.
        package var facts: [Fact]
        /// The names that stand for purchases, as in a refund.
        package var aliases: [TransactionReference: Set<TransactionReference>]

        /// Creates a customer.
        package init(
            id: String, otherIDs: [String] = [], created: Timestamp, facts: [Fact] = [],
            aliases: [TransactionReference: Set<TransactionReference>] = [:]
        ) {
            (self.id, self.otherIDs, self.created) = (id, otherIDs, created)
            (self.facts, self.aliases) = (facts, aliases)
        }

        fileprivate var evidence: VerifiedEvidence {
            VerifiedEvidence(kind: .support, facts: facts, signedDate: nil, aliases: aliases)
        }
    }

    /// The outcome for a customer.
    package struct Outcome: Hashable, Sendable {
        /// The name of the account; `nil` if the customer was not imported.
        package var account: String?
        /// True if the account was not there.
        package var isNew = false
        /// The number of purchases that the account had not.
        package var added = 0
        /// The number of purchases that the account had.
        package var present = 0
        /// The purchases that belong to another account.
        package var held: [TransactionReference] = []
        /// The reason for which the customer, or an id of it, was not imported; `nil` if all was.
        package var refusal: String?
    }

    /// Imports into the store of a server.
    ///
    /// - Parameters:
    ///   - catalog: The catalogue that gives terms to purchases.
    ///   - issuer: The issuer whose tokens have the customers' ids as subjects; `nil` for accounts of this server,
    ///     which have no password yet.
    package init(
        _ store: any KeyValueBackend, _ accounts: AccountImport, catalog: Catalog, issuer: String?,
        host: HostServices = .system
    ) {
        records = RecordStore(backend: store)
        recorder = EvidenceRecorder(
            besideServer: records, ServiceConfiguration(name: "import", catalog: catalog), host)
        (self.accounts, self.catalog, self.issuer, now) = (accounts, catalog, issuer, host.now)
        external = ExternalIDs(records: records, host: host)
    }

    /// Appends the entry of this import to the audit list, before anything is written.
    package func begin(actor: String, detail: String) async throws {
        try await OwnersMigration(records: records) { _ in }.check()
        try await ClockRollbackGuard.check(now(), against: records)
        let date = "\(Timestamp(milliseconds: now()))"
        try await AuditLog(store: records.backend).append(
            AuditLog.Entry(date: date, act: "import", account: "", actor: actor, detail: detail))
    }

    /// Imports different customers, many at a time.
    ///
    /// - Returns: The outcomes, in the order of the customers.
    package func add(_ customers: [Customer]) async throws -> [Outcome] {
        var outcomes = [Outcome](repeating: Outcome(), count: customers.count)
        try await withThrowingTaskGroup(of: (Int, Outcome).self) { group in
            for (index, customer) in customers.enumerated() { group.addTask { (index, try await add(customer)) } }
            for try await (index, outcome) in group { outcomes[index] = outcome }
        }
        return outcomes
    }

    private func add(_ customer: Customer) async throws -> Outcome {
        if let objection = ExternalIDs.objection(to: customer.id) { return Outcome(refusal: objection) }
        var outcome = Outcome()
        do {
            var account = try await known(customer)
            if account == nil {
                account = try await create(customer)
                outcome.isNew = true
            }
            guard let account else { return Outcome(refusal: "the account was erased") }
            outcome.account = account.name
            outcome.refusal = try await name(account, customer)
            let former = Set(try await recorder.writer.read(account).facts.compactMap(\.purchase?.transaction))
            let result = try await recorder.record(customer.evidence, from: account, isRestore: false)
            outcome.held = result.refused
            let stored = Set(result.facts.compactMap(\.purchase?.transaction))
            (outcome.added, outcome.present) = (stored.subtracting(former).count, stored.intersection(former).count)
        } catch let refusal as AccountImport.AccountRefusal {
            outcome.refusal = refusal.reason
        } catch let refusal as RequestError {
            outcome.refusal = refusal.detail
        } catch let error as BackendError where error.cause is LedgerFull {
            outcome.refusal = "the server ledger is full: \(error.message)"
        }
        return outcome
    }

    /// The preview of an import.
    package struct Preview: Sendable {
        /// The name of the account.
        package var account: String
        /// True if the account is not there.
        package var isNew: Bool
        /// The purchases that belong to another account.
        package var held: Set<TransactionReference>
        /// The facts that the account would have.
        package var facts: Facts
        /// The number of purchases that would be added, and of those that the account has.
        package var added = 0
        package var present = 0
        /// The reason for which the customer would not be imported.
        package var refusal: String?
    }

    /// The outcome of an import of `customer`, as far as the store shows without a change.
    package func preview(_ customer: Customer) async throws -> Preview {
        var preview = Preview(
            account: Self.name(of: customer.id), isNew: true, held: [], facts: Facts(account: Ledger()),
            refusal: ExternalIDs.objection(to: customer.id))
        guard preview.refusal == nil else { return preview }
        let account = try await known(customer)
        if let account { (preview.account, preview.isNew) = (account.name ?? "", false) }
        let review = try await recorder.review(
            customer.evidence, for: account ?? (try accounts.account(preview.account)))
        preview.held = Set(review.held.map(\.0))
        var server = ServerLedger()
        var ledger = Ledger()
        if let account {
            (server, ledger) = (try await recorder.writer.read(account), try await recorder.ledger(of: account))
        }
        let own = customer.facts.filter { $0.purchase.map { !preview.held.contains($0.line) } ?? true }
        let former = Set(server.facts.compactMap(\.purchase?.transaction))
        let stated = Set(own.compactMap(\.purchase?.transaction))
        (preview.added, preview.present) = (stated.subtracting(former).count, stated.intersection(former).count)
        _ = server.add(own, catalog: catalog, at: Timestamp(milliseconds: now()))
        preview.facts = Facts(account: ledger, server: server.ledger)
        return preview
    }

    // MARK: Accounts

    /// The prefix of the ids that the other system gives to customers who are not logged in.
    package static let anonymousPrefix = "$RCAnonymousID:"

    private static func isAnonymous(_ id: String) -> Bool { id.hasPrefix(anonymousPrefix) }

    /// The account's name for an id: that of a guest for an anonymous id, the id itself if an account can have it as a
    /// name, and otherwise a digest of it.
    package static func name(of id: String) -> String {
        if isAnonymous(id) {
            let guest = "guest-" + id.dropFirst(anonymousPrefix.count).lowercased()
            if (try? Account(guest))?.isGuest == true { return guest }
        }
        return AccountName.objection(to: id) == nil ? id : digestName(of: id)
    }

    private static func digestName(of id: String) -> String { "customer-" + hexadecimalDigest(of: id).prefix(32) }

    /// The account that a customer has already: by an external id, by a former id, or as a subject of the issuer.
    private func known(_ customer: Customer) async throws(BackendError) -> Account? {
        let ids = [customer.id] + customer.otherIDs
        for id in ids {
            if let account = try await external.resolve(id) { return account }
        }
        for id in ids where Self.isAnonymous(id) {
            let name = try await AccountAliases(records: records).resolve(id)
            guard name != id else { continue }
            if let account = try await records.account(name)?.value.activeAccount { return account }
        }
        guard let issuer, AccountName.canExist(customer.id) else { return nil }
        let record = try await records.account(customer.id)?.value
        return record?.issuer == issuer ? record?.activeAccount : nil
    }

    /// Creates the account of a customer, or completes one that an interrupted import created.
    ///
    /// - Returns: `nil` if it was erased since an earlier import.
    private func create(_ customer: Customer) async throws -> Account? {
        let name = Self.name(of: customer.id)
        do {
            return try await create(name, customer)
        } catch is AccountImport.AccountRefusal {
            // The name means another account, which may be that of another customer.
            return try await create(Self.digestName(of: customer.id), customer)
        }
    }

    private func create(_ name: String, _ customer: Customer) async throws -> Account? {
        let account = try accounts.account(name)
        let state = try await accounts.create(
            account, alias: name, password: nil, created: customer.created.milliseconds,
            issuer: name == customer.id ? issuer : nil)
        return state == .erased ? nil : account
    }

    /// Gives an account its external id, and its anonymous ids as further names.
    ///
    /// - Returns: The reason for which it does not get the id.
    private func name(_ account: Account, _ customer: Customer) async throws -> String? {
        let own = try await external.ids(of: [account])[account]
        if own == nil || own.map(Self.isAnonymous) == true && !Self.isAnonymous(customer.id) {
            try await external.attach(customer.id, to: account)
        }
        if try await records.account(account.name ?? "")?.value.issuer == nil {
            let aliases = AccountAliases(records: records)
            for id in customer.otherIDs + [own ?? ""] where Self.isAnonymous(id) && AccountName.objection(to: id) == nil
            {
                if try await aliases.resolve(id) == id { _ = try await aliases.reserve(id, for: account) }
            }
        }
        let isOther = own.map { !Self.isAnonymous($0) && !$0.utf8.elementsEqual(customer.id.utf8) } ?? false
        return isOther && !Self.isAnonymous(customer.id)
            ? "the account has another external id already; its purchases were imported" : nil
    }
}
