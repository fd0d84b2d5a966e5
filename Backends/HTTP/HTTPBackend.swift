import HTTPTypes
public import SyncCore
public import SyncProtocol
import Synchronization

/// A store behind a server that speaks the wire `/v1`: the remote of every device of an account.
///
/// - **Honest**: an answer is believed only if it is the protocol's. A 404 is an absence when the server says that it
///   has looked, so a wrong address, a log-in page of a hotel or a proxy's error are errors and no empty store.
/// - **Exact about what may have happened**: when an exchange breaks after the request may have arrived, a write's
///   error is `outcomeUnknown`; the engine, or `RetryBackend`, settles it by repeating.
/// - **One request a call.** Nothing is repeated but a request whose credential was refused, once, with a new one.
///   Batches are one request for each 256 operations or 4 MiB. A conflict whose value the server left out for lack of
///   room takes a second request, which reads the entry.
/// - **Signals are pushed** where the transport streams: each subscriber of ``signals()`` follows the server's events.
///
/// ```swift
/// let tokens = AccessTokens { refused in try await session.refresh() }
/// let backend = try HTTPBackend(server: "https://sync.example.com", transport: transport) { refused in
///     try await tokens.token(refused: refused)
/// }
/// ```
public final class HTTPBackend: KeyValueBackend {
    /// Where requests get their credential from: an access token, `nil` for none.
    ///
    /// - Parameter refused: the token that the server has just refused (401); then a new one is due.
    public typealias Token = @Sendable (_ refused: String?) async throws(BackendError) -> String?

    /// What it honours: what the protocol demands of every server. Signals are pushed where the transport streams.
    public let capabilities: Capabilities
    /// The server's address.
    public let label: String

    let address: ServerAddress
    let transport: any HTTPTransport
    let token: Token
    let timeout: Duration
    let host: HostServices
    /// Lives as long as the backend, and so do the streams of signals.
    let lifetime = SignalHub()
    /// Whether the server has said that it takes no batches.
    let isWithoutBatches = Mutex(false)

    /// The store behind the server at `server`.
    ///
    /// - Parameters:
    ///   - server: `https://HOST[:PORT][/PATH]`; plain `http` only where the caller knows what he does.
    ///   - transport: what carries the requests.
    ///   - timeout: how long a request may take.
    ///   - maximumValueByteCount: larger values are refused with `BackendError.Kind.tooLarge`, and larger answers not
    ///     read.
    ///   - host: the timer and the randomness of the pauses between two connections for signals, and of the names that
    ///     requests have.
    ///   - token: where requests get their credential from.
    /// - Throws: `BackendError.Kind.notAStore` where `server` is no such address, or has a password, a query or a
    ///   fragment.
    public init(
        server: String, transport: any HTTPTransport, timeout: Duration = .seconds(30),
        maximumValueByteCount: Int = 4 << 20, host: HostServices = .system,
        token: @escaping Token = { _ throws(BackendError) in nil }
    ) throws(BackendError) {
        address = try ServerAddress(server)
        label = server
        self.transport = transport
        self.timeout = timeout
        self.token = token
        self.host = host
        capabilities = Capabilities(
            compareAndSwap: true, durability: .powerLoss, changes: true,
            signals: transport is any HTTPStreamingTransport ? .pushed : .polled,
            sharedBetweenProcesses: true, maximumValueByteCount: maximumValueByteCount)
    }

    /// Reads one key: one `GET`.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        var fields = HTTPFields()
        if let knownVersion {
            fields.append(HTTPField(name: .ifNoneMatch, value: EntityTag(knownVersion).description))
        }
        let answer = try await exchange(.get, WirePath.path(of: key), fields, for: .read, key: key)
        return Answer(
            try readOutcome(of: answer, key, known: knownVersion),
            serverTime: WireFields.serverTime(of: answer.response),
            relatedVersion: WireFields.decisions(of: answer.response))
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
        if let error = refusal(of: value, key) { throw error }
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
            // Only such a body is a value; a proxy may answer a page of its own.
            let isValue = answer.response.headerFields.mediaType == "application/octet-stream"
            let problem = isValue ? nil : Problem(json: answer.body)
            if isValue, let version = version(of: answer) {
                outcome = .conflict(Entry(value: answer.body, version: version))
            } else if problem?.isValueLeftOut == true {
                outcome = try conflict(with: try await read(key, unless: nil).outcome, key, precondition)
            } else if problem?.isAbsence == true {
                outcome = .conflict(nil)
            } else {
                throw foreign(answer, operation, key)
            }
        // Something was done, and the answer does not say what.
        case (200..<300, _): throw foreign(answer, operation, key)
        default: throw failure(answer, operation, key)
        }
        return Answer(
            outcome, serverTime: WireFields.serverTime(of: answer.response),
            relatedVersion: WireFields.decisions(of: answer.response))
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

    /// The changes after `cursor`, by one `GET`.
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
