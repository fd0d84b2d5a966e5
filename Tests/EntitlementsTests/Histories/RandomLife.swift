import EntitlementsTestSupport

@testable import Entitlements

/// A subscription of a few months and a non-consumable, their refunds and reversals, and what three devices state.
struct RandomLife {
    static let day: Int64 = 86_400_000

    /// A statement of a device or the store, signed at a date or not at all.
    struct Statement {
        var signed: Timestamp?
        var facts: [Fact]
        /// The indices of the purchases that it states.
        var stated: [Int]
        /// The indices of the purchases whose status it states, and the dates of their revocations.
        var statuses: [Int: Timestamp?]
    }

    private struct Sale {
        var product: ProductID
        var number: Int64
        var start: Timestamp
        var end: Timestamp?
        var refundedAt: Timestamp?
        var reversedAt: Timestamp?

        func revocation(at date: Timestamp) -> Timestamp? {
            guard let refundedAt, refundedAt <= date, reversedAt.map({ date < $0 }) ?? true else { return nil }
            return refundedAt
        }
    }

    private let catalog: Catalog
    private var sales: [Sale] = []
    private(set) var statements: [Statement] = []

    static func catalog() throws -> Catalog {
        func renewing(_ months: Int64, _ group: GroupID, level: Int64 = 2) -> ProductKind {
            .autoRenewable(
                group: group, level: level, duration: CalendarDuration(months: months), introductory: nil)
        }
        return try Catalog(
            products: [
                Product(id: "monthly", kind: renewing(1, "months")), Product(id: "yearly", kind: renewing(12, "years")),
                Product(id: "plus", kind: renewing(12, "years", level: 1)), Product(id: "owl", kind: .nonConsumable),
                Product(id: "coins", kind: .consumable(units: 5)),
                Product(id: "month", kind: .nonRenewing(group: "passes", duration: CalendarDuration(months: 1))),
            ],
            entitlements: [
                Entitlement(id: "monthly", grantedBy: [.product("monthly")]),
                Entitlement(id: "yearly", grantedBy: [.level("years", 2)]),
                Entitlement(id: "owl", grantedBy: [.product("owl")]),
            ])
    }

    init(_ catalog: Catalog, using random: inout SplitMix64) {
        self.catalog = catalog
        let begin = Timestamp(milliseconds: 1_767_225_600_000)
        for month in 0..<random.int(1...3) {
            let start = begin.moved(month * 30 * Self.day)
            sales.append(
                Sale(product: "monthly", number: 100 + month, start: start, end: start.moved(30 * Self.day)))
        }
        sales.append(Sale(product: "owl", number: 500, start: begin.moved(random.int(0...20) * Self.day)))
        for index in sales.indices where random.chance(1, in: 2) {
            let date = sales[index].start.moved(random.int(1...25) * Self.day)
            sales[index].refundedAt = date
            if random.chance(1, in: 2) { sales[index].reversedAt = date.moved(random.int(1...20) * Self.day) }
        }
        for _ in 0..<random.int(2...9) {
            statements.append(random.chance(1, in: 3) ? receipt(using: &random) : transaction(using: &random))
        }
        statements.shuffle(using: &random)
    }

    /// Returns `true` if the statements grant `product`: the latest one on a refund counts for each purchase.
    func isGranted(_ product: ProductID, at now: Timestamp, _ statements: [Statement]) -> Bool {
        sales.indices.contains { index in
            let sale = sales[index]
            guard sale.product == product, statements.contains(where: { $0.stated.contains(index) }) else {
                return false
            }
            let latest = statements.filter { $0.statuses[index] != nil }.max {
                ($0.signed ?? .earliest) < ($1.signed ?? .earliest)
            }
            let end = [sale.end, latest?.statuses[index] ?? nil].compactMap { $0 }.min() ?? .latest
            return sale.start <= now && now < end
        }
    }

    /// A transaction that is signed with its status, or that an app reports without a signature.
    private func transaction(using random: inout SplitMix64) -> Statement {
        let index = random.pick(Array(sales.indices))
        let sale = sales[index]
        let device = random.int(0...2)
        guard random.chance(4, in: 5) else {
            let stamp = Stamp(logicalTime: LogicalTime(rawValue: UInt64(random.int(1...99))))
            let reported = purchase(sale, device, isNew: false, stamp, catalog.terms(of: sale.product))
            return Statement(facts: [.purchase(reported)], stated: [index], statuses: [:])
        }
        let signed = sale.start.moved(random.int(1...60) * Self.day + random.int(0...80_000_000))
        let stamp = Stamp.signed(at: signed)
        let stated = purchase(sale, device, isNew: random.chance(1, in: 2), stamp, nil)
        let revokedAt = sale.revocation(at: signed)
        let status = Revocation(transaction: stated.transaction, revokedAt: revokedAt, stamp: stamp)
        return Statement(
            signed: signed, facts: [.purchase(stated), .revocation(status)], stated: [index],
            statuses: [index: revokedAt])
    }

    /// A receipt with all purchases by its date. It states refunds, or lacks what was refunded, and reinstates nothing.
    private func receipt(using random: inout SplitMix64) -> Statement {
        let device = random.int(0...2)
        let signed = sales[0].start.moved(random.int(1...90) * Self.day + random.int(0...80_000_000))
        let isNew = random.chance(1, in: 2)
        var statement = Statement(signed: signed, facts: [], stated: [], statuses: [:])
        for (index, sale) in sales.enumerated() where sale.start < signed {
            let revokedAt = sale.revocation(at: signed)
            if revokedAt != nil, random.chance(1, in: 2) { continue }
            let stated = purchase(sale, device, isNew: isNew, .signed(at: signed), nil)
            statement.facts.append(.purchase(stated))
            statement.stated.append(index)
            guard let revokedAt else { continue }
            statement.facts.append(
                .revocation(
                    Revocation(transaction: stated.transaction, revokedAt: revokedAt, stamp: .signed(at: signed))))
            statement.statuses[index] = revokedAt
        }
        return statement
    }

    private func purchase(
        _ sale: Sale, _ device: Int64, isNew: Bool, _ stamp: Stamp, _ terms: Terms?
    ) -> Purchase {
        let id = TransactionID("\(sale.number + 1_000 * device)")
        let original: TransactionID = sale.product == "owl" ? "500" : "100"
        return Purchase(
            transaction: TransactionReference(store: .appStore, id: id), product: sale.product, terms: terms,
            date: sale.start, originalID: original == id ? nil : original, storeExpiry: sale.end,
            lineItemID: isNew && sale.end != nil ? TransactionID("7\(sale.number)") : nil,
            isNonConsumable: isNew && sale.end == nil, stamp: stamp)
    }
}
