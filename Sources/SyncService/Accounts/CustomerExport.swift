import EntitlementSync
package import Entitlements
package import SyncCore

/// Everything that the store of a server says about its customers, one account after the other.
///
/// The rows of an account are those of the projection, derived from the store at one instant. Each account is read at
/// a time of its own, so a server may run meanwhile.
package struct CustomerExport: Sendable {
    private let store: any KeyValueBackend
    private let catalog: Catalog
    private let instant: Timestamp

    /// The number of names that are listed at once.
    private static let pageCount = 256

    /// One account.
    package struct Customer: Sendable {
        let rows: ProjectedAccount
    }

    /// Exports the store of a server as of `instant`.
    package init(_ store: any KeyValueBackend, catalog: Catalog, at instant: Timestamp) {
        (self.store, self.catalog, self.instant) = (store, catalog, instant)
    }

    /// Calls `body` for each account that exists, in ascending order of the keys of their records.
    ///
    /// - Throws: `SupportError` if the store is not that of a server, the store's error, also for a record that cannot
    ///   be read, or the error of `body`.
    package func forEach(_ body: (Customer) throws -> Void) async throws {
        let records = RecordStore(backend: store)
        try await records.checkServer()
        let ids = ExternalIDs(records: records)
        var after: EntryKey?
        repeat {
            let page = try await store.list(prefix: AccountRecord.prefix, after: after, limit: Self.pageCount).outcome
            let names = page.items.compactMap { item in
                AccountRecord.escapedName(of: item.key).flatMap(LedgerKeys.unescaped)
            }
            var rest = names[...]
            while !rest.isEmpty {
                let batch = try await AccountDocuments.read(rest, in: store)
                let documents = try batch.documents.mapValues { try $0.get() }
                let own = try await ids.ids(of: documents.values.map(\.account))
                for name in rest.prefix(batch.count) {
                    guard let document = documents[Array(name.utf8)],
                        var rows = try document.projected(catalog, at: instant)
                    else { continue }
                    rows.externalID = own[document.account]
                    try body(Customer(rows: rows))
                }
                rest = rest.dropFirst(batch.count)
            }
            after = page.next
        } while after != nil
    }
}

extension CustomerExport.Customer {
    /// The customer as one JSON object.
    package var json: JSON {
        .object([
            ("account", .string(rows.name)), ("incarnation", .string(rows.incarnation)),
            ("externalId", JSON(rows.externalID)), ("issuer", JSON(rows.issuer)), ("created", Self.date(rows.created)),
            (
                "entitlements",
                .array(
                    rows.access.map { row in
                        .object([
                            ("environment", .string(row.environment)), ("entitlement", .string(row.entitlement)),
                            ("granted", .bool(row.isGranted)), ("since", Self.date(row.since)),
                            ("until", Self.date(row.until)), ("source", JSON(row.source)),
                            ("units", row.units.map(JSON.number) ?? .null), ("reason", JSON(row.reason)),
                        ])
                    })
            ),
            (
                "periods",
                .array(
                    rows.periods.map { row in
                        .object([
                            ("environment", .string(row.environment)), ("group", .string(row.group)),
                            ("product", JSON(row.period.product?.rawValue)),
                            ("transaction", JSON(row.period.transaction?.id.rawValue)),
                            ("start", .string("\(row.period.start)")),
                            ("end", JSON(row.period.end.asEnd.map { "\($0)" })),
                            ("level", row.period.level.map(JSON.number) ?? .null),
                        ])
                    })
            ),
            (
                "purchases",
                .array(
                    rows.purchases.map { row in
                        .object([
                            ("environment", .string(row.transaction.environment.rawValue)),
                            ("store", .string(row.transaction.store.rawValue)),
                            ("transaction", .string(row.transaction.id.rawValue)),
                            ("original", .string(row.original)), ("product", .string(row.product)),
                            ("group", JSON(row.group)), ("purchased", Self.date(row.purchased)),
                            ("expires", Self.date(row.expires)), ("quantity", .number(row.quantity)),
                            ("revoked", Self.date(row.revoked)), ("origin", .string(row.origin)),
                            ("setAside", JSON(row.setAside)), ("transferredTo", JSON(row.transferredTo)),
                        ])
                    })
            ),
        ])
    }

    /// The columns of ``table``. Each row is a `customer`, a `purchase`, a `period` or an `entitlement`.
    package static let columns = [
        "record", "account", "external_id", "environment", "store", "transaction", "original", "product", "group",
        "entitlement", "granted", "start", "end", "quantity", "level", "units", "revoked", "origin", "source", "reason",
    ]

    /// The customer as rows with ``columns``: one for the customer, and one for each purchase, period and entitlement.
    package var table: [[String]] {
        func row(_ record: String, _ values: [String: String?]) -> [String] {
            Self.columns.map { column in
                switch column {
                case "record": record
                case "account": rows.name
                case "external_id": rows.externalID ?? ""
                default: values[column].flatMap(\.self) ?? ""
                }
            }
        }
        func text(_ date: Int64?) -> String? { date.map { "\(Timestamp(milliseconds: $0))" } }
        var table = [row("customer", ["start": text(rows.created)])]
        table += rows.purchases.map { item in
            row(
                "purchase",
                [
                    "environment": item.transaction.environment.rawValue, "store": item.transaction.store.rawValue,
                    "transaction": item.transaction.id.rawValue, "original": item.original, "product": item.product,
                    "group": item.group, "start": text(item.purchased), "end": text(item.expires),
                    "quantity": "\(item.quantity)", "revoked": text(item.revoked), "origin": item.origin,
                    "reason": item.setAside,
                ])
        }
        table += rows.periods.map { item in
            row(
                "period",
                [
                    "environment": item.environment, "store": item.period.transaction?.store.rawValue,
                    "transaction": item.period.transaction?.id.rawValue, "product": item.period.product?.rawValue,
                    "group": item.group, "start": "\(item.period.start)",
                    "end": item.period.end.asEnd.map { "\($0)" }, "level": item.period.level.map { "\($0)" },
                ])
        }
        table += rows.access.map { item in
            row(
                "entitlement",
                [
                    "environment": item.environment, "entitlement": item.entitlement, "granted": "\(item.isGranted)",
                    "start": text(item.since), "end": text(item.until), "units": item.units.map { "\($0)" },
                    "source": item.source, "reason": item.reason,
                ])
        }
        return table
    }

    private static func date(_ milliseconds: Int64?) -> JSON {
        JSON(milliseconds.map { "\(Timestamp(milliseconds: $0))" })
    }
}
