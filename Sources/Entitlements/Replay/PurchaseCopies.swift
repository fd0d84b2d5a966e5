/// One purchase of the App Store that is known under several transactions.
///
/// The App Store gives a purchase a new transaction each time it is restored on another device. One of the statements
/// about it counts, and what is stated about one transaction holds for all.
struct PurchaseCopies: Hashable, Sendable {
    /// The transaction of the statement that counts.
    var representative: TransactionReference
    /// The start from which the terms give an end, if the store stated none: that of the representative, because
    /// ``Purchase/date`` may be the earlier one of another statement.
    var termsStart: Timestamp
    /// All transactions, in ascending order.
    var transactions: [TransactionReference]
    /// True if the store signed one of the statements that count.
    var isSigned: Bool
    /// The earliest and the latest logical time of the statements that count.
    var times: ClosedRange<LogicalTime>
    /// The decision of the account's server that holds for all transactions.
    var decision: Acceptance?

    /// Describes `statements`, which have their stated dates.
    ///
    /// - Parameters:
    ///   - counting: The verified statements, or all if none is verified. Beside what the server or this device has
    ///     verified, the claims of clients have no effect, nor have decisions about them.
    ///   - representative: The strongest statement.
    ///   - acceptances: The decisions of the server.
    init(
        of statements: [Purchase], counting: [Purchase], by representative: Purchase,
        _ acceptances: [TransactionReference: Acceptance]
    ) {
        self.representative = representative.transaction
        termsStart = representative.date
        transactions = statements.map(\.transaction).sorted()
        isSigned = counting.contains { $0.stamp.signedDate != nil }
        let times = counting.map(\.stamp.logicalTime)
        self.times = (times.min() ?? .zero)...(times.max() ?? .zero)
        decision = counting.compactMap { acceptances[$0.transaction] }.max { $0.isWeaker(than: $1) }
    }
}

extension Acceptance {
    /// Returns `true` if `other`, a decision about another copy of the purchase, prevails: the later one about the
    /// ownership, before any about the date. Of several dates the earliest prevails: another copy takes no time.
    fileprivate func isWeaker(than other: Acceptance) -> Bool {
        let (left, right) = (strength, other.strength)
        return left != right ? left < right : other.transaction < transaction
    }

    private var strength: (Int, Int64, LogicalTime, Int) {
        switch decision {
        case .countsAsOf(let date): (0, -date.milliseconds, logicalTime, 0)
        case .accepted: (1, 0, logicalTime, 0)
        case .refused, .transferred: (1, 0, logicalTime, 1)
        }
    }
}

/// An identity that statements about one purchase have in common. All of them are about one product.
enum PurchaseIdentity: Hashable {
    /// A period of a subscription, by the store's id.
    case lineItem(TransactionID, ProductID, EnvironmentID)
    /// A period of a subscription, by its first transaction and its start in seconds since 1970. Receipts have no
    /// fractions of seconds.
    case period(TransactionID, start: Int64, ProductID, EnvironmentID)
    /// A non-consumable, by its first transaction.
    case ownership(TransactionID, ProductID, EnvironmentID)
}

extension Purchase {
    /// True if the statement may be about the same purchase as one with another transaction.
    ///
    /// Two statements are about one purchase only if one of them is such a copy.
    var mayBeCopy: Bool { (originalID != nil || lineItemID != nil) && transaction.store == .appStore }

    /// The kinds of identities that do not depend on a line item.
    private enum Kind { case period, ownership }

    /// The kind of the identity that the first transaction gives; `nil` for units and time that is not renewed, which
    /// are bought once with each transaction.
    ///
    /// A purchase of an unknown product is taken for a non-consumable if it has no end, because the App Store gives
    /// other purchases without an end no second transaction.
    private var kind: Kind? {
        if storeExpiry != nil { return .period }
        switch terms?.kind {
        case .autoRenewable: return .period
        case .nonConsumable, nil: return .ownership
        case .consumable, .nonRenewing: return isNonConsumable ? .ownership : nil
        }
    }

    /// The identities of the purchase, the more reliable one first. Only the App Store names a purchase anew.
    func identities(statedDate: Timestamp) -> [PurchaseIdentity] {
        guard transaction.store == .appStore else { return [] }
        let first = originalID ?? transaction.id
        let derived: PurchaseIdentity? =
            switch kind {
            case .period: .period(first, start: statedDate.second, product, transaction.environment)
            case .ownership: .ownership(first, product, transaction.environment)
            case nil: nil
            }
        return [lineItemID.map { .lineItem($0, product, transaction.environment) }, derived].compactMap { $0 }
    }

    /// Hashes of the identities. Much cheaper than the identities, which share a hash rarely.
    fileprivate func digests(statedDate: Timestamp) -> IdentityDigests {
        guard transaction.store == .appStore else { return IdentityDigests() }
        let lineItem = lineItemID?.digest
        return switch kind {
        case .period: IdentityDigests(lineItem: lineItem, period: UInt64(bitPattern: statedDate.second))
        case .ownership: IdentityDigests(lineItem: lineItem, ownership: (originalID ?? transaction.id).digest)
        case nil: IdentityDigests(lineItem: lineItem)
        }
    }

    /// Returns `true` if `other`, a statement about another copy of the purchase, prevails: the one that the store
    /// signed last. Among equals, the one that gives more prevails.
    func isWeaker(than other: Purchase) -> Bool {
        if stamp.signedDate != other.stamp.signedDate {
            return (stamp.signedDate ?? .earliest) < (other.stamp.signedDate ?? .earliest)
                || stamp.signedDate == nil
        }
        let (end, otherEnd) = (periodEnd, other.periodEnd)
        if end != otherEnd { return end < otherEnd }
        if date != other.date { return other.date < date }
        if stamp.logicalTime != other.stamp.logicalTime { return stamp.logicalTime < other.stamp.logicalTime }
        return other.transaction < transaction
    }

    /// Moves the start of the purchase to the earliest of `dates`, which statements about it give.
    ///
    /// A start from which the stated end would be out of bounds is ignored, because the purchase would not count.
    mutating func start(atEarliestOf dates: [Timestamp]) {
        let possible = dates.filter { start in storeExpiry.map { Self.bounds($0, from: start) } ?? true }
        date = min(date, possible.min() ?? date)
    }

    /// The end that the statement gives to a period of a subscription; ``Timestamp/earliest`` if it gives none.
    private var periodEnd: Timestamp {
        if let storeExpiry { return bounds(storeExpiry) ? storeExpiry : .earliest }
        guard let terms, case .autoRenewable(_, _, let full, let offer) = terms.kind,
            Purchase.quantityRange.contains(quantity), terms.areWithinBounds,
            !isIntroductory || terms.offerIsWithinBounds
        else { return .earliest }
        let duration = isIntroductory ? offer?.duration ?? full : full
        return date.adding(duration.multiplied(by: quantity)).adding(terms.bonus)
    }
}

extension Timestamp {
    /// The second since 1970 that contains the instant.
    fileprivate var second: Int64 { milliseconds.flooredQuotient(by: 1_000) }
}

extension Identifier {
    /// A hash that orders numbers of equal length by their value.
    fileprivate var digest: UInt64 { rawValue.utf8.reduce(1) { $0 &* 10 &+ UInt64($1) } }
}

/// Hashes of the identities of a purchase.
private struct IdentityDigests {
    var lineItem: UInt64?
    var period: UInt64?
    var ownership: UInt64?

    var all: [UInt64] { [lineItem, period, ownership].compactMap { $0 } }

    /// Returns `true` if each hash is greater than the last of its kind in `last`, which becomes these.
    ///
    /// Transactions, line items and dates grow together, so this shows that most ledgers have no copies.
    func follow(_ last: inout IdentityDigests) -> Bool {
        func follows(_ next: UInt64?, _ last: inout UInt64?) -> Bool {
            guard let next else { return true }
            defer { last = next }
            return last.map { $0 < next } ?? true
        }
        return follows(lineItem, &last.lineItem) && follows(period, &last.period)
            && follows(ownership, &last.ownership)
    }
}

/// The identities of some purchases, to find other statements about them.
struct SoughtIdentities {
    private var identities: Set<PurchaseIdentity> = []
    /// Hashes of the identities, which tell most other purchases apart.
    private var digests: Set<UInt64> = []

    /// Adds the identities of a purchase.
    ///
    /// - Returns: `false` if one was known.
    mutating func insert(_ purchase: Purchase, statedDate: Timestamp) -> Bool {
        digests.formUnion(purchase.digests(statedDate: statedDate).all)
        return purchase.identities(statedDate: statedDate).allSatisfy { identities.insert($0).inserted }
    }

    /// Returns `true` if one of the identities of `purchase` is known.
    func contains(_ purchase: Purchase, statedDate: Timestamp) -> Bool {
        !digests.isEmpty && purchase.digests(statedDate: statedDate).all.contains(where: digests.contains)
            && purchase.identities(statedDate: statedDate).contains(where: identities.contains)
    }
}

/// Finds the statements that are about one purchase.
struct CopyFinder {
    /// The first statement with an identity that has this hash.
    private var owners: [UInt64: Int] = [:]
    /// The first statements with other identities that have the same hash.
    private var others: [PurchaseIdentity: Int] = [:]
    /// A statement about the same purchase with a lower or the same index.
    private var parents: [Int]
    private var hasCopies = false
    private let verifiedCount: Int
    private let identities: (Int) -> [PurchaseIdentity]

    /// Returns the groups of two or more indices of `purchases` that are about one purchase, in ascending order.
    ///
    /// A statement that is not verified belongs to at most one purchase with verified statements. So a client cannot
    /// make two purchases one, and revive what was refunded.
    ///
    /// - Parameter verifiedCount: The number of verified statements, which come first.
    /// - Complexity: O(*n* log *n*). A ledger without copies costs one look at each purchase.
    static func groups(
        of purchases: [Purchase], verifiedCount: Int, statedDate: (Purchase) -> Timestamp
    ) -> [[Int]] {
        // By position, because copying purchases costs more than comparing them.
        let areDistinct = purchases.withUnsafeBufferPointer { purchases in
            guard purchases.indices.contains(where: { purchases[$0].mayBeCopy }) else { return true }
            var last = IdentityDigests()
            return purchases.indices.allSatisfy { index in
                purchases[index].digests(statedDate: statedDate(purchases[index])).follow(&last)
            }
        }
        if areDistinct { return [] }
        return withoutActuallyEscaping(statedDate) { statedDate in
            var finder = CopyFinder(parents: Array(purchases.indices), verifiedCount: verifiedCount) { index in
                purchases[index].identities(statedDate: statedDate(purchases[index]))
            }
            finder.owners.reserveCapacity(purchases.count)
            purchases.withUnsafeBufferPointer { purchases in
                for index in purchases.indices {
                    let digests = purchases[index].digests(statedDate: statedDate(purchases[index]))
                    if let digest = digests.lineItem { finder.join(index, digest) { $0.first } }
                    if let digest = digests.period ?? digests.ownership { finder.join(index, digest) { $0.last } }
                }
            }
            return finder.groups()
        }
    }

    private init(parents: [Int], verifiedCount: Int, identities: @escaping (Int) -> [PurchaseIdentity]) {
        (self.parents, self.verifiedCount, self.identities) = (parents, verifiedCount, identities)
    }

    private mutating func groups() -> [[Int]] {
        guard hasCopies else { return [] }
        var members: [Int: [Int]] = [:]
        for index in parents.indices where parents[index] != index {
            members[root(of: index), default: []].append(index)
        }
        return members.keys.sorted().map { [$0] + members[$0, default: []] }
    }

    private mutating func join(
        _ index: Int, _ digest: UInt64, _ pick: ([PurchaseIdentity]) -> PurchaseIdentity?
    ) {
        guard var owner = owners[digest] else {
            owners[digest] = index
            return
        }
        guard let identity = pick(identities(index)) else { return }
        if !identities(owner).contains(identity) {
            guard let other = others[identity] else {
                others[identity] = index
                return
            }
            owner = other
        }
        let (left, right) = (root(of: owner), root(of: index))
        // The root of a group has the lowest index, so it is verified if any is.
        let isForbidden = index >= verifiedCount && max(left, right) < verifiedCount
        guard left != right, !isForbidden else { return }
        parents[max(left, right)] = min(left, right)
        hasCopies = true
    }

    /// Returns the lowest index of the group, and shortens the path to it.
    private mutating func root(of index: Int) -> Int {
        var index = index
        while parents[index] != index {
            parents[index] = parents[parents[index]]
            index = parents[index]
        }
        return index
    }
}
