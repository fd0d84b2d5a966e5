import HTTPTypes
import SyncCore
import SyncProtocol

/// The storage contract over HTTP: `/v1/kv`, `/v1/batch` and `/v1/changes`, over any store with compare-and-swap.
///
/// It turns requests into answers and knows no sockets. Requests are authenticated before they get here, and
/// ``KeyScope`` restricts the keys.
package struct KeyValueService: Sendable {
    /// Limits of one request.
    package struct Limits: Hashable, Sendable {
        /// The longest value, in bytes.
        package var valueByteCount = 4 << 20
        /// The maximum number of keys or changes in a page, whatever the client asks for.
        package var pageSize = 1_000
        /// The total size of the values in the answer to a batch, in bytes. A longer value is sent only as the first
        /// one.
        package var batchByteCount = 16 << 20
        /// The size of a page if the client names none.
        package var usualPageSize = 100

        /// The usual limits.
        package init() {}
    }

    var store: any KeyValueBackend
    /// The keys that can be reached.
    var scope = KeyScope.everything
    let limits: Limits
    /// Reserves room in the answer for a value of the given number of bytes. `false` if the value must be left out. See
    /// ``ServiceRequest/reserveAnswer``.
    var reserve: @Sendable (Int) -> Bool = { _ in true }
    /// Charges the account for operations that are not covered by its request: those of a batch, and changes that were
    /// skipped.
    var charge: @Sendable (_ reads: Int, _ writes: Int) -> Void = { _, _ in }
    private let onError: @Sendable (BackendError) -> Void

    /// A service over `store`.
    ///
    /// - Parameters:
    ///   - store: The store of the values. It must support compare-and-swap.
    ///   - limits: The limits of one request.
    ///   - onError: Receives each error of the store that is not the client's mistake; clients do not see its text.
    init(_ store: any KeyValueBackend, limits: Limits, onError: @escaping @Sendable (BackendError) -> Void) {
        (self.store, self.limits, self.onError) = (store, limits, onError)
    }
}

extension KeyValueService {
    /// The response to `GET /v1/kv/{key}`.
    func read(_ call: EntitlementService.Call) async throws -> ServiceResponse {
        guard let key = call.target.key, scope.mayRead(key) else { return .problem(.outOfScope) }
        guard let condition = ReadCondition(call.fields) else {
            return .refusal(.badRequest, "If-None-Match must be * or a list of entity tags")
        }
        let answer = try await store.read(key, unless: condition.known.first)
        if case .found(let entry) = answer.outcome, !condition.isKnown(entry.version), !reserve(entry.value.count) {
            throw BackendError.noRoomForAnswer(of: key)
        }
        return Self.adding(answer.relatedVersion, to: Self.found(answer.outcome, of: key, condition))
    }

    /// The answer to a read of `key`, which is in the caller's scope; `nil` if the rules cannot answer synchronously,
    /// the answer is longer than `longest` bytes, or the request is malformed.
    static func fastRead(
        _ key: EntryKey, _ fields: HTTPFields, synchronouslyBy rules: LedgerRules, longest: Int
    ) -> ServiceResponse? {
        guard let condition = ReadCondition(fields),
            let answer = rules.readSynchronously(key, unless: condition.known.first)
        else { return nil }
        let found = found(answer.outcome, of: key, condition)
        return found.byteCount > longest ? nil : adding(answer.relatedVersion, to: found)
    }

    private static func found(_ outcome: ReadOutcome, of key: EntryKey, _ condition: ReadCondition) -> ServiceResponse {
        switch outcome {
        case .absent: return .problem(.absent(key, status: .notFound))
        case .unchanged: return ServiceResponse(head(.notModified, condition.known.first))
        case .found(let entry):
            let isKnown = condition.isKnown(entry.version)
            return isKnown ? ServiceResponse(head(.notModified, entry.version)) : Self.answer(.ok, entry)
        }
    }

    private static func adding(_ relatedVersion: EntryVersion?, to response: ServiceResponse) -> ServiceResponse {
        guard let relatedVersion else { return response }
        var response = response
        WireFields.add(decisions: relatedVersion, to: &response.head.headerFields)
        return response
    }

    /// The response to `PUT` and `DELETE /v1/kv/{key}`.
    func change(_ call: EntitlementService.Call) async throws -> ServiceResponse {
        guard let key = call.target.key, scope.mayWrite(key) else { return .problem(.outOfScope) }
        let value = call.request.head.method == .delete ? nil : call.request.body
        guard value?.count ?? 0 <= limits.valueByteCount else { throw tooLarge(key) }
        let overwriting = call.query.pairs.filter { $0.name == "if" }
        guard overwriting.isEmpty || overwriting.map(\.value) == ["any"] else {
            return .refusal(.badRequest, "the query parameter if must be any, and occur once")
        }
        let condition: WriteCondition
        do throws(ConditionError) {
            condition = try WriteCondition(call.fields, isOverwriting: !overwriting.isEmpty)
        } catch {
            switch error {
            case .missing:
                return .refusal(
                    .preconditionRequired,
                    "a write needs a condition: If-Match with the version, If-None-Match: *, or ?if=any")
            case .malformed(let reason): return .refusal(.badRequest, reason)
            }
        }
        // A condition that the storage contract lacks needs a read first, and another read after each concurrent
        // change.
        for _ in 0..<8 {
            let precondition: Precondition
            switch condition {
            case .precondition(let given): precondition = given
            case .present, .oneOf:
                guard case .found(let entry) = try await store.read(key).outcome else {
                    return .problem(.absent(key, status: .preconditionFailed))
                }
                if case .oneOf(let versions) = condition, !versions.contains(entry.version) {
                    return conflict(entry, key)
                }
                precondition = .matches(entry.version)
            }
            let written =
                if let value {
                    try await store.write(value, to: key, if: precondition)
                } else {
                    try await store.delete(key, if: precondition)
                }
            switch written.outcome {
            case .written(let version):
                return Self.adding(written.relatedVersion, to: ServiceResponse(Self.head(.ok, version)))
            case .deleted: return ServiceResponse(HTTPResponse(status: .noContent))
            case .conflict(let entry):
                // If the version that was read is still there, the store refuses the value itself.
                let isSettled = entry.map { precondition == .matches($0.version) } ?? false
                if case .precondition = condition {} else if !isSettled { continue }
                return Self.adding(written.relatedVersion, to: conflict(entry, key))
            }
        }
        throw BackendError(.busy, key: key, message: "other clients keep changing this key; try again")
    }

    /// A 412 with the current entry, or without its value if there is no room for it.
    private func conflict(_ entry: Entry?, _ key: EntryKey) -> ServiceResponse {
        guard let entry else { return .problem(.absent(key, status: .preconditionFailed)) }
        guard reserve(entry.value.count) else { return .problem(.valueLeftOut(key, entry.version)) }
        return Self.answer(.preconditionFailed, entry)
    }

    /// The response to `GET /v1/kv`.
    func list(_ call: EntitlementService.Call) async throws -> ServiceResponse {
        let after: EntryKey? = if let text = call.query["after"] { try EntryKey(text) } else { nil }
        let limit = try call.query.pageSize(limits)
        guard let prefix = scope.listing(of: call.query["prefix"] ?? "") else {
            return .json(try KeyPageBody.json(of: KeyPage(items: [], next: nil)))
        }
        var page = try await store.list(prefix: prefix, after: after, limit: limit).outcome
        page.items.removeAll { !scope.contains($0.key) }
        // The server's own keys are one block. A page that ends within it continues after it, so that `next` names none
        // of them.
        if let next = page.next, next.hasPrefix(KeyScope.serverPrefix), !scope.contains(next) {
            let rest = try await store.list(
                prefix: prefix, after: try EntryKey(KeyScope.serverPrefix + "\u{10FFFF}"),
                limit: limit - page.items.count
            ).outcome
            page = KeyPage(items: page.items + rest.items, next: rest.next)
        }
        return .json(try KeyPageBody.json(of: page))
    }

    /// A page of `GET /v1/changes`.
    func changes(_ call: EntitlementService.Call) async throws -> ServiceResponse {
        let (query, limit) = (call.query, try call.query.pageSize(limits))
        let page: ChangePage
        if query["after"] == CursorText.latest {
            let cursor = try await store.latestCursor().outcome
            page = ChangePage(changes: [], cursor: cursor, hasMore: false)
        } else {
            let cursor: ChangeCursor? = if let text = query["after"] { try CursorText.cursor(text) } else { nil }
            page = try await changes(since: cursor, prefix: query["prefix"] ?? "", limit: limit)
        }
        return .json(try ChangePageBody.json(of: page))
    }

    /// The number of skipped changes that cost as much as one operation of a batch.
    private static let skippedChangesPerOperation = 8

    /// The changes of the keys in the scope that begin with `asked`. The page ends early, with `hasMore`, after a
    /// bounded number of skipped changes. Those are charged, except for the ones of the last round.
    func changes(
        since cursor: ChangeCursor?, prefix asked: String = "", limit: Int
    ) async throws(BackendError) -> ChangePage {
        let prefix = scope.listing(of: asked) ?? scope.prefix
        var page = ChangePage(changes: [], cursor: cursor, hasMore: true)
        for _ in 0..<16 {
            let room = limit - page.changes.count
            let next = try await store.changes(since: page.cursor, prefix: prefix, limit: room).outcome
            let changes = next.changes.filter { scope.contains($0.key) && $0.key.hasPrefix(asked) }
            page.changes += changes
            page.cursor = next.cursor ?? page.cursor
            page.hasMore = next.hasMore
            guard next.hasMore, page.changes.count < limit else { break }
            // A store ends a page early after a bounded number of other changes.
            let skippedCount =
                next.changes.count - changes.count
                + (next.changes.count < room ? ChangePageDraft.maximumSkippedCount : 0)
            charge(skippedCount / Self.skippedChangesPerOperation, 0)
        }
        return page
    }
}

extension KeyValueService {
    private static func head(_ status: HTTPResponse.Status, _ version: EntryVersion?) -> HTTPResponse {
        var response = HTTPResponse(status: status)
        if let version { response.headerFields[.eTag] = EntityTag(version).description }
        return response
    }

    private static func answer(_ status: HTTPResponse.Status, _ entry: Entry) -> ServiceResponse {
        var response = head(status, entry.version)
        response.headerFields[.contentType] = "application/octet-stream"
        return ServiceResponse(response, body: entry.value)
    }

    /// The problem that reports an error of the store to the client.
    func problem(_ error: BackendError) -> Problem { .report(of: error, onError) }
}

/// The versions that the client of a read already has.
private struct ReadCondition {
    var known: [EntryVersion] = []
    var isAnythingKnown = false

    /// Returns `true` if the client has `version`.
    func isKnown(_ version: EntryVersion) -> Bool { isAnythingKnown || known.contains(version) }

    /// `nil` if the field is malformed.
    init?(_ fields: HTTPFields) {
        guard let field = fields.value(of: .ifNoneMatch) else { return }
        switch TagCondition(field) {
        case nil: return nil
        case .anything: isAnythingKnown = true
        // Weak comparison (RFC 9110, section 13.1.2).
        case .tags(let tags): known = tags.compactMap { EntityTag(strong: $0).version }
        }
    }
}
