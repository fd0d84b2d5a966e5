import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore

// The plans of acts. They read, and write only on a trial store.
extension OperatorActs {
    /// The record of an act that has not begun.
    ///
    /// - Parameters:
    ///   - id: The digest of its idempotency key.
    ///   - isDryRun: True if nothing may be written.
    func plan(_ act: OperatorAct, id: String, isDryRun: Bool = false) async throws -> ActRecord {
        let account = try await account(named: act.account)
        let now = support.now
        let name = account.name ?? act.account
        var record = ActRecord(
            request: act.digest, kind: act.kind, account: AccountIdentity(account), begun: now.milliseconds,
            auditCount: try await support.audit.lastNumber(),
            entry: AuditLog.Entry(date: "\(now)", act: act.kind.rawValue, account: name, actor: act.actor),
            work: ActRecord.Work(),
            outcome: ActOutcome(
                act: act.kind.rawValue, date: "\(now)",
                customer: ActOutcome.State(account: name, before: "{}", after: "{}")))
        (record.entry.reason, record.entry.id) = (act.reason, String(id.prefix(32)))
        switch act.kind {
        case .grant: try await planGrant(act.parameters, account, id: id, &record)
        case .refund, .reinstatement: try await planRefund(act, account, &record)
        case .transfer: try await planTransfer(act.parameters, account, isDryRun: isDryRun, &record)
        case .recovery, .erasure, .sessions:
            guard let service else { throw Self.serverOnly }
            if act.kind == .erasure {
                record.outcome.customer.before = try await access(of: account, in: .production, at: now, support)
            }
            try await service.plan(act.parameters, account, id: id, &record)
        }
        (record.entry.before, record.entry.after) = record.outcome.changes
        return record
    }

    /// The account that an operator means: by its name, by another name of it, or by its external id.
    func account(named name: String) async throws -> Account {
        try await ExternalIDs(records: records, host: support.host).customer(name)
    }

    /// The access of an account, as JSON.
    private func access(
        of account: Account, in environment: EnvironmentID, at now: Timestamp, _ support: SupportActs
    ) async throws -> String {
        let replay = Replay(try await support.facts(of: account), catalog: support.catalog, environment: environment)
        let access = replay.snapshot(at: now).access.map { ($0.entitlement.rawValue, $0.access.json) }
        return JSON.object([("access", .object(access))]).canonicalText
    }

    /// Tries what `evidence` does for `receiver`, and completes the plan.
    ///
    /// - Parameters:
    ///   - isTransfer: True if the act may take lines from other accounts.
    ///   - group: The group whose end the outcome states; `nil` for none.
    private func complete(
        _ record: inout ActRecord, _ evidence: VerifiedEvidence, for receiver: Account, _ environment: EnvironmentID,
        isTransfer: Bool, group: GroupID? = nil
    ) async throws {
        let now = Timestamp(milliseconds: record.begun)
        let customer = record.account.account ?? receiver
        record.work.set(evidence)
        if isTransfer {
            // Read before the review, so that what happens later refuses the act.
            var fence = OwnerFence()
            for line in Set(evidence.facts.compactMap(\.purchase?.line)).sorted() {
                fence.add(try await support.recorder.owners.living(line).record, of: line)
            }
            record.work.fence = fence
        }
        let tried = support.tried(on: TrialStore(records.backend, host: support.host))
        record.outcome.customer.before = try await access(of: customer, in: environment, at: now, support)
        if receiver != customer {
            let before = try await access(of: receiver, in: environment, at: now, support)
            record.outcome.receiver = ActOutcome.State(account: receiver.name ?? "", before: before, after: "")
            record.work.receiver = AccountIdentity(receiver)
        }
        let consequences = try await tried.consequences(of: evidence, for: receiver, isTransfer: isTransfer)
        try await tried.write(
            evidence, consequences.review, for: receiver, transferActor: isTransfer ? record.entry.actor : nil)
        record.outcome.customer.after = try await access(of: customer, in: environment, at: now, tried)
        if receiver != customer {
            record.outcome.receiver?.after = try await access(of: receiver, in: environment, at: now, tried)
        }
        let lines = consequences.review.lines
        record.entry.line = lines.count == 1 ? "\(lines[0])" : ""
        record.outcome.takenFrom = consequences.formerOwners.map { $0.name ?? "" }
        // A transfer brings the purchase.
        let known = consequences.unknown.isEmpty ? nil : try await tried.facts(of: receiver)
        let unknown = consequences.unknown.filter { known?[$0] == nil }
        record.outcome.warnings =
            evidence.warnings
            + unknown.map { "the account has no purchase \($0); the refund counts once there is one" }
        if let group {
            let timeline = tried.timeline(of: group, in: environment, try await tried.facts(of: receiver))
            let id = record.outcome.transaction?.reference
            let period = timeline.periods.first { $0.transaction == id }
            record.outcome.expires = period.flatMap { timeline.end(reaching: $0.end)?.asEnd?.description }
        }
    }
}

// Purchases that are given, taken and moved.
extension OperatorActs {
    private func planGrant(
        _ parameters: ActParameters, _ account: Account, id: String, _ record: inout ActRecord
    ) async throws {
        let (catalog, environment) = (support.catalog, try parameters.environment())
        let now = Timestamp(milliseconds: record.begun)
        let target = try GrantTarget(parameters, catalog)
        let transaction = TransactionReference(
            store: parameters["store"].map { StoreID($0) } ?? .support, environment: environment,
            id: TransactionID(parameters["transaction"] ?? "act-" + id.prefix(32)))
        record.outcome.transaction = LineName(transaction)
        let isTransfer = parameters.flag("transfer")
        let evidence: VerifiedEvidence
        switch target {
        case .time(let group, let product, let level):
            guard transaction.store == .support else {
                throw RequestError(.badRequest, "store does not apply to time that support gives away")
            }
            let gift = SupportActs.Gift(
                group: group, product: product, level: level, length: try parameters.length(now: now),
                transaction: transaction)
            guard let given = try await support.evidence(of: gift, at: try parameters.date("date") ?? now, for: account)
            else {
                throw RequestError(
                    .conflict, "this time of \(group.rawValue.singleLine) is already paid; nothing to do")
            }
            evidence = given
            record.entry.detail = "grant of \(target.name) " + parameters.lengthText
            try await complete(
                &record, evidence, for: account, environment, isTransfer: isTransfer, group: group)
        case .purchase(let product):
            let reported = Evidence.reported(
                product, transaction: transaction.id, date: try parameters.date("date") ?? now,
                quantity: parameters.number("quantity") ?? 1, expires: try parameters.date("expires"),
                original: parameters["original"].map { TransactionID($0) },
                isIntroductory: parameters.flag("introductory"), store: transaction.store, environment: environment)
            evidence = try await support.statement(of: reported, undated: now, for: account)
            record.entry.detail = "grant of \(target.name)"
            try await complete(
                &record, evidence, for: account, environment, isTransfer: isTransfer,
                group: catalog[product: product]?.kind.group)
        }
    }

    private func planRefund(_ act: OperatorAct, _ account: Account, _ record: inout ActRecord) async throws {
        let transaction = try act.parameters.transaction()
        let date = try act.parameters.date("date")
        let now = Timestamp(milliseconds: record.begun)
        let evidence: Evidence =
            act.kind == .refund ? .refunded(transaction, at: date ?? now) : .reinstated(transaction)
        record.outcome.transaction = LineName(transaction)
        record.entry.detail = "\(act.kind.rawValue) of \(transaction)"
        try await complete(
            &record, try await support.statement(of: evidence, undated: now, for: account), for: account,
            transaction.environment, isTransfer: false)
    }

    private func planTransfer(
        _ parameters: ActParameters, _ account: Account, isDryRun: Bool, _ record: inout ActRecord
    ) async throws {
        let transaction = try parameters.transaction()
        let receiver = try await self.account(named: try parameters.text("to"))
        guard receiver != account else {
            throw RequestError(.badRequest, "to: the purchase is already that of \(account.quoted)")
        }
        let server = try await support.recorder.writer.read(account)
        let ledger = try await support.recorder.ledger(of: account)
        let known = server.facts + ledger.records.map { Fact($0) }
        let owners = support.recorder.owners
        guard let line = known.lazy.compactMap(\.purchase).first(where: { $0.transaction == transaction })?.line else {
            throw RequestError(.notFound, "the account \(account.quoted) has no purchase \(transaction)")
        }
        // A transfer that was interrupted changes the record of the line.
        if !isDryRun { try await owners.finishTransfer(of: line) }
        let holders = try await owners.holders(of: transaction)
        guard holders.isEmpty || holders.contains(account) else {
            throw RequestError(.conflict, "\(transaction) does not belong to \(account.quoted) any more")
        }
        var facts = server.facts(ofLine: line)
        if !facts.contains(where: { $0.purchase != nil }) {
            // Support states now what a client has reported. It may have refunded and reinstated it before.
            let now = Timestamp(milliseconds: record.begun)
            facts += ServerLedger(ledger).facts(ofLine: line).filter { $0.purchase != nil }
                .map { $0.stamped(.signed(at: now)) }
        }
        let evidence = VerifiedEvidence(kind: .support, facts: facts, signedDate: nil, line: line)
        record.outcome.transaction = LineName(transaction)
        record.entry.detail = "transfer of \(line) to \(receiver.quoted)"
        try await complete(&record, evidence, for: receiver, transaction.environment, isTransfer: true)
    }
}

/// The access that a grant gives.
private enum GrantTarget {
    /// Paid time of a group, by a purchase of this product.
    case time(GroupID, ProductID, level: Int64?)
    /// A purchase of a product as the catalogue sells it.
    case purchase(ProductID)

    var name: String {
        switch self {
        case .time(let group, _, let level):
            level.map { "\(group.rawValue.singleLine)@\($0)" } ?? group.rawValue.singleLine
        case .purchase(let product): product.rawValue.singleLine
        }
    }

    init(_ parameters: ActParameters, _ catalog: Catalog) throws(RequestError) {
        let named = ["entitlement", "group", "product"].filter { parameters[$0] != nil }
        guard named.count == 1 else {
            throw RequestError(
                .badRequest, "pass one of the members entitlement, group and product, not \(named.count)")
        }
        let isTimed = parameters["until"] != nil || parameters["for"] != nil
        let source = ProductID(parameters["source"] ?? "support")
        let level = parameters.number("level")
        if let text = parameters["group"] {
            guard catalog.groups.contains(GroupID(text)) else {
                throw .unknown("group", text, known: catalog.groups.map(\.rawValue))
            }
            self = .time(GroupID(text), source, level: level)
        } else if let text = parameters["product"] {
            guard let product = catalog[product: ProductID(text)] else {
                throw .unknown("product", text, known: catalog.products.map(\.id.rawValue))
            }
            self = try Self.target(product, isTimed, parameters)
        } else {
            let text = parameters["entitlement"] ?? ""
            guard let entitlement = catalog[entitlement: EntitlementID(text)] else {
                throw .unknown("entitlement", text, known: catalog.entitlements.map(\.id.rawValue))
            }
            self = try Self.target(entitlement, source, level, isTimed, parameters, catalog)
        }
        guard case .purchase = self else { return }
        if level != nil { throw RequestError(.badRequest, "level does not apply to a purchase of \(name)") }
    }

    private static func target(
        _ product: Product, _ isTimed: Bool, _ parameters: ActParameters
    ) throws(RequestError) -> GrantTarget {
        guard isTimed else {
            guard product.kind.group == nil || parameters["store"] != nil else {
                throw RequestError(.badRequest, "pass either until or for: \"\(product.id)\" is paid time")
            }
            return .purchase(product.id)
        }
        switch product.kind {
        case .nonRenewing(let group, _): return .time(group, product.id, level: nil)
        case .autoRenewable(let group, let level, _, _): return .time(group, product.id, level: level)
        case .consumable, .nonConsumable:
            throw RequestError(.badRequest, "until and for do not apply: \"\(product.id)\" does not end")
        }
    }

    /// The first source that gives time, or else the first one.
    private static func target(
        _ entitlement: Entitlement, _ source: ProductID, _ level: Int64?, _ isTimed: Bool, _ parameters: ActParameters,
        _ catalog: Catalog
    ) throws(RequestError) -> GrantTarget {
        var products: [Product] = []
        for origin in entitlement.grantedBy {
            switch origin {
            case .group(let group): return .time(group, source, level: level)
            case .level(let group, let lowest): return .time(group, source, level: level ?? lowest)
            case .product(let id), .units(let id): if let product = catalog[product: id] { products.append(product) }
            }
        }
        guard let product = products.first(where: { $0.kind.group != nil }) ?? products.first else {
            throw RequestError(.conflict, "no product of the catalogue gives \"\(entitlement.id)\"")
        }
        return try target(product, isTimed, parameters)
    }
}

extension ActParameters {
    /// The length of granted time.
    fileprivate func length(now: Timestamp) throws(RequestError) -> SupportActs.Gift.Length {
        switch (try date("until"), self["for"]) {
        case (let until?, nil):
            guard until > now else { throw RequestError(.badRequest, "until: \(until) is in the past") }
            return .until(until)
        case (nil, let text?):
            let duration: CalendarDuration
            do throws(DurationError) { duration = try CalendarDuration(text) } catch {
                throw RequestError(.badRequest, "for: \(error)")
            }
            guard duration != .zero, duration != .forever else {
                throw RequestError(.badRequest, "for must be longer than zero and at most 100 years")
            }
            return .duration(duration)
        case (nil, nil): throw RequestError(.badRequest, "pass either until or for")
        case (_?, _?): throw RequestError(.badRequest, "pass either until or for, not both")
        }
    }

    fileprivate var lengthText: String {
        self["until"].map { "until \($0.singleLine)" } ?? "for \((self["for"] ?? "").singleLine)"
    }
}

extension RequestError {
    /// The refusal of an unknown name, with the known ones.
    fileprivate static func unknown(_ kind: String, _ name: String, known: [String]) -> RequestError {
        let names = known.prefix(50).map(\.singleLine).joined(separator: ", ") + (known.count > 50 ? ", …" : "")
        return RequestError(
            .badRequest,
            "the catalogue has no \(kind) \"\(name.singleLine)\"; known: " + (names.isEmpty ? "none" : names))
    }
}
