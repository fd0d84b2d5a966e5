import HTTPTypes
public import SyncCore
public import SyncProtocol

/// A store behind a server that speaks the wire `/v1`: the remote of every device of an account.
///
/// - **Honest**: an answer is believed only if it is the protocol's. A 404 is an absence when the server says that it
///   has looked, so a wrong address, a log-in page of a hotel or a proxy's error are errors and no empty store.
/// - **Exact about what may have happened**: when an exchange breaks after the request may have arrived, a write's
///   error is `outcomeUnknown`; the engine, or `RetryBackend`, settles it by repeating.
/// - **One request a call.** Nothing is repeated here but a request whose credential was refused, once, with a new one.
///
/// ```swift
/// let backend = HTTPBackend(server: "https://sync.example.com", transport: transport) { _ in try await auth.token() }
/// ```
public final class HTTPBackend: KeyValueBackend {
    /// Where requests get their credential from: an access token, `nil` for none.
    ///
    /// - Parameter refused: the token that the server has just refused (401); then a new one is due.
    public typealias Token = @Sendable (_ refused: String?) async throws(BackendError) -> String?

    /// What it honours: what the protocol demands of every server. Signals are polled.
    public let capabilities: Capabilities
    /// The server's address.
    public let label: String

    private let base: Base
    private let transport: any HTTPTransport
    private let token: Token
    private let timeout: Duration

    private struct Base {
        var scheme: String
        var authority: String
        var path: String
    }

    /// The store behind the server at `server`.
    ///
    /// - Parameters:
    ///   - server: `https://HOST[:PORT][/PATH]`; plain `http` only where the caller knows what he does.
    ///   - transport: what carries the requests.
    ///   - timeout: how long a request may take.
    ///   - maximumValueByteCount: larger values are refused with `BackendError.Kind.tooLarge`, and larger answers not
    ///     read.
    ///   - token: where requests get their credential from.
    /// - Throws: `BackendError.Kind.notAStore` where `server` is no such address, or has a password, a query or a
    ///   fragment.
    public init(
        server: String, transport: any HTTPTransport, timeout: Duration = .seconds(30),
        maximumValueByteCount: Int = 4 << 20, token: @escaping Token = { _ throws(BackendError) in nil }
    ) throws(BackendError) {
        base = try Self.parse(server)
        label = server
        self.transport = transport
        self.timeout = timeout
        self.token = token
        capabilities = Capabilities(
            compareAndSwap: true, durability: .powerLoss, changes: true, signals: .polled,
            sharedBetweenProcesses: true, maximumValueByteCount: maximumValueByteCount)
    }

    private static func parse(_ server: String) throws(BackendError) -> Base {
        let refused = BackendError(
            .notAStore, operation: .open, message: "\"\(server)\" is no server: write https://HOST or http://HOST:PORT")
        guard let mark = server.firstRange(of: "://") else { throw refused }
        let scheme = server[..<mark.lowerBound]
        let rest = server[mark.upperBound...]
        guard ["http", "https"].contains(scheme), !rest.contains(where: { "@?#\\ ".contains($0) }),
            rest.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { throw refused }
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        var path = rest[slash...]
        while path.hasSuffix("/") { path = path.dropLast() }
        guard slash > rest.startIndex else { throw refused }
        return Base(scheme: String(scheme), authority: String(rest[..<slash]), path: String(path))
    }

    /// Reads one key: one `GET`.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        var fields = HTTPFields()
        if let knownVersion { fields[.ifNoneMatch] = EntityTag(knownVersion).description }
        let answer = try await exchange(.get, WirePath.path(of: key), fields, for: .read, key: key)
        return Answer(
            try readOutcome(of: answer, key, known: knownVersion),
            serverTime: WireFields.serverTime(of: answer.response))
    }

    private func readOutcome(
        of answer: TransportAnswer, _ key: EntryKey, known: EntryVersion?
    ) throws(BackendError) -> ReadOutcome {
        switch answer.response.status.code {
        case 200:
            guard let version = version(of: answer) else { throw foreign(answer, .read, key) }
            return .found(Entry(value: answer.body, version: version))
        case 304:
            // Only of the version that was asked about can it be said.
            guard let known, version(of: answer) == known else { throw foreign(answer, .read, key) }
            return .unchanged
        case 404 where Problem(json: answer.body)?.isAbsence == true: return .absent
        default: throw failure(answer, .read, key)
        }
    }

    /// Writes one key: one `PUT`.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        if let maximum = capabilities.maximumValueByteCount, value.count > maximum {
            throw BackendError(
                .tooLarge, operation: .write, key: key,
                message: "a value has at most \(maximum) bytes here, this one has \(value.count)")
        }
        return try await change(.put, value, key, precondition, for: .write)
    }

    /// Deletes one key: one `DELETE`.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await change(.delete, [], key, precondition, for: .delete)
    }

    private func change(
        _ method: HTTPRequest.Method, _ body: [UInt8], _ key: EntryKey, _ precondition: Precondition,
        for operation: BackendError.Operation
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        var fields = HTTPFields()
        let (field, query) = precondition.wire
        if let field { fields.append(field) }
        if method == .put { fields[.contentType] = "application/octet-stream" }
        let path = WirePath.path(of: key) + (query.map { "?" + $0 } ?? "")
        let answer = try await exchange(method, path, fields, body: body, for: operation, key: key)
        let outcome: WriteOutcome
        switch (answer.response.status.code, operation) {
        case (200...201, .write):
            guard let version = version(of: answer) else { throw foreign(answer, operation, key) }
            outcome = .written(version)
        case (204, .delete): outcome = .deleted
        case (412, _):
            if let version = version(of: answer) {
                outcome = .conflict(Entry(value: answer.body, version: version))
            } else if Problem(json: answer.body)?.isAbsence == true {
                outcome = .conflict(nil)
            } else {
                throw foreign(answer, operation, key)
            }
        // Something has been done, and nobody knows what.
        case (200..<300, _): throw foreign(answer, operation, key)
        default: throw failure(answer, operation, key)
        }
        return Answer(outcome, serverTime: WireFields.serverTime(of: answer.response))
    }

    /// Lists keys: one `GET`.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        precondition(limit >= 1, "a page holds 1 key or more")
        var query = "?limit=\(limit)"
        if !prefix.isEmpty { query += "&prefix=" + WireQuery.encoded(prefix) }
        if let cursor { query += "&after=" + WireQuery.encoded(cursor.text) }
        let answer = try await exchange(.get, "/v1/kv" + query, HTTPFields(), for: .list)
        guard answer.response.status == .ok else { throw failure(answer, .list, nil) }
        do throws(BackendError) {
            let page = try KeyPageBody.page(json: answer.body)
            return Answer(page, serverTime: WireFields.serverTime(of: answer.response))
        } catch {
            throw error.during(.list)
        }
    }

    /// What changed after `cursor`: one `GET`.
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        precondition(limit >= 1, "a page holds 1 change or more")
        var query = "?limit=\(limit)"
        if let cursor { query += "&after=" + CursorText.text(of: cursor) }
        let answer = try await exchange(.get, "/v1/changes" + query, HTTPFields(), for: .changes)
        guard answer.response.status == .ok else { throw failure(answer, .changes, nil) }
        do throws(BackendError) {
            let page = try ChangePageBody.page(json: answer.body)
            return Answer(page, serverTime: WireFields.serverTime(of: answer.response))
        } catch {
            throw error.during(.changes)
        }
    }
}

extension HTTPBackend {
    private func version(of answer: TransportAnswer) -> EntryVersion? {
        guard let field = answer.response.headerFields[.eTag], case .tags(let tags) = TagCondition(field),
            tags.count == 1
        else { return nil }
        return tags[0].version
    }

    /// Sends a request, and once more with a new credential where the first was refused.
    private func exchange(
        _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields, body: [UInt8] = [],
        for operation: BackendError.Operation, key: EntryKey? = nil
    ) async throws(BackendError) -> TransportAnswer {
        try BackendError.throwIfCancelled(operation, key: key)
        var refused: String?
        while true {
            let token: String?
            do throws(BackendError) {
                token = try await self.token(refused)
            } catch {
                throw error.during(operation, key: key)
            }
            var request = HTTPRequest(
                method: method, scheme: base.scheme, authority: base.authority, path: base.path + path,
                headerFields: fields)
            if let token { request.headerFields[.authorization] = "Bearer \(token)" }
            let answer = try await send(request, body, for: operation, key: key)
            // Whoever is refused has done nothing.
            guard answer.response.status == .unauthorized, let token, refused == nil else { return answer }
            refused = token
        }
    }

    private func send(
        _ request: HTTPRequest, _ body: [UInt8], for operation: BackendError.Operation, key: EntryKey?
    ) async throws(BackendError) -> TransportAnswer {
        do throws(TransportError) {
            return try await transport.send(
                request, body: body, timeout: timeout,
                maximumByteCount: max(capabilities.maximumValueByteCount ?? 0, 1 << 20))
        } catch {
            let isOpen = error.mayHaveArrived && (operation == .write || operation == .delete)
            let kind: BackendError.Kind =
                switch error.kind {
                case .cancelled: .cancelled
                case .untrusted: .permissionDenied
                case .malformed: .notAStore
                case .tooLarge: .tooLarge
                case .unreachable, .interrupted, .timedOut, .other: .unavailable
                }
            throw BackendError(
                kind, operation: operation, key: key, disposition: isOpen ? .outcomeUnknown : nil,
                message: "\(label): \(error.message)", cause: error)
        }
    }

    /// The error that an answer tells of.
    private func failure(
        _ answer: TransportAnswer, _ operation: BackendError.Operation, _ key: EntryKey?
    ) -> BackendError {
        let problem = Problem(json: answer.body) ?? Problem(answer.response.status, "")
        return problem.error(during: operation, key: key)
    }

    /// The error of an answer that is not the protocol's.
    private func foreign(
        _ answer: TransportAnswer, _ operation: BackendError.Operation, _ key: EntryKey?
    ) -> BackendError {
        BackendError(
            .notAStore, operation: operation, key: key,
            disposition: operation == .write || operation == .delete ? .outcomeUnknown : .permanent,
            message:
                "\(label): the answer (\(answer.response.status.code)) is none of a store; is this the right server?")
    }
}
