import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

// One customer, from the store: exact, and without a projection.
extension EntitlementService {
    static let customerRoutes: [Route<Endpoint>] = {
        let (path, instant) = ("/v1/customers/{account}", ["at", "environment"])
        return [
            Route(
                .get, path + "/entitlements", .operator(.read, EntitlementService.customerEntitlements),
                query: instant),
            Route(
                .get, "/v1/customers", .operator(.read, EntitlementService.searchCustomers), query: ["query"] + paging),
            Route(.get, path, .operator(.read, EntitlementService.showCustomer), query: instant),
            Route(.get, path + "/timeline", .operator(.read, EntitlementService.customerTimeline), query: instant),
            Route(
                .get, path + "/purchases", .operator(.read, EntitlementService.customerPurchases),
                query: instant + paging),
            Route(.get, path + "/facts", .operator(.read, EntitlementService.customerFacts), query: paging),
            Route(.get, path + "/conflicts", .operator(.read, EntitlementService.customerConflicts), query: instant),
            Route(
                .get, path + "/explain/{entitlement}", .operator(.read, EntitlementService.explainAccess),
                query: instant),
            Route(.get, path + "/history", .operator(.read, EntitlementService.customerHistory), query: paging),
        ]
    }()

    static let paging = ["after", "limit"]

    /// The account that an operator means by `text`: the one with exactly this name, or with this alias, or with this
    /// external id.
    ///
    /// - Throws: ``RequestError`` if there is no such account or it was erased, or the store's error.
    func customer(_ text: String) async throws -> Account {
        if AccountName.canExist(text), let record = try await accounts.records.account(text)?.value, !record.isUnused {
            guard let account = record.activeAccount else {
                throw RequestError(.gone, "the account \"\(text.singleLine)\" was erased")
            }
            return account
        }
        let name = try await accounts.aliases.resolveExactly(text)
        if !name.utf8.elementsEqual(text.utf8),
            let account = try await accounts.records.account(name)?.value.activeAccount
        {
            return account
        }
        if let account = try await externalIDs.resolve(text) { return account }
        throw RequestError(
            .notFound, "there is no account with the name, alias or external id \"\(text.singleLine)\"")
    }

    /// The account that a request concerns, as one of its own devices.
    private func subject(of call: Call) async throws -> AccountCaller {
        try AccountCaller(
            try await customer(call.target.name ?? ""), epoch: 0, erased: [], session: nil, expires: .max,
            isErased: false)
    }

    /// The response to `GET …/entitlements`: what the account itself gets at `/v1/entitlements`.
    private func customerEntitlements(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let (environment, instant) = (try environment(in: call.query), try instant(in: call.query))
        let reading = try await entitlements(of: subject(of: call), environment, at: instant, isCharged: false)
        return try call.response(reading.json, to: caller)
    }

    /// The replay of an account's ledgers, as its devices have it.
    private struct CustomerReplay: Sendable {
        let account: Account
        let ledgers: [(name: String, ledger: Ledger)]
        let replay: Replay
        let instant: Timestamp

        /// The members that each response begins with.
        var head: [(String, JSON)] { [("account", .string("\(account)")), ("at", .string("\(instant)"))] }
    }

    /// The response with what `content` derives from the ledgers of the account.
    private func replaying(
        _ call: Call, for caller: OperatorCaller, _ content: @Sendable (CustomerReplay) throws -> [(String, JSON)]
    ) async throws -> ServiceResponse {
        guard let catalog = configuration.catalog else { throw RequestError.noCatalog }
        let (environment, instant) = (try environment(in: call.query), try instant(in: call.query))
        let subject = try await subject(of: call)
        try await ledgerRules(of: subject).checkPolicy()
        let (entries, decoder) = (try await store.ledgerEntries(subject.keys), ledgers.decoder)
        // A large ledger takes half a second.
        let json = try await withTaskExecutorPreference(LongWork.executor) {
            let account = try await decoder.ledger(entries.ledger, under: subject.keys.ledger)
            let server = try await decoder.ledger(entries.serverLedger, under: subject.keys.serverLedger)
            guard !account.isErased else { throw RequestError(.gone, "the account was erased") }
            let replay = Replay(
                Facts(account: account, server: server), catalog: catalog, environment: environment)
            let customer = CustomerReplay(
                account: subject.account, ledgers: [("account", account), ("server", server)], replay: replay,
                instant: instant())
            return Array(JSON.object(try content(customer)).text().utf8)
        }
        return try call.response(json, to: caller)
    }

    /// The response to `GET /v1/customers/{account}`.
    private func showCustomer(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let account = try await customer(call.target.name ?? "")
        guard let record = try await accounts.records.account(account.name ?? "")?.value else {
            throw RequestError(.gone, "the account was erased")
        }
        let entries = AccountEntries(records: accounts.records)
        let aliases = try await entries.keys(of: account, under: AccountAliases.prefix).compactMap { key in
            LedgerKeys.unescaped(String(key.text.dropFirst(AccountAliases.prefix.count)))
        }
        let externalID = try await externalIDs.ids(of: [account])[account]
        let sessions = try await accounts.sessions.current(of: account, epoch: record.epoch).map { session in
            JSON.object([
                ("id", .string(session.id)), ("created", .instant(session.created)),
                ("refreshed", .instant(session.rotated)), ("expires", .instant(session.expires)),
            ])
        }
        return try await replaying(call, for: caller) { customer in
            [
                ("account", .string("\(account)")), ("incarnation", .string(account.incarnation)),
                ("issuer", JSON(record.issuer)), ("created", .instant(record.created)),
                ("externalId", JSON(externalID)),
                ("aliases", .array(aliases.map(JSON.string))),
                ("sessions", .array(sessions)),
                ("entitlements", customer.replay.snapshot(at: customer.instant).json(account: nil)),
            ]
        }
    }

    private func customerTimeline(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        try await replaying(call, for: caller) { customer in
            let (replay, snapshot) = (customer.replay, customer.replay.snapshot(at: customer.instant))
            let groups = snapshot.subscriptions.map { snapshot.json(of: $0, replay.timelines[$0.group] ?? Timeline()) }
            return customer.head + [("groups", .array(groups))]
        }
    }

    /// The response to `GET …/purchases`, the latest first.
    private func customerPurchases(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let (limit, after) = (try call.query.pageSize(configuration.limits), call.query["after"])
        return try await replaying(call, for: caller) { customer in
            let all = ProjectedAccount.purchases(in: customer.replay).sorted {
                ($1.purchased, $1.transaction) < ($0.purchased, $0.transaction)
            }
            var rest = all[...]
            if let after {
                guard let index = all.firstIndex(where: { $0.position == after }) else {
                    throw RequestError(
                        .badRequest, "after must be the member \"next\" of a page, not \"\(after.singleLine)\"")
                }
                rest = all[(index + 1)...]
            }
            let page = rest.prefix(limit)
            return customer.head + [
                ("count", .number(Int64(all.count))),
                ("purchases", .array(page.map { $0.json(in: customer.replay.facts) })),
                ("next", JSON(rest.count > limit ? page.last?.position : nil)),
            ]
        }
    }

    private func customerConflicts(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        try await replaying(call, for: caller) { customer in
            customer.head + [("conflicts", .array(customer.replay.conflicts(at: customer.instant).map(\.json)))]
        }
    }

    private func explainAccess(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let id = EntitlementID(call.target.parameters["entitlement"] ?? "")
        return try await replaying(call, for: caller) { customer in
            let replay = customer.replay
            guard let explanation = replay.explanation(of: id, at: customer.instant) else {
                throw RequestError(.notFound, "the catalogue has no entitlement \"\(id.rawValue.singleLine)\"")
            }
            let policy = replay.catalog.policy
            return [("account", .string("\(customer.account)"))]
                + explanation.members(
                    rules: policy.rules, isAccelerated: policy.accelerates(replay.environment))
        }
    }

    /// The response to `GET …/facts`, in the order of the ledgers and their records.
    private func customerFacts(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let limit = try call.query.pageSize(configuration.limits)
        let after = try call.query["after"].map { (text) throws(RequestError) in try FactPosition(text) }
        return try await replaying(call, for: caller) { customer in
            let all = customer.ledgers.flatMap { ledger in
                ledger.ledger.records.lazy.map { (FactPosition(ledger: ledger.name, key: $0.key), $0) }
            }
            let rest = all.drop { position, _ in after.map { !$0.precedes(position) } ?? false }
            let page = rest.prefix(limit)
            return [
                ("account", .string("\(customer.account)")),
                ("facts", .array(page.map { position, record in Fact(record).json(ledger: position.ledger) })),
                ("next", JSON(rest.count > limit ? page.last?.0.text : nil)),
            ]
        }
    }

    /// The instant that a request names, or a function that reads the clock.
    func instant(in query: WireQuery) throws(RequestError) -> @Sendable () -> Timestamp {
        guard let text = query["at"] else { return { [host] in Timestamp(milliseconds: host.now()) } }
        do throws(TimestampError) {
            let instant = try Timestamp(text)
            return { instant }
        } catch { throw RequestError(.badRequest, "at: \(error)") }
    }
}

/// The position of a fact in the ledgers of an account: `account` before `server`, then by the bytes of the key.
private struct FactPosition: Sendable {
    let ledger: String
    let key: [UInt8]

    var text: String { "\(ledger).\(Hexadecimal.text(key))" }

    init(ledger: String, key: [UInt8]) { (self.ledger, self.key) = (ledger, key) }

    init(_ text: String) throws(RequestError) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, ["account", "server"].contains(parts[0]), let key = Hexadecimal.bytes(parts[1].utf8)
        else {
            throw RequestError(.badRequest, "after must be the member \"next\" of a page, not \"\(text.singleLine)\"")
        }
        (ledger, self.key) = (String(parts[0]), key)
    }

    func precedes(_ other: FactPosition) -> Bool {
        ledger == other.ledger ? key.lexicographicallyPrecedes(other.key) : ledger < other.ledger
    }
}

extension ProjectedAccount.Purchase {
    /// The position in the list of purchases.
    fileprivate var position: String {
        "\(transaction.store.rawValue)/\(transaction.environment.rawValue)/\(transaction.id.rawValue)"
    }

    /// The purchase with the member `introductory`: true if it is an introductory offer, such as a trial.
    fileprivate func json(in facts: Facts) -> JSON {
        let isIntroductory = facts.index(of: transaction).map { facts.purchases[$0].isIntroductory } ?? false
        guard case .object(let members) = json else { return json }
        return .object(members + [("introductory", .bool(isIntroductory))])
    }
}

extension LedgerDecoder {
    /// The ledger in `entry`; empty for `nil`.
    fileprivate func ledger(_ entry: Entry?, under key: EntryKey) throws(BackendError) -> Ledger {
        try entry.map { (entry) throws(BackendError) in try ledger(in: entry, under: key) } ?? Ledger()
    }
}
