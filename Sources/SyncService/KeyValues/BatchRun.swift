import HTTPTypes
import SyncCore
import SyncProtocol

/// The execution of one batch.
///
/// Operations run in order. Consecutive operations of one kind go to the store in groups, with each key at most once in
/// a group. The outcome of an operation also answers later operations on the same key, as if all had run at the same
/// moment.
///
/// Memory is bounded by ``KeyValueService/Limits/batchByteCount`` and the reservations of the answer, plus one group. A
/// group holds few operations until the values are known to be short.
struct BatchRun {
    /// The state of a key, known from an earlier operation.
    private enum Known {
        case absent
        /// The value is `nil` unless an earlier result carries it; the array is shared with that result.
        case present(EntryVersion, value: [UInt8]?)
    }

    private static let (maximumReadCount, maximumWriteCount) = (16, 32)
    /// The largest expected size of the values of one group, in bytes.
    private static let groupByteCount = 4 << 20

    private let service: KeyValueService
    private let operations: [BatchOperation]
    private var results: [BatchResult] = []
    private var known: [EntryKey: Known] = [:]
    /// The number of bytes that are left for values.
    private var room: Int
    /// The expected size of the next value, in bytes. It is a guess that is halved with each group, but never below the
    /// largest value so far.
    private var expectedByteCount = 1 << 20
    private var largestByteCount = 0

    init(_ operations: [BatchOperation], service: KeyValueService) {
        (self.operations, self.service) = (operations, service)
        room = service.limits.batchByteCount
        results.reserveCapacity(operations.count)
    }

    /// Runs all operations and returns their results, in order.
    ///
    /// - Throws: The store's error, and `BackendError.Kind.busy` if there is no room for the first result.
    mutating func run() async throws(BackendError) -> [BatchResult] {
        while results.count < operations.count {
            if let result = knownResult(of: operations[results.count]) {
                guard let result = fitting(result) else { return try postponingRest() }
                results.append(result)
                continue
            }
            let group = nextGroup()
            let answers = try await perform(group)
            for (operation, answer) in zip(group, answers) {
                largestByteCount = max(largestByteCount, answer.value?.count ?? 0)
                guard let result = fitting(answer) else { return try postponingRest() }
                remember(result, of: operation)
                results.append(result)
            }
            // Decreases slowly, because long values may follow short ones.
            expectedByteCount = max(largestByteCount, expectedByteCount / 2)
        }
        return results
    }

    // MARK: Results

    /// Reserves room for a result. A conflict for which there is no room loses its value.
    ///
    /// - Returns: The result for the answer; `nil` for a read for which there is no room.
    private mutating func fitting(_ result: BatchResult) -> BatchResult? {
        switch result {
        case .read(.found(let entry)): reserve(entry.value.count) ? result : nil
        case .write(.conflict(let entry?)):
            reserve(entry.value.count) ? result : .conflictWithoutValue(entry.version)
        default: result
        }
    }

    private mutating func reserve(_ count: Int) -> Bool {
        // The first value is never too long. Otherwise the client would request it again for ever.
        let fits = count <= room || room == service.limits.batchByteCount
        guard count == 0 || fits && service.reserve(count) else { return false }
        room -= count
        return true
    }

    private func postponingRest() throws(BackendError) -> [BatchResult] {
        guard !results.isEmpty else { throw .noRoomForAnswer() }
        return results + Array(repeating: .problem(.postponed), count: operations.count - results.count)
    }

    // MARK: Known keys

    /// The result that follows from the known keys; `nil` if the store must be asked.
    private func knownResult(of operation: BatchOperation) -> BatchResult? {
        guard let known = known[operation.key] else { return nil }
        if let problem = service.verdict(operation) { return .problem(problem) }
        switch (operation, known) {
        case (.read, .absent): return .read(.absent)
        case (.read(let request), .present(let version, let value)):
            if request.knownVersion == version { return .read(.unchanged) }
            return value.map { .read(.found(Entry(value: $0, version: version))) }
        case (.write(let request), .present(let version, _)):
            // The first conflict with this version carries the value, or has no room for it.
            return request.precondition.holds(for: version) ? nil : .conflictWithoutValue(version)
        case (.write(let request), .absent):
            return request.precondition.holds(for: nil) ? nil : .write(.conflict(nil))
        }
    }

    private mutating func remember(_ result: BatchResult, of operation: BatchOperation) {
        switch (operation, result) {
        case (_, .read(.found(let entry))), (_, .write(.conflict(let entry?))):
            known[operation.key] = .present(entry.version, value: entry.value)
        case (_, .conflictWithoutValue(let version)): known[operation.key] = .present(version, value: nil)
        case (_, .read(.absent)), (_, .write(.conflict(nil))): known[operation.key] = .absent
        case (.read(let request), .read(.unchanged)):
            known[operation.key] = request.knownVersion.map { .present($0, value: nil) }
        default: known[operation.key] = nil
        }
    }

    // MARK: Groups

    /// The next operations of one kind that can go to the store in one call.
    private func nextGroup() -> ArraySlice<BatchOperation> {
        let first = results.count
        let maximum = operations[first].isRead ? Self.maximumReadCount : Self.maximumWriteCount
        let count = min(maximum, max(1, Self.groupByteCount / max(expectedByteCount, 1)))
        var keys: Set<EntryKey> = []
        let end = operations[first...].prefix(count).firstIndex { operation in
            guard operation.isRead == operations[first].isRead, keys.insert(operation.key).inserted else { return true }
            return knownResult(of: operation) != nil
        }
        return operations[first..<(end ?? min(first + count, operations.count))]
    }

    private func perform(_ group: ArraySlice<BatchOperation>) async throws(BackendError) -> [BatchResult] {
        let verdicts = group.map(service.verdict)
        var reads: [ReadRequest] = []
        var writes: [WriteRequest] = []
        for (operation, verdict) in zip(group, verdicts) where verdict == nil {
            switch operation {
            case .read(let request): reads.append(request)
            case .write(let request): writes.append(request)
            }
        }
        var answers: [Result<BatchResult, BackendError>] = []
        do throws(BackendError) {
            if !reads.isEmpty { answers = try await service.store.read(reads).outcome.map { $0.map(BatchResult.read) } }
            if !writes.isEmpty {
                answers = try await service.store.write(writes).outcome.map { $0.map(BatchResult.write) }
            }
        } catch {
            // Earlier writes of this batch have taken effect, so their results must be reported.
            guard !results.isEmpty else { throw error }
            answers = Array(repeating: .failure(error), count: reads.count + writes.count)
        }
        var next = answers[...]
        return verdicts.map { verdict in
            if let verdict { return .problem(verdict) }
            switch next.popFirst() {
            case .success(let result): return result
            case .failure(let error): return .problem(service.problem(error))
            case nil: return .problem(Problem(.internalServerError, "the store answered only part of a batch"))
            }
        }
    }
}

extension BatchOperation {
    fileprivate var key: EntryKey {
        switch self {
        case .read(let request): request.key
        case .write(let request): request.key
        }
    }

    /// True if the operation changes nothing.
    var isRead: Bool { if case .read = self { true } else { false } }
}

extension BatchResult {
    /// The value that the result carries.
    fileprivate var value: [UInt8]? {
        switch self {
        case .read(.found(let entry)), .write(.conflict(let entry?)): entry.value
        default: nil
        }
    }
}

/// The cause of a transient error that is due to a limit and not to the store. The server does not log it.
struct LimitReached: Error {}

extension BackendError {
    /// The error of an answer for which the server has no memory.
    static func noRoomForAnswer(of key: EntryKey? = nil) -> BackendError {
        BackendError(
            .busy, operation: .read, key: key, disposition: .transient,
            message: "the server has no room for this answer now; try again", cause: LimitReached())
    }
}
