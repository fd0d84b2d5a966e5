#if Evidence
internal import Crypto
internal import Entitlements

/// The names that Google Play gives to one purchase.
///
/// An order id (`GPA.3345-6789-0123-45678`) names one payment, and the orders of renewals append `..0`, `..1` and so on
/// to the first one. A purchase token names a one-time purchase, or a subscription with all its renewals. So an order
/// is a transaction here, and the first order is the line. The purchase token is an alias of the line.
///
/// A purchase without an order, for example by a promotion code, is named by its purchase token instead. An order that
/// sold several products, as a subscription with add-ons does, gives the transactions and lines `ORDER/PRODUCT`.
///
/// Names longer than an id may be are replaced by `sha256:` and their digest in hexadecimal.
struct PlayIdentity {
    let environment: EnvironmentID
    /// The order of the latest payment; `nil` if there is none.
    let order: String?
    let purchaseToken: String

    /// Returns the transaction in which the order sold `product`.
    ///
    /// - Parameter isOneOfMany: `true` if the order sold other products as well.
    func transaction(of product: ProductID, isOneOfMany: Bool) throws(EvidenceError) -> TransactionReference {
        let name = order ?? purchaseToken
        return try reference(isOneOfMany ? "\(name)/\(product)" : name)
    }

    /// Returns the line to which ``transaction(of:isOneOfMany:)`` belongs.
    func line(of product: ProductID, isOneOfMany: Bool) throws(EvidenceError) -> TransactionReference {
        try reference(isOneOfMany ? "\(firstOrder)/\(product)" : firstOrder)
    }

    /// The transaction of the order as a whole.
    func transaction() throws(EvidenceError) -> TransactionReference { try reference(order ?? purchaseToken) }

    /// The line of the order as a whole.
    func line() throws(EvidenceError) -> TransactionReference { try reference(firstOrder) }

    /// Returns the alias that leads from the purchase token to the line; empty if the token itself is the line.
    func aliases() throws(EvidenceError) -> [TransactionReference: TransactionReference] {
        order == nil ? [:] : [try reference(purchaseToken): try line()]
    }

    /// Returns the reference to the order, product of an order or purchase token called `name`.
    func reference(_ name: String) throws(EvidenceError) -> TransactionReference {
        var id = TransactionID(name)
        if name.utf8.count > maximumIdentifierByteCount {
            let digits = SHA256.hash(data: Array(name.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
            id = TransactionID("sha256:" + digits.joined())
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
