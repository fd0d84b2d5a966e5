import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

extension Service {
    /// What is sold.
    func catalog(_ request: ServiceRequest) throws -> TransportAnswer {
        guard !configuration.catalogJSON.isEmpty else {
            throw RequestError(.notFound, "this server has no catalogue (syncd serve --catalog)")
        }
        let tag = EntityTag(digest: accounts.cryptography.digest(of: configuration.catalogJSON))
        var response = HTTPResponse(status: .ok)
        response.headerFields[.eTag] = tag.description
        response.headerFields[.cacheControl] = "no-cache"
        if let field = request.head.headerFields[.ifNoneMatch] {
            let isKnown: Bool
            switch TagCondition(field) {
            case nil: throw RequestError(.badRequest, "If-None-Match is * or a list of entity tags")
            case .anything: isKnown = true
            case .tags(let tags): isKnown = tags.contains { $0.text == tag.text }
            }
            if isKnown {
                response.status = .notModified
                return TransportAnswer(response)
            }
        }
        response.headerFields[.contentType] = "application/json"
        return TransportAnswer(response, body: configuration.catalogJSON)
    }

    /// What the account may use, derived from its ledger and from what the server decided about it.
    func entitlements(of caller: AccountCaller, _ query: WireQuery) async throws -> TransportAnswer {
        guard let catalog = configuration.catalog else {
            throw RequestError(.notFound, "this server has no catalogue (syncd serve --catalog)")
        }
        guard !caller.isErased else { throw RequestError(.gone, "the account was erased") }
        var instant = Timestamp(milliseconds: host.now())
        if let text = query["at"] {
            do throws(TimestampError) { instant = try Timestamp(text) } catch {
                throw RequestError(.badRequest, "at: \(error)")
            }
        }
        let keys = caller.keys
        let results = try await store.read([ReadRequest(keys.ledger), ReadRequest(keys.decisions)]).outcome
        var ledgers: [Ledger] = []
        for (result, key) in zip(results, [keys.ledger, keys.decisions]) {
            guard case .found(let entry) = try result.get() else {
                ledgers.append(Ledger())
                continue
            }
            do throws(LedgerFormatError) { ledgers.append(try LedgerDocument(decoding: entry.value).ledger) } catch {
                throw BackendError(.damaged, operation: .read, key: key, message: "the stored ledger: \(error)")
            }
        }
        // The marker comes before the account's own record hears of the erasure.
        guard ledgers.first?.isErased != true else { throw RequestError(.gone, "the account was erased") }
        guard ledgers.count == 2 else { throw BackendError(.other, message: "the store answered half of a question") }
        let replay = Replay(Facts(account: ledgers[0], server: ledgers[1]), catalog: catalog)
        let snapshot = replay.snapshot(at: instant)
        let name = "\(caller.account)"
        return try .json { Array(snapshot.json(account: name).text().utf8) }
    }
}
