public import HTTPTypes
public import SyncCore
public import SyncProtocol

/// The storage contract over HTTP: `/v1/kv` and `/v1/changes`, over any store that can compare and swap.
///
/// Request in, response out; no sockets. Who may do what is decided before.
public struct KeyValueService: Sendable {
    /// How much one request may ask for.
    public struct Limits: Hashable, Sendable {
        /// The longest value, in bytes.
        public var valueByteCount = 4 << 20
        /// A page has at most so many keys or changes, whatever was asked for.
        public var pageSize = 1_000
        /// The size of a page where none was asked for.
        public var usualPageSize = 100

        /// The usual limits.
        public init() {}
    }

    private let store: any KeyValueBackend
    private let now: @Sendable () -> Int64
    private let limits: Limits
    private let onError: @Sendable (BackendError) -> Void

    /// - Parameters:
    ///   - store: where the values are. It must be able to compare and swap, see ``respond(to:body:)``.
    ///   - now: the server's clock, in milliseconds since 1970 UTC.
    ///   - limits: how much one request may ask for.
    ///   - onError: is told of every error of the store, whose text a client does not see where it is the server's
    ///     affair.
    public init(
        _ store: any KeyValueBackend, now: @escaping @Sendable () -> Int64, limits: Limits = Limits(),
        onError: @escaping @Sendable (BackendError) -> Void
    ) {
        (self.store, self.now, self.limits, self.onError) = (store, now, limits, onError)
    }

    /// The answer to `request`. Every answer has the server's clock, and none may be kept by a cache.
    public func respond(to request: HTTPRequest, body: [UInt8]) async -> TransportAnswer {
        var answer: TransportAnswer
        do throws(BackendError) {
            answer = try await route(request, body)
        } catch {
            answer = failure(error)
        }
        WireFields.note(serverTime: now(), in: &answer.response.headerFields)
        answer.response.headerFields[.cacheControl] = "no-store"
        return answer
    }

    private func route(_ request: HTTPRequest, _ body: [UInt8]) async throws(BackendError) -> TransportAnswer {
        let target = request.path ?? ""
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = String(parts.first ?? "")
        guard let query = WireQuery(parts.count > 1 ? parts[1] : "") else {
            return refusal(.badRequest, "the query is not percent-encoded UTF-8")
        }
        switch path {
        case "/v1/kv": return try await onlyFor([.get], request) { () throws(BackendError) in try await list(query) }
        case "/v1/changes":
            return try await onlyFor([.get], request) { () throws(BackendError) in try await changes(query) }
        case _ where path.hasPrefix(WirePath.prefix):
            let key = try WirePath.key(ofPath: path)
            return try await onlyFor([.get, .put, .delete], request) { () throws(BackendError) in
                if request.method == .get { return try await read(key, request.headerFields) }
                return try await change(key, request, query, body)
            }
        default: return refusal(.notFound, "there is nothing at this path")
        }
    }

    private func onlyFor(
        _ methods: [HTTPRequest.Method], _ request: HTTPRequest,
        _ body: () async throws(BackendError) -> TransportAnswer
    ) async throws(BackendError) -> TransportAnswer {
        if methods.contains(request.method) { return try await body() }
        var answer = refusal(.methodNotAllowed, "this path takes \(methods.map(\.rawValue).joined(separator: ", "))")
        answer.response.headerFields[.allow] = methods.map(\.rawValue).joined(separator: ", ")
        return answer
    }
}

extension KeyValueService {
    private func read(_ key: EntryKey, _ fields: HTTPFields) async throws(BackendError) -> TransportAnswer {
        var known: [EntryVersion] = []
        var isAnythingKnown = false
        if let field = fields[.ifNoneMatch] {
            switch TagCondition(field) {
            case nil: return refusal(.badRequest, "If-None-Match is * or a list of entity tags")
            case .anything: isAnythingKnown = true
            // Weak comparison (RFC 9110, section 13.1.2).
            case .tags(let tags): known = tags.compactMap { EntityTag(strong: $0).version }
            }
        }
        switch try await store.read(key, unless: known.first).outcome {
        case .absent: return answer(.absent(key, status: .notFound))
        case .unchanged: return TransportAnswer(head(.notModified, known.first))
        case .found(let entry):
            if isAnythingKnown || known.contains(entry.version) {
                return TransportAnswer(head(.notModified, entry.version))
            }
            return answer(.ok, entry)
        }
    }

    private func change(
        _ key: EntryKey, _ request: HTTPRequest, _ query: WireQuery, _ body: [UInt8]
    ) async throws(BackendError) -> TransportAnswer {
        guard request.method == .delete || body.count <= limits.valueByteCount else {
            throw BackendError(.tooLarge, key: key, message: "a value has at most \(limits.valueByteCount) bytes here")
        }
        let condition: WriteCondition
        do throws(ConditionError) {
            condition = try WriteCondition(request.headerFields, isOverwriting: query["if"] == "any")
        } catch {
            switch error {
            case .missing:
                return refusal(
                    .preconditionRequired,
                    "say what may be overwritten: If-Match with the version, If-None-Match: *, or ?if=any")
            case .malformed(let reason): return refusal(.badRequest, reason)
            }
        }
        let value = request.method == .delete ? nil : body
        // A condition that the contract does not have needs a look first, and another one when somebody comes between.
        for _ in 0..<8 {
            let precondition: Precondition
            switch condition {
            case .precondition(let given): precondition = given
            case .present, .oneOf:
                guard case .found(let entry) = try await store.read(key).outcome else {
                    return answer(.absent(key, status: .preconditionFailed))
                }
                if case .oneOf(let versions) = condition, !versions.contains(entry.version) {
                    return answer(.preconditionFailed, entry)
                }
                precondition = .matches(entry.version)
            }
            let outcome =
                if let value {
                    try await store.write(value, to: key, if: precondition).outcome
                } else {
                    try await store.delete(key, if: precondition).outcome
                }
            switch outcome {
            case .written(let version): return TransportAnswer(head(.ok, version))
            case .deleted: return TransportAnswer(HTTPResponse(status: .noContent))
            case .conflict(let entry):
                if case .precondition = condition {
                    return entry.map { answer(.preconditionFailed, $0) }
                        ?? answer(.absent(key, status: .preconditionFailed))
                }
            }
        }
        throw BackendError(.busy, key: key, message: "others write this key all the time; try again")
    }

    private func list(_ query: WireQuery) async throws(BackendError) -> TransportAnswer {
        let after: EntryKey? = if let text = query["after"] { try EntryKey(text) } else { nil }
        let page = try await store.list(prefix: query["prefix"] ?? "", after: after, limit: try pageSize(query)).outcome
        return try json { try KeyPageBody.json(of: page) }
    }

    private func changes(_ query: WireQuery) async throws(BackendError) -> TransportAnswer {
        let cursor: ChangeCursor? = if let text = query["after"] { try CursorText.cursor(text) } else { nil }
        let page = try await store.changes(since: cursor, limit: try pageSize(query)).outcome
        return try json { try ChangePageBody.json(of: page) }
    }

    private func pageSize(_ query: WireQuery) throws(BackendError) -> Int {
        guard let text = query["limit"] else { return limits.usualPageSize }
        guard let limit = Int(text), limit >= 1 else {
            throw BackendError(.invalidCursor, message: "limit is a number of 1 or more")
        }
        return min(limit, limits.pageSize)
    }
}

extension KeyValueService {
    private func head(_ status: HTTPResponse.Status, _ version: EntryVersion?) -> HTTPResponse {
        var response = HTTPResponse(status: status)
        if let version { response.headerFields[.eTag] = EntityTag(version).description }
        return response
    }

    private func answer(_ status: HTTPResponse.Status, _ entry: Entry) -> TransportAnswer {
        var response = head(status, entry.version)
        response.headerFields[.contentType] = "application/octet-stream"
        return TransportAnswer(response, body: entry.value)
    }

    private func answer(_ problem: Problem) -> TransportAnswer {
        var response = HTTPResponse(status: HTTPResponse.Status(code: problem.status))
        response.headerFields[.contentType] = Problem.mediaType
        return TransportAnswer(response, body: problem.json)
    }

    private func refusal(_ status: HTTPResponse.Status, _ detail: String) -> TransportAnswer {
        answer(Problem(status, detail))
    }

    private func json(_ body: () throws -> [UInt8]) throws(BackendError) -> TransportAnswer {
        do {
            var response = HTTPResponse(status: .ok)
            response.headerFields[.contentType] = "application/json"
            return TransportAnswer(response, body: try body())
        } catch {
            throw BackendError(.other, message: "the answer cannot be written as JSON: \(error)", cause: error)
        }
    }

    private func failure(_ error: BackendError) -> TransportAnswer {
        onError(error)
        let status = Problem.status(of: error)
        // Paths and causes are the server's affair; what the client asked for wrongly is his.
        let isTheirs = (400..<500).contains(status.code) && error.kind != .permissionDenied
        let detail = isTheirs ? error.message : "the server could not do this (\(error.kind)); its log says why"
        var answer = answer(Problem(error, detail: detail))
        if status == .serviceUnavailable { answer.response.headerFields[.retryAfter] = "1" }
        return answer
    }
}
