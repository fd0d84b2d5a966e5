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

    /// Performs a read, a delete or a request for changes.
    public func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        try await observing(ObservedOperation(rawValue: operation.rawValue) ?? .read, key) {
            () async throws(BackendError) in
            let answer = try await call(base)
            switch answer.outcome {
            case let outcome as ReadOutcome: meters.didRead(outcome)
            case let outcome as WriteOutcome: meters.didWrite(nil, outcome)
            default: break
            }
            return answer
        }
    }

    /// Writes one key.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await observing(.write, key) { () async throws(BackendError) in
            let answer = try await base.write(value, to: key, if: precondition)
            meters.didWrite(value, answer.outcome)
            return answer
        }
    }

    /// Lists keys.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try await observing(.list, cursor) { () async throws(BackendError) in
            try await base.list(prefix: prefix, after: cursor, limit: limit)
        }
    }

    /// Reads several keys, in one request if the wrapped backend can.
    public func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome> {
        try await observing(.readBatch, nil) { () async throws(BackendError) in
            let answer = try await base.read(requests)
            for (request, result) in zip(requests, answer.outcome) {
                switch result {
                case .success(let outcome):
                    meters.didRead(outcome)
                    meters.count(.readBatch, outcome.name)
                case .failure(let error): report(error, in: .readBatch, request.key)
                }
            }
            return answer
        }
    }

    /// Writes or deletes several keys, in one request if the wrapped backend can.
    public func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome> {
        try await observing(.writeBatch, nil) { () async throws(BackendError) in
            let answer = try await base.write(requests)
            for (request, result) in zip(requests, answer.outcome) {
                switch result {
                case .success(let outcome):
                    meters.didWrite(request.value, outcome)
                    meters.count(.writeBatch, outcome.name)
                case .failure(let error): report(error, in: .writeBatch, request.key)
                }
            }
            return answer
        }
    }
}

extension ObservedBackend {
    private func observing<Outcome: Sendable>(
        _ operation: ObservedOperation, _ key: EntryKey?,
        _ body: () async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        let span = startSpan("storage.\(operation.rawValue)", ofKind: .client)
        span.attributes["storage.store"] = name
        if showsKeys, let key { span.attributes["storage.key"] = key.text }
        let elapsed = host.stopwatch()
        let result: Result<Answer<Outcome>, BackendError> = await InstrumentationContext.withValue(span.context) {
            do throws(BackendError) { return .success(try await body()) } catch { return .failure(error) }
        }
        let took = elapsed()
        switch result {
        case .success(let answer):
            let outcome = Self.name(of: answer.outcome)
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

    private static func name(of outcome: some Sendable) -> String {
        switch outcome {
        case let outcome as ReadOutcome: outcome.name
        case let outcome as WriteOutcome: outcome.name
        case is KeyPage, is ChangePage: "page"
        case is [Result<ReadOutcome, BackendError>], is [Result<WriteOutcome, BackendError>]: "answered"
        default: "cursor"
        }
    }

    /// Logs the failure of one item of a batch.
    private func report(_ error: BackendError, in operation: ObservedOperation, _ key: EntryKey) {
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
