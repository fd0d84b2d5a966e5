import EntitlementSync
import Entitlements

extension Shop {
    /// A named, ordered list of products to show together. The operator changes it in the server's catalogue, without a
    /// release of the app.
    public struct Offering: Hashable, Sendable, Identifiable {
        /// The name of the offering in the catalogue.
        public var id: String
        /// The rows of its products, in its order. A product that ``Shop/rows`` lacks, because it is not for sale, is
        /// left out.
        public var rows: [Row]
    }

    /// The offerings of the catalogue, in its order. Empty until ``run()`` or ``refresh()`` has read the purchases, and
    /// for a catalogue without offerings.
    public var offerings: [Offering] {
        // Also observes a change of the catalogue, which renews the rows.
        let rows = Dictionary(rows.map { ($0.id, $0) }) { $1 }
        return (opened?.store.catalog.offerings ?? []).map { offering in
            Offering(id: offering.id.rawValue, rows: offering.products.compactMap { rows[$0.rawValue] })
        }
    }

    /// Uses the catalogue that the server has sent last. A failure is reported, and the bundled file counts.
    func restoreCatalog(_ opened: OpenedShop) async {
        await attempt(.serverCatalogue) { try await opened.serverCatalog?.restore() }
    }

    /// Fetches the server's catalogue if it has changed, and uses it at once.
    ///
    /// - Returns: `true` if the catalogue was replaced.
    func updateCatalog() async throws(ShopError) -> Bool {
        let opened = try await open()
        guard let update = try await opened.serverCatalog?.update() else { return false }
        report(nil, in: .serverCatalogue)
        report(update.saveFailure, in: .catalogueCopy)
        if update.isReplaced { await opened.model.refresh() }
        return update.isReplaced
    }
}
