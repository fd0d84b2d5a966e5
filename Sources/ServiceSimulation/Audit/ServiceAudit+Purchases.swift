import EntitlementSync
import Entitlements
import HTTPTypes
import SyncSimulation

// Checks of the owners of sales.
extension ServiceAudit {
    /// The time within which a sale moves once, less the largest error of a server's clock. In microseconds.
    private static let transferPause: Int64 = 20 * 3_600_000_000

    /// The number of accounts that may share a sale.
    private static let ownerLimit = 8
    /// The age up to which a statement may prove a restore, with a margin, in milliseconds.
    private static let restorePeriod: Int64 = 3 * 3_600_000

    func didBeginAct(_ sale: Int, for name: String, isTransfer: Bool) -> Int {
        let event = OwnershipEvent(of: nil, name: Self.folded(name), at: now, mayTake: isTransfer, isSupport: true)
        sales[sale, default: SaleHistory()].add(event)
        acts.append((sale, event))
        return acts.count
    }

    func didAct(_ number: Int, for account: Account) {
        let act = acts[number - 1]
        act.event.life = life(account.incarnation)
        act.event.end(.recorded, at: now)
        if let life = act.event.life { checkMoves(of: act.sale, to: life, by: act.event) }
    }

    func didRefuseAct(_ number: Int) { acts[number - 1].event.end(.refused, at: now) }

    /// Called when a request with statements about sales arrives.
    func didPresent(_ delivery: Delivery) {
        guard let life = chain(of: delivery)?.life else { return }
        let isRestore = delivery.body?["restore"] == .bool(true)
        for (index, item) in (delivery.body?["evidence"]?.elements ?? []).enumerated() {
            let text = item["jws"]?.string ?? ""
            guard let sale = StoreDesk.sale(of: text), let signed = StoreDesk.signedDate(of: text) else { continue }
            // The age is by the clock of the server.
            let isRecent = world.movesClocks || world.scheduler.trueTime - signed <= Self.restorePeriod
            let event = OwnershipEvent(
                of: life, name: Self.folded(life.name), at: now,
                mayTake: isRestore && isRecent && world.scenario.ownership == .transfer)
            sales[sale, default: SaleHistory()].add(event)
            presented[delivery.id, default: []].append((index, sale, event))
        }
    }

    /// Called when a request with statements about sales was answered.
    func didRecord(_ delivery: Delivery, _ status: Int, _ body: JSON?) {
        guard let events = presented.removeValue(forKey: delivery.id) else { return }
        if (400..<500).contains(status) {
            // A request of an account that is being erased may have moved a sale before it was refused.
            for (_, _, event) in events where event.life?.erasureAsked == nil { event.end(.refused, at: now) }
        }
        let (items, results) = (delivery.body?["evidence"]?.elements ?? [], body?["results"]?.elements ?? [])
        guard status == 200, items.count == results.count else { return }
        for (index, sale, event) in events {
            if let facts = results[index]["facts"]?.elements, !facts.isEmpty, let life = event.life {
                world.reach(.evidenceRecorded)
                event.end(.recorded, at: now)
                checkMoves(of: sale, to: life, by: event)
                if items[index]["jws"]?.string?.hasSuffix(" -") == false { didRefund(sale) }
            } else {
                world.reach(.evidenceOfAnother)
                event.end(.refused, at: now)
                if event.mayTake { world.reach(.restoreRefused) }
            }
        }
    }

    func didRefund(_ sale: Int) { sales[sale, default: SaleHistory()].didRefund(at: now) }

    /// Checks that a sale which other accounts had has moved by a restore or an act of support, and not too often.
    private func checkMoves(of sale: Int, to life: Life, by event: OwnershipEvent) {
        guard let history = sales[sale] else { return }
        defer { owners[sale] = (life, now) }
        if let last = owners[sale], last.life !== life, last.life.erasureAsked == nil, last.at < event.arrival,
            world.scenario.ownership != .share
        {
            moves[sale, default: 0] += 1
        }
        let others = history.recorded.filter { $0.life !== life }
        guard world.scenario.ownership != .share else {
            if !others.isEmpty { world.reach(.evidenceShared) }
            return
        }
        for other in others where other.event.end ?? .max < event.arrival {
            world.reach(event.isSupport ? .supportTransferred : .evidenceTransferred)
            if history.takers(from: other.life, since: other.event.arrival, until: now).isEmpty {
                report(
                    .ownership, "the sale \(sale) moved from \(other.life.name) to \(life.name) without a restore")
            }
        }
        checkPace(of: sale, history, to: life, by: event)
    }

    /// A sale moves at most once a day, unless support moves it or an owner is erased.
    private func checkPace(of sale: Int, _ history: SaleHistory, to life: Life, by event: OwnershipEvent) {
        let isFree = history.events.contains { $0.isSupport || $0.life?.erasureAsked != nil }
        guard !isFree else { return }
        for second in history.recorded where second.life !== life && second.event.end ?? .max < event.arrival {
            for first in history.recorded where first.life !== second.life {
                guard first.event.end ?? .max < second.event.arrival else { continue }
                if now - first.event.arrival < Self.transferPause {
                    report(
                        .ownership,
                        "the sale \(sale) moved from \(first.life.name) to \(second.life.name) to \(life.name) in a day"
                    )
                } else {
                    world.reach(.transferredTwice)
                }
            }
        }
    }

    // MARK: answers about access

    /// Checks the entitlements in an answer: those of the account's own sales, and no others.
    ///
    /// - Parameter granted: The numbers of the sales that the answer grants.
    func checkAccess(_ delivery: Delivery, _ granted: Set<Int>) {
        guard let life = chain(of: delivery)?.life, life.erasureAsked == nil else { return }
        // Sales and refunds count from their dates on, by the clock of the server.
        let time = world.serverTime(of: delivery)
        for sale in 0..<StoreDesk.saleCount {
            let history = sales[sale] ?? SaleHistory()
            let isGranted = granted.contains(sale)
            if let refunded = history.refunded, refunded < delivery.arrival, isGranted,
                !world.desk.counts(sale, at: time)
            {
                report(.ownership, "\(describe(delivery)) of \(life.name) grants the refunded sale \(sale)")
            }
            if isGranted, !mayHave(sale, history, life) {
                report(.ownership, "\(describe(delivery)) of \(life.name) grants the sale \(sale), which it never had")
            }
            guard !world.desk.isRefunded(sale), world.desk.counts(sale, at: time) else { continue }
            if !isGranted, delivery.process.machine.clockOffset == delivery.clockOffset,
                history.belongs(to: life, at: delivery.arrival, until: now)
            {
                report(.ownership, "\(describe(delivery)) of \(life.name) lacks the recorded sale \(sale)")
            }
            guard isGranted, world.scenario.ownership != .share else { continue }
            checkTurn(of: sale, history, life, delivery)
            for other in history.recorded.map(\.life) where other !== life {
                if history.belongs(to: other, at: delivery.arrival, until: now) {
                    report(.ownership, "\(describe(delivery)) of \(life.name) grants a sale of \(other.name)")
                    break
                }
            }
        }
    }

    /// Checks that a sale does not count for `life` after another account was seen to have it, unless a request or an
    /// act may have given it back.
    private func checkTurn(of sale: Int, _ history: SaleHistory, _ life: Life, _ delivery: Delivery) {
        guard world.isAlwaysVerified else { return }
        let name = Self.folded(life.name)
        for (_, other) in lastGrants[sale, default: [:]].sorted(by: { $0.key < $1.key })
        where other.life !== life && other.answer < delivery.arrival {
            guard !history.mayBelong(to: life, name: name, at: now, since: other.arrival) else { continue }
            report(.ownership, "the sale \(sale) counts for \(life.name) after it counted for \(other.life.name)")
        }
        lastGrants[sale, default: [:]][life.incarnation] = (life, delivery.arrival, now)
    }

    private func mayHave(_ sale: Int, _ history: SaleHistory, _ life: Life) -> Bool {
        if history.mayBelong(to: life, name: Self.folded(life.name), at: now) { return true }
        // A ledger that a device has written counts, also if it was written under `verified`.
        return !world.isAlwaysVerified && claimants[sale]?.contains { $0 === life } == true
    }

    /// Called when a device writes its ledger, directly or in a batch.
    func didClaim(_ delivery: Delivery) {
        guard !world.scenario.isVerified || world.scenario.later?.isVerified == false,
            let life = chain(of: delivery)?.life
        else { return }
        let isBatch = delivery.path == "/v1/batch"
        guard isBatch || (delivery.key?.hasSuffix("/ledger") == true && delivery.method == .put) else { return }
        let text = String(decoding: delivery.bytes, as: UTF8.self)
        for sale in 0..<StoreDesk.saleCount where claimants[sale]?.contains(where: { $0 === life }) != true {
            // The values of a batch are encoded.
            if isBatch || text.contains("p\(sale)") { claimants[sale, default: []].append(life) }
        }
    }

    /// Checks the sales that count for each account at the end.
    func checkOwnership(_ rights: [(life: Life, sales: Set<Int>)]) {
        for (sale, history) in sales.sorted(by: { $0.key < $1.key }) where sale < StoreDesk.saleCount {
            let owners = rights.filter { $0.sales.contains(sale) }.map(\.life)
            let names = owners.map(\.name).joined(separator: " and ")
            if history.refunded != nil, !owners.isEmpty {
                report(.ownership, "the refunded sale \(sale) counts for \(names)")
            }
            if owners.count > (world.scenario.ownership == .share ? Self.ownerLimit : 1) {
                report(.ownership, "the sale \(sale) counts for \(names)")
            }
            guard !world.desk.isRefunded(sale) else { continue }
            for (event, life) in history.recorded {
                guard rights.contains(where: { $0.life === life }), !owners.contains(where: { $0 === life }) else {
                    continue
                }
                let takers = history.takers(from: life, since: event.arrival)
                if takers.isEmpty {
                    report(.ownership, "the sale \(sale), recorded for \(life.name), counts for \(names.orNobody)")
                } else if owners.isEmpty, !takers.contains(where: isErased) {
                    report(.ownership, "the sale \(sale), which \(life.name) had, counts for no account")
                }
                break
            }
        }
    }

    /// Returns `true` if the account of an event was erased, or may have been.
    private func isErased(_ event: OwnershipEvent) -> Bool {
        if let life = event.life { return life.erasureAsked != nil }
        return lives.contains { Self.folded($0.name) == event.name && $0.erasureAsked != nil }
    }
}

extension String {
    fileprivate var orNobody: String { isEmpty ? "no account" : self }
}
