package import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

extension EntitlementService {
    static let catalogTrialRoutes: [Route<Endpoint>] = [
        Route(
            .post, "/v1/catalog/check", .operator(.read, EntitlementService.checkCatalog),
            query: ["environment", "at"] + paging, takesLongBody: true)
    ]

    /// The effect of a changed catalogue on a page of customers.
    ///
    /// - Parameters:
    ///   - json: The changed catalogue: JSON, or a StoreKit configuration.
    ///   - name: The member `next` of the page before; `nil` for the first page.
    /// - Throws: ``RequestError`` with the place of a mistake in the catalogue, or the store's error.
    package func tryCatalog(
        _ json: [UInt8], environment: EnvironmentID = .production, at instant: Timestamp? = nil, after name: String?,
        limit: Int = CatalogTrial.pageCount
    ) async throws -> (trial: CatalogTrial, page: CatalogTrial.Page) {
        guard let current = configuration.catalog else { throw RequestError.noCatalog }
        let changed: Catalog
        do throws(InputError) { changed = try Catalog(anyJSON: json) } catch {
            throw RequestError(.badRequest, "the catalogue: \(error)")
        }
        if let name, !AccountName.canExist(name) {
            throw RequestError(.badRequest, "after must be the member \"next\" of a page, not \"\(name.singleLine)\"")
        }
        let trial = CatalogTrial(
            current: current, changed: changed, environment: environment,
            instant: instant ?? Timestamp(milliseconds: host.now()))
        return (trial, try await trial.page(after: name, limit: limit, in: store, now: host.now))
    }

    /// The response to `POST /v1/catalog/check`.
    private func checkCatalog(_ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse {
        try call.fields.checkJSON()
        let (environment, instant) = (try environment(in: call.query), try instant(in: call.query)())
        let limit = try call.query["limit"].map { (text) throws(RequestError) in
            guard let limit = Int(text), (1...CatalogTrial.pageCount).contains(limit) else {
                throw RequestError(
                    .badRequest,
                    "limit must be a whole number from 1 to \(CatalogTrial.pageCount), not \"\(text.singleLine)\"")
            }
            return limit
        }
        let after = call.query["after"].flatMap { $0.isEmpty ? nil : $0 }
        let (trial, page) = try await tryCatalog(
            call.request.body, environment: environment, at: instant, after: after,
            limit: limit ?? CatalogTrial.pageCount)
        let head: [(String, JSON)] = [
            ("at", .string("\(instant)")), ("environment", .string(environment.rawValue)),
            ("products", trial.difference(\.products, \.id.rawValue)),
            ("groups", trial.difference(\.groups, \.rawValue)),
            ("entitlementNames", trial.difference(\.entitlements, \.id.rawValue)),
        ]
        return try call.response(Array(JSON.object(head + page.members).text().utf8), to: caller)
    }
}

extension CatalogTrial {
    /// The names that only one of the catalogues has, and those whose definitions differ.
    fileprivate func difference<Element: Hashable>(
        _ list: KeyPath<Catalog, [Element]>, _ name: KeyPath<Element, String>
    ) -> JSON {
        let (old, new) = (current[keyPath: list], changed[keyPath: list])
        // Names compare as bytes.
        let known = Dictionary(old.map { (Array($0[keyPath: name].utf8), $0) }) { $1 }
        let kept = Dictionary(new.map { (Array($0[keyPath: name].utf8), $0) }) { $1 }
        func names(_ elements: [Element]) -> JSON { .array(elements.map { .string($0[keyPath: name]) }) }
        return .object([
            ("added", names(new.filter { known[Array($0[keyPath: name].utf8)] == nil })),
            ("removed", names(old.filter { kept[Array($0[keyPath: name].utf8)] == nil })),
            (
                "changed",
                names(
                    new.filter { element in
                        known[Array(element[keyPath: name].utf8)].map { $0 != element } ?? false
                    })
            ),
        ])
    }
}
