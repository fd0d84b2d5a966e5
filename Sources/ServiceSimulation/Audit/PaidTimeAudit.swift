import EntitlementSync
import Entitlements
import HTTPTypes
import SyncService
import SyncSimulation

/// Checks the paid time and the units of accounts against the sales of the store.
///
/// The last answers of `/v1/entitlements` name the purchase of each period. Their starts and ends follow from the
/// dates, the durations and the refunds of the store, whatever the order in which the servers learnt of them.
/// Single-threaded.
final class PaidTimeAudit {
    /// An answer that recorded a statement for an account.
    private struct Recording {
        var incarnation: String
        var sale: Int
    }

    /// A period in an answer, in milliseconds since 1970 UTC.
    private struct Period {
        var sale: Int
        var start: Int64
        var end: Int64
    }

    private unowned let world: ServiceWorld
    /// The newest signature of each sale that a server has accepted.
    private var confirmed: [Int: Int64] = [:]
    private var recordings: [Recording] = []
    /// The accounts that presented a sale of a line, also without an answer, by line.
    private var presenters: [Int: Set<String>] = [:]
    /// The accounts that reported a line without evidence, and those whose report was stored, by line.
    private var reported: [Int: Set<String>] = [:]
    private var claimed: [Int: Set<String>] = [:]
    /// The sales that each account has reported without evidence.
    private var reportedSales: [String: Set<Int>] = [:]
    /// The accounts of the tokens that the servers issued.
    private var named: [String: String] = [:]
    /// The units that devices have spent, and those that are also stored, by account.
    private var spent: [String: Set<Int>] = [:]
    private var synced: [String: Set<Int>] = [:]
    /// The last answers of `/v1/entitlements`, by account.
    private var answers: [TokenHolder: JSON] = [:]

    init(world: ServiceWorld) { self.world = world }

    private var desk: StoreDesk { world.desk }

    // MARK: observations

    func didSpend(_ id: Int, of incarnation: String, isSynced: Bool) {
        spent[incarnation, default: []].insert(id)
        if isSynced { synced[incarnation, default: []].insert(id) }
    }

    func didReport(_ sale: Int, for incarnation: String, isSynced: Bool) {
        reportedSales[incarnation, default: []].insert(sale)
        reported[StoreDesk.line(of: sale), default: []].insert(incarnation)
        if isSynced { claimed[StoreDesk.line(of: sale), default: []].insert(incarnation) }
    }

    func didConfirm(_ text: String) {
        guard let sale = StoreDesk.article(of: text), let signed = StoreDesk.signedDate(of: text) else { return }
        confirmed[sale] = max(signed, confirmed[sale] ?? 0)
    }

    func didArrive(_ delivery: Delivery, from holder: TokenHolder?) {
        guard delivery.path == "/v1/transactions", let holder else { return }
        for text in Self.texts(in: delivery) {
            guard let sale = StoreDesk.article(of: text) else { continue }
            presenters[StoreDesk.line(of: sale), default: []].insert(holder.incarnation)
        }
    }

    private static func texts(in delivery: Delivery) -> [String] {
        delivery.body?["evidence"]?.elements?.map { $0["jws"]?.string ?? "" } ?? []
    }

    func didAnswer(_ delivery: Delivery, from holder: TokenHolder?, _ status: Int, _ body: JSON?) {
        if delivery.path == "/v1/notifications/app-store" {
            didNotify(delivery.text("signedPayload") ?? "", status)
        }
        guard let holder, status == 200 else { return }
        switch (delivery.method, delivery.path) {
        case (.post, "/v1/transactions"): didRecord(Self.texts(in: delivery), for: holder, body)
        case (.get, "/v1/accounts/self/token"):
            if let token = body?["token"]?.string { named[token] = holder.incarnation }
        case (.get, "/v1/entitlements"): answers[holder] = body
        default: break
        }
    }

    private func didNotify(_ text: String, _ status: Int) {
        guard StoreDesk.article(of: text) == nil else {
            if status == 200 { didConfirm(text) }
            return
        }
        if (200..<300).contains(status) { world.report(.evidence, "a forged notification was accepted") }
        if status == 400 { world.reach(.forgeryRefused) }
    }

    private func didRecord(_ texts: [String], for holder: TokenHolder, _ body: JSON?) {
        for (text, result) in zip(texts, body?["results"]?.elements ?? []) {
            let isRecorded = result["facts"]?.elements?.isEmpty == false
            guard let sale = StoreDesk.article(of: text) else {
                if isRecorded {
                    world.report(.evidence, "forged evidence was recorded for \(holder.name)")
                } else {
                    world.reach(.forgeryRefused)
                }
                continue
            }
            guard isRecorded else { continue }
            didConfirm(text)
            recordings.append(Recording(incarnation: holder.incarnation, sale: sale))
        }
    }

    // MARK: the end

    /// Lets the store repeat the notifications about sales of which no server has accepted the last statement, or whose
    /// statement may have been erased with an account.
    func repeatNotifications() async {
        for sale in desk.changed.keys.sorted() where !isConfirmed(sale) || mayBeErased(sale) {
            world.reach(.notificationRepeated)
            _ = await world.notify(sale)
        }
    }

    /// Refunds outlive the account that has them.
    private func mayBeErased(_ sale: Int) -> Bool {
        sale >= StoreDesk.saleCount && !desk.isRefunded(sale) && isErased(StoreDesk.line(of: sale))
    }

    /// Returns `true` if an account that presented or reported the line was erased.
    private func isErased(_ line: Int) -> Bool {
        let accounts = presenters[line, default: []].union(reported[line] ?? [])
        return accounts.contains { world.audit.life($0)?.erasureAsked != nil }
    }

    private func isConfirmed(_ sale: Int) -> Bool { (confirmed[sale] ?? -1) > desk.changed[sale] ?? 0 }

    /// Checks the last answers of all living accounts.
    func check(_ living: [Life]) {
        for sale in desk.changed.keys.sorted() where !isConfirmed(sale) {
            return world.report(.service, "no server accepts the store's statement about the sale \(sale)")
        }
        var owners: [Int: [Life]] = [:]
        for life in living {
            guard let answer = answers[TokenHolder(name: life.name, incarnation: life.incarnation)] else { continue }
            let periods = Self.periods(in: answer)
            for line in Set(periods.map { StoreDesk.line(of: $0.sale) }) { owners[line, default: []].append(life) }
            checkSums(periods, of: life)
            checkUnits(Self.units(in: answer), of: life)
        }
        for line in StoreDesk.seasons.map({ $0 }) + [StoreDesk.renewals.lowerBound] where desk.sold[line] != nil {
            checkOwners(owners[line] ?? [], of: line, among: living)
        }
    }

    private static func periods(in answer: JSON) -> [Period] {
        (answer["subscriptions"]?.elements ?? []).flatMap { $0["periods"]?.elements ?? [] }.compactMap { period in
            guard let id = period["transactionID"]?.string, let sale = StoreDesk.article(of: id),
                let start = date(period["start"]), let end = date(period["end"])
            else { return nil }
            return Period(sale: sale, start: start, end: end)
        }
    }

    private static func units(in answer: JSON) -> Int64 {
        if case .number(let units) = answer["balances"]?["coin"] { units } else { 0 }
    }

    private static func date(_ value: JSON?) -> Int64? {
        value?.string.flatMap { (try? Timestamp($0))?.milliseconds }
    }

    private func checkSums(_ periods: [Period], of life: Life) {
        // A mere report from the future of a server's clock counts as of the server's time. Evidence ends that.
        func mayBeEarlier(_ sale: Int) -> Bool {
            // Renewals are sold before they begin.
            (world.movesClocks || StoreDesk.renewals.contains(sale)) && !world.isAlwaysVerified
                && !hasEvidence(StoreDesk.line(of: sale), for: life)
        }
        var last: Int64 = .min
        let seasons = periods.filter { StoreDesk.seasons.contains($0.sale) }
        for period in seasons where !seasons.contains(where: { mayBeEarlier($0.sale) }) {
            let start = max(last, desk.sold[period.sale] ?? 0)
            if period.start != start || !ends(of: period.sale, from: start).contains(period.end) {
                return world.report(
                    .paidTime,
                    "the season pass \(period.sale) of \(life.name) is paid from \(period.start) to \(period.end)")
            }
            last = period.end
        }
        if seasons.count > 1 { world.reach(.seasonsAdded) }
        for period in periods where StoreDesk.renewals.contains(period.sale) {
            let expiry = desk.expiry(of: period.sale) ?? 0
            let end = min(expiry, desk.refundDate(of: period.sale) ?? expiry)
            if period.start != desk.sold[period.sale] && !mayBeEarlier(period.sale) || period.end != end {
                world.report(
                    .paidTime,
                    "the renewal \(period.sale) of \(life.name) is paid from \(period.start) to \(period.end)")
            }
        }
        if periods.count(where: { StoreDesk.renewals.contains($0.sale) }) > 1 { world.reach(.renewalsAdded) }
        let own = Set(periods.map { StoreDesk.line(of: $0.sale) })
        for sale in desk.changed.keys.sorted() where own.contains(StoreDesk.line(of: sale)) && !desk.isRefunded(sale) {
            // A mere report of a renewal says nothing of the others.
            if !periods.contains(where: { $0.sale == sale }), isRecorded(StoreDesk.line(of: sale), for: life) {
                world.report(.paidTime, "\(life.name) has the line of the sale \(sale), but not its time")
            }
            if desk.everRefunded.contains(sale) { world.reach(.refundReversed) }
        }
    }

    /// The possible ends of a season pass that begins at `start`, under the catalogues of the run.
    private func ends(of sale: Int, from start: Int64) -> [Int64] {
        let months: Int64 = StoreDesk.articles[sale].product == "season3" ? 3 : 6
        return world.extraMonths.map { extra in
            let end = ModelCalendar.add(months: months + extra, to: start)
            return min(end, desk.refundDate(of: sale) ?? end)
        }
    }

    private func isRecorded(_ line: Int, for life: Life) -> Bool {
        if hasEvidence(line, for: life) { return true }
        // What a device presents while another account has the line is refused. It stays a mere report in its ledger.
        return reported[line]?.contains(life.incarnation) != true && (world.isAlwaysVerified || !isErased(line))
    }

    /// Returns `true` if an answer has recorded a statement about the line for the account.
    private func hasEvidence(_ line: Int, for life: Life) -> Bool {
        recordings.contains { $0.incarnation == life.incarnation && StoreDesk.line(of: $0.sale) == line }
    }

    /// Units are never more than were sold, and none is lost but by a spend.
    private func checkUnits(_ units: Int64, of life: Life) {
        let sold = StoreDesk.coins.filter { desk.sold[$0] != nil }
        func sum(_ sales: [Int]) -> Int64 {
            sales.reduce(0) { $0 + StoreDesk.articles[$1].quantity * StoreDesk.coinUnits }
        }
        let spends = spent[life.incarnation] ?? []
        if !spends.isEmpty { world.reach(.unitsSpent) }
        if units < 0 || units > sum(sold) {
            world.report(.paidTime, "\(life.name) has \(units) units of \(sum(sold))")
        }
        // The sum is exact if no other account has presented any, and no spend can have been written off.
        let isAlone = sold.allSatisfy { sale in
            presenters[sale, default: []].union(reported[sale] ?? []).isSubset(of: [life.incarnation])
                && desk.tokens[sale] == nil && !desk.everRefunded.contains(sale)
        }
        let own = sold.filter { sale in recordings.contains { $0.sale == sale && $0.incarnation == life.incarnation } }
        guard isAlone, Int64(spends.count) <= StoreDesk.coinUnits, !own.isEmpty, own.count == sold.count else { return }
        let most = sum(own) - Int64(synced[life.incarnation]?.count ?? 0)
        if units > most || units < sum(own) - Int64(spends.count) {
            world.report(
                .paidTime, "\(life.name) has \(units) units of \(sum(own)) after \(spends.count) spends")
        }
    }

    private func checkOwners(_ owners: [Life], of line: Int, among living: [Life]) {
        let names = owners.map(\.name).joined(separator: " and ")
        if world.scenario.ownership != .share, owners.count > 1 {
            world.report(.ownership, "the line \(line) counts for \(names)")
        }
        let sales = desk.sold.keys.filter { StoreDesk.line(of: $0) == line }
        // A line whose periods are all refunded is not in any answer.
        guard sales.contains(where: { !desk.isRefunded($0) }), !isErased(line) else { return }
        let recorded = recordings.filter { StoreDesk.line(of: $0.sale) == line }.map(\.incarnation)
        let entitled = living.filter { recorded.contains($0.incarnation) }
        if let first = entitled.first, owners.isEmpty {
            world.report(.ownership, "the line \(line), recorded for \(first.name), counts for no account")
        }
        if world.scenario.ownership == .share {
            for life in entitled where !owners.contains(where: { $0 === life }) {
                world.report(.ownership, "the shared line \(line) does not count for \(life.name)")
            }
        }
        checkClaim(of: line, owners, living)
        checkReports(of: line, owners, living)
        guard world.scenario.ownership == .keepWithFirst else { return }
        let owner = desk.tokens[line].flatMap { named[$0] }
        // Evidence decides, also against an earlier report.
        let keeper = living.first { $0.incarnation == owner ?? recorded.first }
        if let keeper, !owners.contains(where: { $0 === keeper }) {
            world.report(.ownership, "the line \(line) does not count for \(keeper.name), which has it first")
        }
        if owner != nil { world.reach(.ownerNamed) }
    }

    /// A line that living accounts have reported counts for one of them, as long as the servers trust their clients.
    private func checkReports(of line: Int, _ owners: [Life], _ living: [Life]) {
        let isTrusted = !world.scenario.isVerified && world.scenario.later?.isVerified != true
        // A server that is asked reconsiders some refusals, and those of claims that are a minute old by its clock.
        let areClocksRight = !world.movesClocks && world.scenario.servers.allSatisfy { abs($0) < 20_000 }
        guard isTrusted, areClocksRight, owners.isEmpty, desk.tokens[line] == nil,
            !desk.everRefunded.contains(where: { StoreDesk.line(of: $0) == line })
        else { return }
        for life in living where claimed[line]?.contains(life.incarnation) == true {
            guard reportedSales[life.incarnation, default: []].count <= 4 else { continue }
            world.report(.ownership, "the line \(line), which \(life.name) reported, counts for no account")
        }
    }

    /// A report that no other account contradicts counts as long as the servers trust their clients.
    private func checkClaim(of line: Int, _ owners: [Life], _ living: [Life]) {
        let isTrusted = !world.scenario.isVerified && world.scenario.later?.isVerified != true
        let others = presenters[line, default: []].union(reported[line] ?? [])
        guard isTrusted, others.count == 1, desk.tokens[line] == nil, !desk.everRefunded.contains(line) else { return }
        for life in living where claimed[line] == [life.incarnation] && others == [life.incarnation] {
            world.reach(.claimCounts)
            if !owners.contains(where: { $0 === life }) {
                world.report(.ownership, "the line \(line), which only \(life.name) reported, does not count")
            }
        }
    }
}
