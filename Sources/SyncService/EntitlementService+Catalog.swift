import Crypto
import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

extension EntitlementService {
    /// The response with the catalogue.
    func catalog(_ call: Call) throws -> ServiceResponse {
        guard !configuration.catalogJSON.isEmpty else {
            throw RequestError.noCatalog
        }
        let tag = EntityTag(digest: Array(SHA256.hash(data: configuration.catalogJSON)))
        var response = HTTPResponse(status: .ok)
        response.headerFields[.eTag] = tag.description
        response.headerFields[.cacheControl] = "no-cache"
        guard let isKnown = call.fields.isKnown(tag) else {
            throw RequestError(.badRequest, "If-None-Match must be * or a list of entity tags")
        }
        if isKnown {
            response.status = .notModified
            return ServiceResponse(response)
        }
        response.headerFields[.contentType] = "application/json"
        return ServiceResponse(response, body: configuration.catalogJSON)
    }

    /// The response with the account's entitlements, derived from its ledger and the server ledger.
    func entitlements(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        let (environment, instant) = (try environment(in: call.query), try instant(in: call.query))
        let json = try await entitlements(of: caller, environment, at: instant).json
        return try call.response(json, to: caller)
    }

    /// The environment that a request names, or production.
    func environment(in query: WireQuery) throws(RequestError) -> EnvironmentID {
        guard let text = query["environment"] else { return .production }
        let environment = EnvironmentID(text)
        do throws(IdentifierError) { try environment.validate() } catch {
            throw RequestError(.badRequest, "environment: \(error)")
        }
        return environment
    }

    /// The entitlements of an account, from the cache if the store still has the versions from which they were derived.
    ///
    /// - Parameter isCharged: False for a request of the operator, which the account does not pay for.
    /// - Throws: ``RequestError`` for an erased account, or if there is no catalogue.
    func entitlements(
        of caller: AccountCaller, _ environment: EnvironmentID, at instant: @Sendable () -> Timestamp,
        isCharged: Bool = true
    ) async throws -> EntitlementsResponse.Reading {
        guard let catalog = configuration.catalog else {
            throw RequestError.noCatalog
        }
        guard !caller.isErased else { throw RequestError(.gone, "the account was erased") }
        if let known = try await known(of: caller.keys, environment, at: instant()) { return known }
        return try await derived(of: caller, catalog, environment, at: instant, isCharged)
    }

    /// The cached entitlements, if they are current.
    private func known(
        of keys: LedgerKeys, _ environment: EnvironmentID, at instant: Timestamp
    ) async throws -> EntitlementsResponse.Reading? {
        guard let known = ledgers.decoder.cache.answer(of: keys.ledger, in: environment), known.holds(at: instant)
        else { return nil }
        let (ledger, serverLedger) = try await store.read(
            ReadRequest(keys.ledger, unless: known.ledger), ReadRequest(keys.serverLedger, unless: known.serverLedger))
        guard ledger == (known.ledger == nil ? .absent : .unchanged),
            serverLedger == (known.serverLedger == nil ? .absent : .unchanged)
        else { return nil }
        // It was derived while the configured policy could not be stated.
        if let decoded = ledgers.decoder.cache.serverLedger(of: keys.serverLedger),
            decoded.version == known.serverLedger, decoded.policy != configuration.policy
        {
            return nil
        }
        return known.reading(at: instant)
    }

    private func derived(
        of caller: AccountCaller, _ catalog: Catalog, _ environment: EnvironmentID,
        at instant: @Sendable () -> Timestamp, _ isCharged: Bool
    ) async throws -> EntitlementsResponse.Reading {
        // Without the policy in the server ledger, statements of clients would count.
        try await ledgerRules(of: caller).checkPolicy()
        let entries = try await store.ledgerEntries(caller.keys)
        return try await ledgers.decoder.entitlements(
            of: caller, catalog: catalog, environment: environment, entries, at: instant
        ) { [limiter, host] byteCount in
            guard isCharged else { return }
            try limiter.takeReads(
                byteCount >> RequestLimiter.replayShift, account: caller.account.name ?? "", now: host.now())
        }
    }
}

extension RequestError {
    /// The refusal of a request that needs a catalogue, at a server without one.
    static let noCatalog = RequestError(.notFound, "this server has no catalogue (syncd serve --catalog)")
}
