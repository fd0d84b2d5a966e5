#if Evidence
internal import Entitlements

/// The names of the purchases in one order of Google Play.
///
/// An order id (`GPA.3345-6789-0123-45678`) names one payment, and the orders of renewals append `..0`, `..1` and so on
/// to the first one. An order sells several products if a subscription has add-ons. So a transaction is `ORDER/PRODUCT`
/// and its line is `FIRST-ORDER/PRODUCT`, also if the order sells one product only: add-ons come and go, and a line
/// must keep its name. A purchase without an order, for example by a promotion code, has its purchase token instead.
///
/// A refund states an order or a purchase token, but neither products nor the environment. Its names have no product
/// and are filed under `production`, also those of test purchases. They are aliases of the transactions that they
/// concern. So one fact about an order reaches all its products in any environment.
///
/// Names longer than an id may be are replaced by `sha256:` and their digest in hexadecimal.
struct PlayIdentity {
    /// The `acknowledgementState` of a purchase that must be acknowledged.
    static let unacknowledged = "ACKNOWLEDGEMENT_STATE_PENDING"

    /// The order of the latest payment; `nil` if there is none.
    let order: String?
    let purchaseToken: String

    /// Returns the transaction in which the order sold `product`.
    private func transaction(
        of product: ProductID, in environment: EnvironmentID
    ) throws(EvidenceError) -> TransactionReference {
        try Self.reference("\(order ?? purchaseToken)/\(product)", in: environment)
    }

    /// Returns the line to which ``transaction(of:in:)`` belongs.
    func line(of product: ProductID, in environment: EnvironmentID) throws(EvidenceError) -> TransactionReference {
        try Self.reference("\(firstOrder)/\(product)", in: environment)
    }

    /// Returns the name that stands for all purchases of the order, as in a refund.
    func name() throws(EvidenceError) -> TransactionReference {
        try Self.reference(order ?? purchaseToken, in: .production)
    }

    /// Returns the purchase of `product`, and adds its aliases to `evidence`.
    func purchase(
        of product: ProductID, in environment: EnvironmentID, date: Timestamp, stamp: Stamp,
        addingAliasesTo evidence: inout VerifiedEvidence
    ) throws(EvidenceError) -> Purchase {
        let transaction = try transaction(of: product, in: environment)
        let line = try line(of: product, in: environment)
        try addAliases(of: product, in: environment, to: &evidence.aliases)
        return Purchase(
            transaction: transaction, product: product, terms: nil, date: date,
            originalID: line == transaction ? nil : line.id, stamp: stamp)
    }

    /// Adds the names that stand for the purchase of `product`: its order, and the purchase token. The token stands for
    /// all purchases of the line.
    private func addAliases(
        of product: ProductID, in environment: EnvironmentID,
        to aliases: inout [TransactionReference: Set<TransactionReference>]
    ) throws(EvidenceError) {
        let transaction = try transaction(of: product, in: environment)
        aliases[try name(), default: []].insert(transaction)
        let token = try Self.reference(purchaseToken, in: .production)
        aliases[token, default: []].formUnion([transaction, try line(of: product, in: environment)])
    }

    private static func reference(
        _ name: String, in environment: EnvironmentID
    ) throws(EvidenceError) -> TransactionReference {
        var id = TransactionID(name)
        if name.utf8.count > maximumIdentifierByteCount {
            id = TransactionID("sha256:" + hexadecimalDigest(of: name))
        }
        return TransactionReference(
            store: .googlePlay, environment: environment, id: try id.checked("the id of the purchase"))
    }

    /// The first order of the subscription, without the number of the renewal.
    private var firstOrder: String {
        guard let order else { return purchaseToken }
        let bytes = Array(order.utf8)
        let digits = bytes.reversed().prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.count
        let rest = bytes.dropLast(digits)
        guard digits > 0, order.hasPrefix("GPA."), rest.suffix(2) == [0x2E, 0x2E] else { return order }
        return String(decoding: rest.dropLast(2), as: UTF8.self)
    }
}
#endif
