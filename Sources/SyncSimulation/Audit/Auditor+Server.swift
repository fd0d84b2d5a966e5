import EntitlementSync
import Entitlements
import SyncCore

// The server's word: it says what the store signed last, and is the same for every device.
extension Auditor {
    /// Records that the server adds a statement to the server ledger of an account.
    func willDeliver(_ statement: StoreStatement, to account: Account, _ ledger: ServerLedger) {
        let known = deliveries[account]?[statement.transaction]
        if let known {
            world.marks.reach(
                known == statement
                    ? .statementRepeated : known.signedAt > statement.signedAt ? .statementStale : .statementRenewed)
            if known.revokedAt != nil, statement.revokedAt == nil, statement.signedAt > known.signedAt {
                world.marks.reach(.refundReversed)
            }
        }
        if statement.revokedAt != nil { world.marks.reach(.refundVerified) }
        if known.map({ $0.signedAt < statement.signedAt }) ?? true {
            deliveries[account, default: [:]][statement.transaction] = statement
        }
    }

    /// Records that a client stated something false.
    func didClaim(_ claim: ClientClaim) {
        switch claim {
        case .evidence: world.marks.reach(.forgeryPosted)
        case .purchase(let transaction, _), .reversal(let transaction), .grace(let transaction):
            claimed.insert(ModelID(transaction))
        default: break
        }
    }

    /// The place of an account's ledger that a change has erased; `nil` for any other change.
    func erasedPlace(of change: StoreContents.Change) -> LedgerPlace? {
        guard let place = LedgerPlace(change.key.text), place.kind == .account, let new = change.new,
            ModelLedger(document: new)?.isErased == true
        else { return nil }
        return place
    }

    /// The catalogue of a device, for purchases that were recorded without terms.
    func catalogue(of device: SimulatedDevice) -> [ModelID: ModelTerms] {
        if let known = catalogues[device.setup.catalog] { return known }
        let catalog = world.subject.catalog(of: device.setup, in: world.scenario)
        var terms: [ModelID: ModelTerms] = [:]
        for product in catalog.products {
            terms[ModelID("\(product.id)")] = ModelTerms(of: "\(product.id)", in: catalog)
        }
        catalogues[device.setup.catalog] = terms
        return terms
    }

    /// Checks that under `verified` a device shows nothing beyond what its copy of the server ledger grants.
    func checkTrust(_ snapshot: Snapshot, _ held: Observation, _ device: SimulatedDevice) {
        guard world.subject.hasDefaultRules, device.setup.rule == nil, held.server.facts.policy == .verified,
            !held.device.records.contains(where: \.isEvidence)
        else { return }
        reachIfSetAside(held)
        // A refund by a client moves what follows, over months of other lengths.
        guard !(held.account.records + held.device.records).contains(where: \.isRevocation) else { return }
        let word = ModelReplay(account: ModelLedger(), server: held.server, catalogue: catalogue(of: device))
        for (group, spans) in held.coverage.sorted(by: { $0.key < $1.key })
        where !word.coverage(of: group).covers(spans) {
            report(.trust, "\(group) is shown for time that the server has not verified", device)
        }
        for product in snapshot.owned where !word.owns("\(product)", at: snapshot.at.milliseconds) {
            report(.trust, "\(product) is shown as owned, but the server has not verified it", device)
        }
    }

    private func reachIfSetAside(_ held: Observation) {
        let claims = held.account.records
        if claims.contains(where: { $0.isPurchase && held.server[$0.key] == nil }) { world.marks.reach(.claimSetAside) }
        if claims.contains(where: { record in held.server[record.key].map { $0.precedes(record) } ?? false }) {
            world.marks.reach(.claimOverridden)
        }
    }

    /// Checks at the end that every server ledger has the latest statement of each transaction that reached it, and
    /// nothing else.
    func checkServer() {
        guard let server = world.remote.server, !hasRemoteForgotten else { return }
        var holders: [ModelTransaction: String] = [:]
        for (account, statements) in deliveries.sorted(by: { $0.key < $1.key }) {
            guard let name = account.name, !erasedNames.contains(name) else { continue }
            let facts = serverLedger(of: account, on: nil).facts
            for statement in statements.values.sorted(by: { $0.transaction < $1.transaction }) {
                check(statement, in: facts, of: name)
                guard server.owner(of: statement.line) != account else { continue }
                report(.ownership, "\(name) has \(statement.words) of another")
            }
        }
        for (name, incarnation, ledger) in serverLedgers(on: nil) where !erasedNames.contains(name) {
            let known = deliveries.first { $0.key.name == name && $0.key.incarnation == incarnation }?.value ?? [:]
            for purchase in ledger.facts.purchases {
                if known["\(purchase.transaction.id)"] == nil {
                    report(.trust, "the server took \(purchase.transaction) for genuine")
                }
                if let other = holders.updateValue(name, forKey: purchase.transaction) {
                    report(.ownership, "\(purchase.transaction) counts for \(other) and \(name)")
                }
            }
        }
    }

    private func check(_ statement: StoreStatement, in facts: ModelFacts, of name: String) {
        let id = ModelID(statement.transaction)
        let purchase = facts.purchases.first { $0.transaction.id == id }
        let revocation = facts.revocations.first { $0.transaction.id == id }
        let isSame =
            purchase?.stamp.signedAt == World.epoch + statement.signedAt
            && purchase?.product == ModelID(statement.product) && purchase?.date == World.epoch + statement.date
            && revocation.map { $0.revokedAt == statement.revokedAt.map { World.epoch + $0 } } == true
        guard !isSame else { return }
        report(.trust, "the server ledger of \(name) does not say \(statement.words)")
    }

    /// Checks that a synced device has the server's word, and derives the same time from it as the server.
    func checkWord(_ snapshot: Snapshot, _ held: Observation, of account: Account, on device: SimulatedDevice) {
        guard world.remote.server != nil, !hasRemoteForgotten, let name = account.name,
            !erasedNames.contains(name), hasAgreed
        else { return }
        let word = serverLedger(of: account, on: nil)
        guard held.server.records == word.records else {
            let missing = (held.server.missing(of: word) ?? word.missing(of: held.server))?.words ?? "nothing"
            return report(
                .equalLedgers, "\(name): the device's copy of the server ledger differs in \(missing)", device)
        }
        guard world.subject.hasDefaultRules, device.setup.rule == nil, device.setup.catalog == 0 else { return }
        let remote = ledger(of: account, on: nil) ?? ModelLedger()
        let derived = ModelReplay(account: remote, server: word, catalogue: catalogue(of: device))
        for (group, spans) in held.coverage.sorted(by: { $0.key < $1.key }) where derived.coverage(of: group) != spans {
            report(.equalLedgers, "\(name): the device and the server differ about \(group)", device)
        }
    }
}
