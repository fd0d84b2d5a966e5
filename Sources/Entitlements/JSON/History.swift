/// The purchases recorded by another system, for import and for comparing rules.
///
/// The format is a JSON array of
/// `{"transactionID","productID","purchaseDate","quantity"?,"revokedAt"?,"expiresDate"?,"store"?}` with dates in RFC
/// 3339. If `store` is missing, the transaction belongs to `reported`.
public struct History: Hashable, Sendable {
    /// One purchase of a history.
    public struct Entry: Hashable, Sendable {
        /// The id of the transaction, unique within a history.
        public var transaction: TransactionID
        /// The product that was bought.
        public var product: ProductID
        /// The purchase date.
        public var purchaseDate: Timestamp
        /// The quantity, 1 to 10,000.
        public var quantity: Int64
        /// The date of the revocation; `nil` if the purchase was not revoked.
        public var revokedAt: Timestamp?
        /// The end stated by the store, for an auto-renewable subscription.
        public var expiresDate: Timestamp?
        /// The store to which the transaction id belongs.
        public var store: StoreID

        /// Creates an entry.
        public init(
            transaction: TransactionID, product: ProductID, purchaseDate: Timestamp, quantity: Int64 = 1,
            revokedAt: Timestamp? = nil, expiresDate: Timestamp? = nil, store: StoreID = .reported
        ) {
            self.store = store
            self.transaction = transaction
            self.product = product
            self.purchaseDate = purchaseDate
            self.quantity = quantity
            self.revokedAt = revokedAt
            self.expiresDate = expiresDate
        }
    }

    /// The purchases, in the order of the document.
    public var entries: [Entry]

    /// Creates a history of `entries`.
    public init(entries: [Entry]) {
        self.entries = entries
    }

    /// Reads a history from JSON, completely or not at all. Every product must be in `catalog`.
    ///
    /// - Throws: ``InputError`` with the line and column of a syntax error, or the path of an invalid value.
    public init(json: some Collection<UInt8>, catalog: Catalog) throws(InputError) {
        entries = []
        var seen: Set<TransactionReference> = []
        for reader in try JSONReader(parsing: json).array() {
            let entry = try Entry(reader, catalog: catalog)
            guard seen.insert(TransactionReference(store: entry.store, id: entry.transaction)).inserted else {
                throw reader.error("transaction \"\(entry.transaction.rawValue.singleLine)\" is repeated")
            }
            entries.append(entry)
        }
    }

    /// Returns a ledger that records this history, for replaying it without a store.
    public func ledger(catalog: Catalog, environment: EnvironmentID = .production) -> Ledger {
        var time = LogicalTime.zero
        var facts: [Fact] = []
        for entry in entries {
            time = time.next(at: entry.purchaseDate)
            let transaction = TransactionReference(
                store: entry.store, environment: environment, id: entry.transaction)
            facts.append(
                .purchase(
                    Purchase(
                        transaction: transaction, product: entry.product, terms: catalog.terms(of: entry.product),
                        date: entry.purchaseDate, quantity: entry.quantity, storeExpiry: entry.expiresDate,
                        stamp: Stamp(logicalTime: time))))
            guard let revokedAt = entry.revokedAt else { continue }
            time = time.next(at: revokedAt)
            facts.append(
                .revocation(
                    Revocation(transaction: transaction, revokedAt: revokedAt, stamp: Stamp(logicalTime: time))))
        }
        return Ledger(facts.map(\.record))
    }
}

extension History.Entry {
    fileprivate init(_ reader: JSONReader, catalog: Catalog) throws(InputError) {
        let members = try reader.object()
        try members.allow("transactionID", "productID", "purchaseDate", "quantity", "revokedAt", "expiresDate", "store")
        let transactionReader = try members.required("transactionID")
        let transaction = TransactionID(try transactionReader.identifier())
        do { try transaction.validate() } catch { throw transactionReader.error(error.reason) }
        let productReader = try members.required("productID")
        let product = ProductID(try productReader.identifier())
        guard catalog[product: product] != nil else {
            throw productReader.error("the catalogue has no product \"\(product.rawValue.singleLine)\"")
        }
        let quantity = try members["quantity"]?.integer() ?? 1
        guard Purchase.quantityRange.contains(quantity) else {
            throw InputError(path: "\(reader.path).quantity", reason: "quantity must be 1 to 10,000, not \(quantity)")
        }
        var store = StoreID.reported
        if let storeReader = members["store"] {
            store = StoreID(try storeReader.string())
            do { try store.validate() } catch { throw storeReader.error(error.reason) }
        }
        self.init(
            transaction: transaction, product: product,
            purchaseDate: try members.required("purchaseDate").timestamp(), quantity: quantity,
            revokedAt: try members["revokedAt"]?.timestamp(), expiresDate: try members["expiresDate"]?.timestamp(),
            store: store)
    }
}
