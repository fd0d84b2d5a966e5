#if Evidence
import Entitlements

/// A purchase of the App Store, as stated by a receipt or by an answer of `verifyReceipt`.
struct ReceiptPurchase: Hashable {
    var transaction: TransactionID
    var product: ProductID
    var date: Timestamp
    var quantity: Int64
    /// The first transaction of the subscription; equal to `transaction` or `nil` for a first purchase.
    var original: TransactionID?
    /// The end of an auto-renewable subscription.
    var expiry: Timestamp?
    var isIntroductory: Bool
    /// The id of a period of a subscription, which is the same on all devices.
    var lineItem: TransactionID?
    /// True if the store states that the product is a non-consumable.
    var isNonConsumable = false
    /// The date of the refund; `nil` if the purchase was not refunded.
    var revokedAt: Timestamp?
    /// The date of an upgrade that has replaced the purchase; `nil` if there was none.
    var upgradedAt: Timestamp?

    /// The purchase, followed by its revocation or upgrade if there is one.
    func facts(in environment: EnvironmentID, stamp: Stamp) -> [Fact] {
        let reference = TransactionReference(store: .appStore, environment: environment, id: transaction)
        let purchase = Purchase(
            transaction: reference, product: product, terms: nil, date: date, quantity: quantity,
            originalID: original == transaction ? nil : original, storeExpiry: expiry, isIntroductory: isIntroductory,
            lineItemID: lineItem, isNonConsumable: isNonConsumable, stamp: stamp)
        guard revokedAt != nil || upgradedAt != nil else { return [.purchase(purchase)] }
        return [
            .purchase(purchase),
            .revocation(
                Revocation(transaction: reference, revokedAt: revokedAt, upgradedAt: upgradedAt, stamp: stamp)),
        ]
    }

    /// The order of facts: by date, then by transaction.
    static func precedes(_ left: ReceiptPurchase, _ right: ReceiptPurchase) -> Bool {
        (left.date, left.transaction) < (right.date, right.transaction)
    }
}

extension ReceiptPurchase {
    /// Reads the purchase from the attributes of a receipt's attribute 17.
    init(_ attributes: ReceiptAttributes) throws(EvidenceError) {
        transaction = try TransactionID(attributes.required(1703)).checked(attributes.place(1703))
        product = try ProductID(attributes.required(1702)).checked(attributes.place(1702))
        guard let date = try attributes.date(1704) else {
            throw EvidenceError(.content, "\(attributes.place(1704)), the purchase date, is missing")
        }
        self.date = date
        quantity = try attributes.integer(1701) ?? 1
        try checkQuantity(quantity, "\(attributes.place(1701)), the quantity,")
        original = try attributes.text(1705).map { (text) throws(EvidenceError) in
            try TransactionID(text).checked(attributes.place(1705))
        }
        expiry = try attributes.date(1708)
        let isTrial = try attributes.integer(1713) ?? 0
        let isIntroductory = try attributes.integer(1719) ?? 0
        self.isIntroductory = isTrial != 0 || isIntroductory != 0
        // Apple writes 0 for products that are no subscriptions.
        lineItem = try attributes.integer(1711).flatMap { $0 > 0 ? TransactionID("\($0)") : nil }
        // Apple does not document this attribute, so another type must not refuse the receipt.
        isNonConsumable = (try? attributes.integer(1707)) == Self.nonConsumable && expiry == nil
        revokedAt = try attributes.date(1712)
    }

    /// The value of attribute 1707 for a non-consumable. Subscriptions that renew have 3.
    private static let nonConsumable: Int64 = 0
}

extension ReceiptAttributes {
    fileprivate func required(_ type: Int64) throws(EvidenceError) -> String {
        guard let text = try text(type) else {
            throw EvidenceError(.content, "\(place(type)) is missing or empty")
        }
        return text
    }
}
#endif
