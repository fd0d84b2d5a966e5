/// An error in evidence, or a contradiction between evidence and the known facts. Nothing was recorded.
package struct RecordingError: Error {
    package enum Kind: Sendable {
        /// The catalogue does not contain a product or a group.
        case unknownProduct
        /// The catalogue does not contain an entitlement.
        case unknownEntitlement
        /// A value is out of range, or does not fit the product.
        case invalid
        /// The evidence contradicts a recorded fact.
        case contradiction
        /// The ledger has reached `LedgerLimits.standard`.
        case ledgerFull
    }

    package let kind: Kind
    /// One line: what is wrong, and what is expected.
    package let message: String

    package init(_ kind: Kind, _ message: String) {
        (self.kind, self.message) = (kind, message)
    }

    package static func unknown(_ product: ProductID) -> RecordingError {
        RecordingError(.unknownProduct, "the catalogue has no product \"\(product.rawValue.singleLine)\"")
    }

    package static func unknown(_ entitlement: EntitlementID) -> RecordingError {
        RecordingError(
            .unknownEntitlement, "the catalogue has no entitlement \"\(entitlement.rawValue.singleLine)\"")
    }
}
