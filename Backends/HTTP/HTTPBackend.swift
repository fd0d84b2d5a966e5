import HTTPTypes
public import SyncCore
public import SyncProtocol
import Synchronization

/// A backend on a server that speaks the wire protocol `/v1`: the remote of all devices of an account.
///
/// - **Absence is verified.** An answer counts only if it follows the protocol. A 404 is an absence only if the server
///   confirms that it looked, so a wrong address, a captive portal and a proxy error are errors and never an empty
///   store.
/// - **Unknown outcomes are reported.** If an exchange fails after the request may have arrived, the error of a write
///   is `outcomeUnknown`. The engine, or `RetryBackend`, settles it by repeating the write.
/// - **One request per call.** Only a request whose token was refused is repeated, once, with a new token. Batches take
///   one request for each 256 operations or 4 MiB. A conflict whose value the server left out for lack of memory takes
///   a second request, which reads the entry.
/// - **Signals are pushed** if the transport supports streaming: each subscriber of ``signals()`` follows the server's
///   event stream.
///
/// ```swift
/// let tokens = AccessTokens { refused in try await session.refresh() }
/// let backend = try HTTPBackend(server: "https://sync.example.com", transport: transport) { refused in
///     try await tokens.token(refused: refused)
/// }
/// ```
public final class HTTPBackend: KeyValueBackend {
    /// Provides the access token of a request; `nil` for none.
    ///
    /// - Parameter refused: the token that the server has just refused (401), which must be replaced.
    public typealias Token = @Sendable (_ refused: String?) async throws(BackendError) -> String?

    /// The capabilities that the protocol requires of every server. Signals are pushed if the transport supports
    /// streaming.
    public let capabilities: Capabilities
    /// The address of the server.
    public let label: String

    let address: ServerAddress
    let transport: any HTTPTransport
    let token: Token
    let timeout: Duration
    let host: HostServices
    /// Lives as long as the backend. Its end also ends the streams of signals.
    let lifetime = SignalHub()
    /// True if the server does not support batches.
    let isWithoutBatches = Mutex(false)

    /// Creates a backend on the server at `server`.
    ///
    /// - Parameters:
    ///   - server: `https://HOST[:PORT][/PATH]`; use plain `http` only on loopback or a trusted network.
    ///   - transport: the transport for requests.
    ///   - timeout: the time limit of a request.
    ///   - maximumValueByteCount: the maximum length of a value. Longer values are refused with
    ///     `BackendError.Kind.tooLarge`, and longer answers are not read.
    ///   - host: the timer and the randomness for reconnection pauses, and the randomness for request ids.
    ///   - token: provides the access tokens of requests.
    /// - Throws: `BackendError.Kind.notAStore` if `server` is not such an address, or has a password, a query or a
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

    /// Reads one key with one `GET`.
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
            // A 304 is valid only for the version in the request.
            guard let known, version(of: answer) == known else { throw foreign(answer, .read, key) }
            return .unchanged
        case 404 where Problem(json: answer.body)?.isAbsence == true: return .absent
        default: throw failure(answer, .read, key)
        }
    }

    /// Writes one key with one `PUT`.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        if let error = capabilities.refusal(of: value, at: key) { throw error }
        return try await change(.put, value, key, precondition, for: .write)
    }

    /// Deletes one key with one `DELETE`.
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
            // Only this media type is a value. A proxy may answer with a page of its own.
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
        // The request took effect, but the answer does not follow the protocol.
        case (200..<300, _): throw foreign(answer, operation, key)
        default: throw failure(answer, operation, key)
        }
        return Answer(
            outcome, serverTime: WireFields.serverTime(of: answer.response),
            relatedVersion: WireFields.decisions(of: answer.response))
    }

    /// Lists keys with one `GET`.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        var query = "?limit=\(limit)"
        if !prefix.isEmpty { query += "&prefix=" + WireQuery.encoded(prefix) }
        if let cursor { query += "&after=" + WireQuery.encoded(cursor.text) }
        return try await page("/v1/kv" + query, for: .list) { (body) throws(BackendError) in
            try KeyPageBody.page(json: body)
        }
    }

    /// Reads the changes after `cursor` with one `GET`.
    public func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        var query = "?limit=\(limit)"
        if !prefix.isEmpty { query += "&prefix=" + WireQuery.encoded(prefix) }
        if let cursor { query += "&after=" + CursorText.text(of: cursor) }
        return try await changes(query)
    }

    /// Reads the position of the latest change with one `GET`.
    public func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        let answer = try await changes("?limit=1&after=" + CursorText.latest)
        return Answer(answer.outcome.cursor, serverTime: answer.serverTime)
    }

    private func changes(_ query: String) async throws(BackendError) -> Answer<ChangePage> {
        try await page("/v1/changes" + query, for: .changes) { (body) throws(BackendError) in
            try ChangePageBody.page(json: body)
        }
    }

    private func page<Page: Sendable>(
        _ path: String, for operation: BackendError.Operation, _ decode: ([UInt8]) throws(BackendError) -> Page
    ) async throws(BackendError) -> Answer<Page> {
        let answer = try await exchange(.get, path, HTTPFields(), for: operation)
        guard answer.response.status == .ok else { throw failure(answer, operation, nil) }
        do throws(BackendError) {
            return Answer(try decode(answer.body), serverTime: WireFields.serverTime(of: answer.response))
        } catch {
            throw error.during(operation)
        }
    }
}
