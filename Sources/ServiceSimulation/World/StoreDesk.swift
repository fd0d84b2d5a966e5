import Entitlements
import StoreEvidence
import SyncService

/// A store that sells, and what it signs. Its statements are plain texts: only the code above the cryptography is
/// simulated. Single-threaded.
final class StoreDesk: @unchecked Sendable {
    /// One sale that the store may make.
    struct Article: Sendable {
        var product: ProductID
        var quantity: Int64 = 1
        /// The first sale of the subscription line; `nil` for a line of its own.
        var first: Int?
    }

    /// The number of products that are sold once each, so that access shows which accounts have the sale.
    static let saleCount = 8
    /// All sales by their numbers: first those of ``saleCount``, then season passes, a subscription with three
    /// renewals, and coins.
    static let articles: [Article] =
        (0..<saleCount).map { Article(product: ProductID("p\($0)")) }
        + ["season3", "season3", "season6", "season6"].map { Article(product: ProductID($0)) }
        + (0..<4).map { _ in Article(product: "club", first: 12) }
        + [Article(product: "coin"), Article(product: "coin", quantity: 2)]
    /// The sales of season passes, of the subscription, and of coins.
    static let (seasons, renewals, coins) = (8..<12, 12..<16, 16..<18)
    /// The units in one coin.
    static let coinUnits: Int64 = 10
    /// The length of a period of the subscription, in milliseconds.
    static let periodLength: Int64 = 86_400_000

    /// The catalogue: the product `p3` is sold once, and opens the entitlement `e3`.
    static let catalog = catalog(extraMonths: 0)

    /// Bytes that differ as the catalogues do.
    static func catalogJSON(extraMonths: Int64) -> [UInt8] { Array("catalogue of \(extraMonths) extra months".utf8) }

    /// The catalogue with longer season passes.
    static func catalog(extraMonths: Int64) -> Catalog {
        func season(_ id: ProductID, _ months: Int64) -> Product {
            let duration = CalendarDuration(months: months + extraMonths)
            return Product(id: id, kind: .nonRenewing(group: "pass", duration: duration))
        }
        let products =
            (0..<saleCount).map { Product(id: ProductID("p\($0)"), kind: .nonConsumable) }
            + [season("season3", 3), season("season6", 6)]
            + [
                Product(
                    id: "club",
                    kind: .autoRenewable(
                        group: "club", level: 1, duration: CalendarDuration(days: 1), introductory: nil)),
                Product(id: "coin", kind: .consumable(units: coinUnits)),
            ]
        let entitlements =
            (0..<saleCount).map {
                Entitlement(id: EntitlementID("e\($0)"), grantedBy: [.product(ProductID("p\($0)"))])
            }
            + [
                Entitlement(id: "play", grantedBy: [.units("coin")]),
                Entitlement(id: "club", grantedBy: [.group("club")]),
                Entitlement(id: "season", grantedBy: [.group("pass")]),
            ]
        let content = (0..<saleCount).map {
            ContentRule(path: "/e\($0)/", source: .entitlement(EntitlementID("e\($0)")), basis: .current)
        }
        do {
            return try Catalog(
                products: products, entitlements: entitlements,
                policy: Policy(rules: ConflictRules(consumables: .shared)), content: content)
        } catch {
            preconditionFailure("the catalogue of the simulation is not valid: \(error)")
        }
    }

    /// The sale that names the line of `sale`.
    static func line(of sale: Int) -> Int { articles[sale].first ?? sale }

    /// The dates of sales and refunds, in milliseconds since 1970 UTC.
    private(set) var sold: [Int: Int64] = [:]
    private var refunded: [Int: Int64] = [:]
    /// The account tokens that buyers have named, by line.
    private(set) var tokens: [Int: String] = [:]
    /// The dates of the last signatures before a sale, a refund or its reversal. Later statements say so.
    private(set) var changed: [Int: Int64] = [:]
    /// Sales that were refunded once.
    private(set) var everRefunded: Set<Int> = []
    /// The date of the last signature. Dates differ, so that it is clear which statement is the last.
    private var lastSigned: Int64 = 0
    private var lastSold: Int64 = 0
    /// The first statement about each sale.
    private var former: [Int: String] = [:]

    func refund(_ sale: Int, at now: Int64) {
        sell(sale, at: now)
        guard refunded[sale] == nil else { return }
        refunded[sale] = now
        everRefunded.insert(sale)
        changed[sale] = lastSigned
    }

    /// Reverses a refund.
    func reinstate(_ sale: Int) {
        if refunded.removeValue(forKey: sale) != nil { changed[sale] = lastSigned }
    }

    func isRefunded(_ sale: Int) -> Bool { refunded[sale] != nil }

    /// Returns `true` if a server whose clock shows `time` (milliseconds since 1970 UTC) grants the sale to its owner.
    func counts(_ sale: Int, at time: Int64) -> Bool {
        guard let date = sold[sale], date <= time else { return false }
        return refunded[sale].map { time < $0 } ?? true
    }

    func refundDate(of sale: Int) -> Int64? { refunded[sale] }

    /// The end of a period of the subscription.
    func expiry(of sale: Int) -> Int64? {
        Self.renewals.contains(sale) ? sold[sale].map { $0 + Self.periodLength } : nil
    }

    /// Names the owner of a line that is not sold yet.
    ///
    /// - Returns: `false` if it is sold.
    func name(_ token: String, in sale: Int) -> Bool {
        let line = Self.line(of: sale)
        guard sold[line] == nil, tokens[line] == nil else { return false }
        tokens[line] = token
        return true
    }

    /// Sells a sale, and the earlier ones of its line. A renewal begins when the period before it ends.
    private func sell(_ sale: Int, at now: Int64) {
        let former = sale > Self.line(of: sale) ? sale - 1 : nil
        if let former { sell(former, at: now) }
        guard sold[sale] == nil else { return }
        guard sale >= Self.saleCount else {
            sold[sale] = now
            return
        }
        lastSold = max(now, lastSold + 1)
        sold[sale] = max(lastSold, former.flatMap(expiry) ?? 0)
        changed[sale] = lastSigned
    }

    /// The store's statement about a sale, signed now: `t3 p3 DATE SIGNED REFUND` for a product that is sold once, and
    /// otherwise `t13 club DATE SIGNED TOKEN QUANTITY FIRST EXPIRY REFUND`.
    func text(of sale: Int, at now: Int64) -> String {
        sell(sale, at: now)
        lastSigned = max(now, lastSigned + 1)
        let article = Self.articles[sale]
        var parts = ["t\(sale)", article.product.rawValue, "\(sold[sale] ?? now)", "\(lastSigned)"]
        if sale >= Self.saleCount {
            parts += [
                tokens[Self.line(of: sale)] ?? "-", "\(article.quantity)", article.first.map { "t\($0)" } ?? "-",
                expiry(of: sale).map(String.init) ?? "-",
            ]
        }
        let text = (parts + [refunded[sale].map(String.init) ?? "-"]).joined(separator: " ")
        former[sale] = former[sale] ?? text
        return text
    }

    /// The first statement about a sale, as a device may have kept it.
    func formerText(of sale: Int, at now: Int64) -> String { former[sale] ?? text(of: sale, at: now) }

    /// The statement as a device sends it.
    func item(of sale: Int, at now: Int64) -> [UInt8] {
        Self.item(text(of: sale, at: now))
    }

    /// A statement's text as a device sends it.
    static func item(_ text: String) -> [UInt8] {
        Array(#"{"kind":"app-store-transaction","jws":"\#(text)"}"#.utf8)
    }

    /// The statement as a device keeps it.
    func statement(of sale: Int, at now: Int64) throws -> VerifiedStatement {
        let text = text(of: sale, at: now)
        let evidence = try StoreVerifier().transaction(text, now: Timestamp(milliseconds: now))
        return VerifiedStatement(
            kind: "app-store-transaction", subject: "production/t\(sale)", data: Self.item(text), facts: evidence.facts,
            signedDate: evidence.signedDate ?? Timestamp(milliseconds: now))
    }

    /// The sale as an app reports it that verifies nothing.
    func report(of sale: Int, at now: Int64) -> Evidence {
        sell(sale, at: now)
        let article = Self.articles[sale]
        return .reported(
            article.product, transaction: TransactionID("t\(sale)"), date: Timestamp(milliseconds: sold[sale] ?? now),
            quantity: article.quantity, expires: expiry(of: sale).map { Timestamp(milliseconds: $0) },
            original: article.first.map { TransactionID("t\($0)") }, store: .appStore)
    }

    /// The sale of a statement's text, if it is one of ``saleCount``.
    static func sale(of text: String) -> Int? { article(of: text).flatMap { $0 < saleCount ? $0 : nil } }

    /// The number of the sale of a statement's text; `nil` for a text that is no statement.
    static func article(of text: String) -> Int? {
        guard let number = text.split(separator: " ").first.flatMap({ Int($0.dropFirst()) }),
            articles.indices.contains(number)
        else { return nil }
        return number
    }

    /// The date of the signature of a statement's text.
    static func signedDate(of text: String) -> Int64? {
        text.split(separator: " ").dropFirst(3).first.flatMap { Int64($0) }
    }
}

/// Reads the statements of ``StoreDesk``.
struct StoreVerifier: AppStoreVerification {
    private func evidence(
        _ kind: EvidenceKind, _ text: String, _ now: Timestamp
    ) throws(EvidenceError) -> VerifiedEvidence {
        let parts = text.split(separator: " ").map(String.init)
        guard parts.count == 5 || parts.count == 9, let date = Int64(parts[2]), let signed = Int64(parts[3]) else {
            throw EvidenceError(.signature, "the simulated store has not signed this")
        }
        guard signed - now.milliseconds <= EvidenceLimits.clockTolerance else {
            throw EvidenceError(.signedDate, "it is signed in the future", isTransient: true)
        }
        let stamp = Stamp.signed(at: Timestamp(milliseconds: signed))
        let reference = TransactionReference(store: .appStore, id: TransactionID(parts[0]))
        let isLong = parts.count == 9
        let purchase = Purchase(
            transaction: reference, product: ProductID(parts[1]), terms: nil, date: Timestamp(milliseconds: date),
            quantity: isLong ? Int64(parts[5]) ?? 1 : 1,
            originalID: isLong && parts[6] != "-" ? TransactionID(parts[6]) : nil,
            storeExpiry: isLong ? Int64(parts[7]).map { Timestamp(milliseconds: $0) } : nil, stamp: stamp)
        let revocation = Revocation(
            transaction: reference, revokedAt: Int64(parts[parts.count - 1]).map { Timestamp(milliseconds: $0) },
            stamp: stamp)
        return VerifiedEvidence(
            kind: kind, facts: [.purchase(purchase), .revocation(revocation)],
            signedDate: Timestamp(milliseconds: signed),
            accountToken: isLong && parts[4] != "-" ? parts[4] : nil)
    }

    func transaction(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        try evidence(.appStoreTransaction, jws, now)
    }

    func renewal(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        throw EvidenceError(.signature, "the simulated store signs no renewal infos")
    }

    func notification(_ body: [UInt8], now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let payload = (try? JSON(parsing: body))?["signedPayload"]?.string ?? ""
        return try evidence(.appStoreNotification, payload, now)
    }

    func receipt(_ bytes: [UInt8], now: Timestamp, deviceID: [UInt8]?) throws(EvidenceError) -> VerifiedEvidence {
        throw EvidenceError(.signature, "the simulated store signs no receipts")
    }
}
