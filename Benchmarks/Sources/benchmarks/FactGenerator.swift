import Entitlements
import SyncCoreTesting

/// Generates facts that are typical for the InsomniOwl catalogue: mostly purchases with their recordings, some refunds,
/// spends of units, and a flag for each owl.
struct FactGenerator {
    private let products: [Product]
    private let consumables: [ProductID]
    private let ownable: [ProductID]
    private let replicas: [ReplicaID]
    private var generator: SeededGenerator
    private var date: Timestamp
    private var time = LogicalTime.zero
    private var latestEnd: Timestamp?

    /// The date of the first purchase: 2020-01-01.
    static let firstDate = Timestamp(milliseconds: 1_577_836_800_000)

    init(catalog: Catalog, seed: UInt64) {
        products = catalog.products
        consumables = products.filter { if case .consumable = $0.kind { true } else { false } }.map(\.id)
        ownable = products.filter { $0.kind == .nonConsumable }.map(\.id)
        generator = SeededGenerator(seed: seed)
        var replicas: [ReplicaID] = []
        for _ in 0..<3 { replicas.append(.random(using: &generator)) }
        self.replicas = replicas
        date = Self.firstDate
    }

    /// Generates exactly `count` facts with distinct keys.
    mutating func facts(count: Int) -> [Fact] {
        var facts: [Fact] = []
        for product in ownable.prefix(count / 20) { facts.append(mark(product)) }
        while facts.count < count {
            switch Int.random(in: 0..<20, using: &generator) {
            case 0..<4: facts.append(spend())
            default: facts += bought()
            }
        }
        return Array(facts.prefix(count))
    }

    /// Generates `count` purchases, each with its recording.
    mutating func purchases(count: Int) -> [Fact] {
        var facts: [Fact] = []
        for _ in 0..<count { facts += bought(refunds: false) }
        return facts
    }

    private mutating func bought(refunds: Bool = true) -> [Fact] {
        let stamp = tick()
        let product = products[Int.random(in: products.indices, using: &generator)]
        let purchase = Purchase(
            transaction: transaction(), product: product.id, terms: Terms(kind: product.kind), date: date,
            stamp: stamp)
        var facts: [Fact] = [
            .purchase(purchase),
            .recording(
                Recording(
                    transaction: purchase.transaction, replica: replica(), recordedAt: date, knownEnd: latestEnd,
                    logicalTime: stamp.logicalTime)),
        ]
        if case .nonRenewing(_, let duration) = product.kind {
            latestEnd = max(date, latestEnd ?? date).adding(duration)
        }
        if refunds, Int.random(in: 0..<20, using: &generator) == 0 {
            let refund = tick()
            facts.append(
                .revocation(
                    Revocation(
                        transaction: purchase.transaction, revokedAt: date, reason: "refunded", stamp: refund)))
        }
        return facts
    }

    private mutating func spend() -> Fact {
        let stamp = tick()
        let product = consumables[Int.random(in: consumables.indices, using: &generator)]
        return .spend(
            Spend(
                id: SpendID(uuid()), product: product, units: 1, date: date, replica: replica(),
                logicalTime: stamp.logicalTime))
    }

    private mutating func mark(_ product: ProductID) -> Fact {
        let stamp = tick()
        return .flag(
            Flag(product: product, isSet: true, date: date, replica: replica(), logicalTime: stamp.logicalTime))
    }

    /// Advances the time by a few hours.
    private mutating func tick() -> Stamp {
        date = Timestamp(
            milliseconds: date.milliseconds + Int64.random(in: 60_000...20_000_000, using: &generator))
        time = time.next(at: date)
        return Stamp(logicalTime: time)
    }

    private mutating func replica() -> ReplicaID {
        replicas[Int.random(in: replicas.indices, using: &generator)]
    }

    private mutating func transaction() -> TransactionReference {
        if Bool.random(using: &generator) {
            let number = UInt64.random(in: 2_000_000_000_000_000...2_000_000_999_999_999, using: &generator)
            return TransactionReference(store: .appStore, id: TransactionID(String(number)))
        }
        return TransactionReference(id: TransactionID(uuid()))
    }

    private mutating func uuid() -> String {
        let digits = [generator.next(), generator.next()].map { number in
            let text = String(number, radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }.joined()
        var text = ""
        for (index, digit) in digits.enumerated() {
            if [8, 12, 16, 20].contains(index) { text += "-" }
            text.append(digit)
        }
        return text
    }
}
