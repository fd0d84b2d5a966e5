package import Entitlements

/// An item of `POST /v1/transactions` that a client states itself, without a store's signature.
package enum ReportedItem: Sendable {
    /// A purchase, a refund, a flag or a request for approval.
    case evidence(Evidence)
    /// One use of an entitlement, which spends a unit if only units grant it.
    case spend(EntitlementID, SpendID)

    /// The member `kind` of an item.
    package enum Kind: String, Sendable, CaseIterable {
        case reported, refunded, reinstated, flag, spend, pending, withdrawn
    }

    /// Reads an item.
    ///
    /// - Throws: ``RecordingError`` of kind `invalid` for a missing member or one of another type.
    init(_ kind: Kind, _ value: JSON) throws(RecordingError) {
        do throws(InputError) { self = try Self.read(kind, JSONReader(value).object()) } catch {
            throw RecordingError(.invalid, error.description)
        }
    }

    private static func read(_ kind: Kind, _ item: JSONObjectReader) throws(InputError) -> ReportedItem {
        func product() throws(InputError) -> ProductID { ProductID(try item.required("product").string()) }
        switch kind {
        case .reported: return .evidence(try purchase(item))
        case .refunded:
            return .evidence(
                .refunded(
                    try transaction(item), at: try item["date"]?.timestamp(), reason: try item["reason"]?.string() ?? ""
                ))
        case .reinstated:
            return .evidence(.reinstated(try transaction(item), reason: try item["reason"]?.string() ?? ""))
        case .flag: return .evidence(.flag(try product(), isSet: try item.required("set").bool()))
        case .spend:
            return .spend(
                EntitlementID(try item.required("entitlement").string()), SpendID(try item.required("id").string()))
        case .pending: return .evidence(.deferred(try product()))
        case .withdrawn: return .evidence(.withdrawn(try product()))
        }
    }

    private static func purchase(_ item: JSONObjectReader) throws(InputError) -> Evidence {
        let transaction = try transaction(item)
        return .reported(
            ProductID(try item.required("product").string()), transaction: transaction.id,
            date: try item["date"]?.timestamp(), quantity: try item["quantity"]?.integer() ?? 1,
            expires: try item["expires"]?.timestamp(),
            original: try item["original"].map { (id) throws(InputError) in TransactionID(try id.identifier()) },
            store: transaction.store, environment: transaction.environment)
    }

    private static func transaction(_ item: JSONObjectReader) throws(InputError) -> TransactionReference {
        TransactionReference(
            store: StoreID(try item["store"]?.string() ?? StoreID.reported.rawValue),
            environment: EnvironmentID(try item["environment"]?.string() ?? EnvironmentID.production.rawValue),
            id: TransactionID(try item.required("transaction").identifier()))
    }

    /// True if the item may grant access. Under the policy `verified` only evidence of a store can.
    package var mayGrant: Bool {
        guard case .evidence(let evidence) = self else { return false }
        return evidence.mayGrant
    }
}
