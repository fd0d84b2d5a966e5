#if Observed
public import Logging
internal import Metrics
public import SyncCore
internal import Tracing

/// A wrapper that adds metrics, a trace span for each request, and a log line for each failed request.
///
/// It uses the systems that the process has bootstrapped for swift-metrics and swift-distributed-tracing. It never
/// exposes values. It exposes keys, which contain account names, only on request.
///
/// | metric | kind | dimensions |
/// |---|---|---|
/// | `entitlementsync_storage_request_duration` | timer | `store`, `operation`, `outcome` |
/// | `entitlementsync_storage_items` | counter, one for each item of a batch | `store`, `operation`, `outcome` |
/// | `entitlementsync_storage_bytes` | counter of value bytes | `store`, `direction` (`read`, `written`) |
///
/// `operation` is `read`, `write`, `delete`, `list`, `changes`, `readBatch` or `writeBatch`; `outcome` is the result
/// (`found`, `absent`, `unchanged`, `written`, `deleted`, `conflict`, `page`), the kind of an error, or `answered` for
/// a batch.
///
/// ```swift
/// let backend = ObservedBackend(.sqlite("/var/lib/example/store.sqlite"), as: "main", logger: logger)
/// ```
public struct ObservedBackend: ForwardingBackend {
    /// The observed backend.
    public let base: any KeyValueBackend
    /// The name in metrics and spans.
    public let name: String
    private let logger: Logger
    private let showsKeys: Bool
    private let meters: Meters
    private let host: HostServices

    /// Observes `base`.
    ///
    /// - Parameters:
    ///   - base: the backend to observe.
    ///   - name: the name in metrics and spans. Use few names, because each creates its own time series.
    ///   - logger: the logger. Transient failures are logged at `notice`, others at `error`, and every request at
    ///     `trace`.
    ///   - showsKeys: true to include keys, which contain account names, in spans and in the log.
    ///   - host: the timer that measures requests.
    public init(
        _ base: any KeyValueBackend, as name: String, logger: Logger = Logger(label: "entitlementsync.storage"),
        showsKeys: Bool = false, host: HostServices = .system
    ) {
        self.init(base, name, logger, showsKeys, Meters(store: name), host)
    }

    private init(
        _ base: any KeyValueBackend, _ name: String, _ logger: Logger, _ showsKeys: Bool, _ meters: Meters,
        _ host: HostServices
    ) {
        self.base = base
        self.name = name
        self.logger = logger
        self.showsKeys = showsKeys
        self.meters = meters
        self.host = host
    }

    /// The wrapped backend's form that requires an existing store, observed under the same name.
    public var requiringExisting: any KeyValueBackend {
        ObservedBackend(base.requiringExisting, name, logger, showsKeys, meters, host)
    }

    /// Reads one key.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try await observing(.read, key, \.outcome.name) { () async throws(BackendError) in
            let answer = try await base.read(key, unless: knownVersion)
            meters.didRead(answer.outcome)
            return answer
        }
    }

    /// Writes one key.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await observing(.write, key, \.outcome.name) { () async throws(BackendError) in
            let answer = try await base.write(value, to: key, if: precondition)
            meters.didWrite(value, answer.outcome)
            return answer
        }
    }

    /// Deletes one key.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await observing(.delete, key, \.outcome.name) { () async throws(BackendError) in
            let answer = try await base.delete(key, if: precondition)
            meters.didWrite(nil, answer.outcome)
            return answer
        }
    }

    /// Lists keys.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try await observing(.list, cursor, { _ in "page" }) { () async throws(BackendError) in
            try await base.list(prefix: prefix, after: cursor, limit: limit)
        }
    }

    /// Reads several keys, in one request if the wrapped backend can.
    public func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
        try await observing(.readBatch, nil, { _ in "answered" }) { () async throws(BackendError) in
            let answer = try await base.read(requests)
            for (request, result) in zip(requests, answer.outcome) {
                switch result {
                case .success(let outcome):
                    meters.didRead(outcome)
                    meters.count(.readBatch, outcome.name)
                case .failure(let error): note(error, in: .readBatch, request.key)
                }
            }
            return answer
        }
    }

    /// Writes or deletes several keys, in one request if the wrapped backend can.
    public func write(_ requests: [WriteRequest]) async throws(BackendError)
        -> Answer<[Result<WriteOutcome, BackendError>]>
    {
        try await observing(.writeBatch, nil, { _ in "answered" }) { () async throws(BackendError) in
            let answer = try await base.write(requests)
            for (request, result) in zip(requests, answer.outcome) {
                switch result {
                case .success(let outcome):
                    meters.didWrite(request.value, outcome)
                    meters.count(.writeBatch, outcome.name)
                case .failure(let error): note(error, in: .writeBatch, request.key)
                }
            }
            return answer
        }
    }

    /// Reads changes.
    public func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try await observing(.changes, nil, { _ in "page" }) { () async throws(BackendError) in
            try await base.changes(since: cursor, prefix: prefix, limit: limit)
        }
    }

    /// Reads the position of the latest change.
    public func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try await observing(.changes, nil, { _ in "cursor" }) { () async throws(BackendError) in
            try await base.latestCursor()
        }
    }
}

extension ObservedBackend {
    private func observing<Outcome: Sendable>(
        _ operation: ObservedOperation, _ key: EntryKey?, _ outcome: (Answer<Outcome>) -> String,
        _ body: () async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        let span = startSpan("storage.\(operation.rawValue)", ofKind: .client)
        span.attributes["storage.store"] = name
        if showsKeys, let key { span.attributes["storage.key"] = key.text }
        let stopwatch = stopwatch(host.timer)
        let result: Result<Answer<Outcome>, BackendError> = await InstrumentationContext.withValue(span.context) {
            do throws(BackendError) { return .success(try await body()) } catch { return .failure(error) }
        }
        let took = stopwatch()
        switch result {
        case .success(let answer):
            let outcome = outcome(answer)
            span.attributes["storage.outcome"] = outcome
            meters.time(operation, outcome, took)
            logger.trace("storage request", metadata: metadata(operation, key, ["outcome": "\(outcome)"]))
        case .failure(let error):
            span.attributes["storage.outcome"] = "\(error.kind)"
            // A cancellation is not a failure.
            if error.kind != .cancelled {
                span.recordError(error)
                span.setStatus(SpanStatus(code: .error))
            }
            meters.time(operation, "\(error.kind)", took)
            log(error, operation, key)
        }
        span.end()
        return try result.get()
    }

    /// Returns a function that measures the time since this call.
    private func stopwatch(_ clock: some Clock<Duration>) -> () -> Duration {
        let began = clock.now
        return { began.duration(to: clock.now) }
    }

    /// Logs the failure of one item of a batch.
    private func note(_ error: BackendError, in operation: ObservedOperation, _ key: EntryKey) {
        meters.count(operation, "\(error.kind)")
        log(error, operation, key)
    }

    private func log(_ error: BackendError, _ operation: ObservedOperation, _ key: EntryKey?) {
        let level: Logger.Level =
            switch error.disposition {
            case .transient: error.kind == .cancelled ? .debug : .notice
            default: error.kind == .cancelled ? .debug : .error
            }
        // The full description of the error contains the key.
        let words = showsKeys ? "\(error)" : error.message
        logger.log(
            level: level, "storage request failed: \(words)",
            metadata: metadata(
                operation, key, ["kind": "\(error.kind)", "disposition": "\(error.disposition.rawValue)"]))
    }

    private func metadata(
        _ operation: ObservedOperation, _ key: EntryKey?, _ more: Logger.Metadata
    ) -> Logger.Metadata {
        var metadata = more
        metadata["store"] = "\(name)"
        metadata["operation"] = "\(operation.rawValue)"
        if showsKeys, let key { metadata["key"] = "\(key.text)" }
        return metadata
    }
}

/// The name of a request in metrics and spans.
enum ObservedOperation: String {
    case read, write, delete, list, changes, readBatch, writeBatch
}

extension ReadOutcome {
    fileprivate var name: String {
        switch self {
        case .found: "found"
        case .absent: "absent"
        case .unchanged: "unchanged"
        }
    }
}

extension WriteOutcome {
    fileprivate var name: String {
        switch self {
        case .written: "written"
        case .deleted: "deleted"
        case .conflict: "conflict"
        }
    }
}
#endif
