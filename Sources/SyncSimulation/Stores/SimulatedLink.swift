import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting

/// The remote as seen by one process: through messages that are delayed, lost or duplicated, and a cache that may be
/// stale. Single-threaded.
struct SimulatedLink: KeyValueBackend, @unchecked Sendable {
    let process: SimulatedProcess

    /// The timeout of a request, in microseconds.
    static let timeout: Int64 = 30_000_000

    private var world: World { process.world }

    var capabilities: Capabilities { world.remote.contents.capabilities }
    var label: String { "simulated:remote" }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await exchange(
            Request(operation: .read, key: key),
            // A server does not let caches keep its word.
            stale: { contents in
                StoreContents.isServerLedger(key) ? nil : contents.staleAnswer(for: key, unless: knownVersion)
            }
        ) { (contents) async throws(BackendError) in
            try await contents.read(key, unless: knownVersion)
        }
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer: Answer<WriteOutcome>
        do throws(BackendError) {
            answer = try await exchange(Request(operation: .write, key: key)) {
                (contents) async throws(BackendError) in
                try await contents.write(value, to: key, if: precondition)
            }
        } catch {
            if error.disposition == .outcomeUnknown { process.didLoseOutcome(of: key, value) }
            throw error
        }
        process.didWrite(key, answer.outcome, value, at: world.remote.contents)
        return answer
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await exchange(Request(operation: .delete, key: key)) { (contents) async throws(BackendError) in
            try await contents.delete(key, if: precondition)
        }
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await exchange(Request(operation: .list)) { (contents) async throws(BackendError) in
            try await contents.list(prefix: prefix, after: cursor, limit: limit)
        }
    }

    func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
        try await exchange(Request(operation: .read, key: requests.first?.key)) {
            (contents) async throws(BackendError) in
            try await contents.read(requests)
        }
    }

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try await exchange(Request(operation: .changes)) { (contents) async throws(BackendError) in
            try await contents.changes(since: cursor, prefix: prefix, limit: limit)
        }
    }

    func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try await exchange(Request(operation: .changes)) { (contents) async throws(BackendError) in
            try await contents.latestCursor()
        }
    }

    func signals() -> AsyncStream<Void> { process.subscribe() }
}

extension SimulatedLink: EntitlementServer {
    func submit(
        _ evidence: [[UInt8]], account: Account, isRestore: Bool
    ) async throws(BackendError) -> [EvidenceAnswer] {
        guard let server = world.remote.server else {
            throw BackendError(.unsupported, operation: .write, message: "simulated: evidence is not verified here")
        }
        return try await exchange(Request(operation: .write, isEvidence: true)) { (_) async throws(BackendError) in
            Answer(try await server.submit(evidence, account: account))
        }.outcome
    }

    func grant(device: String, environment: EnvironmentID) async throws(BackendError) -> [UInt8] {
        throw BackendError(.unsupported, operation: .read, message: "simulated: grants are not signed here")
    }
}

/// A request in transit.
private struct Request {
    let operation: BackendError.Operation
    var key: EntryKey?
    /// True for evidence. Its answer carries no time.
    var isEvidence = false

    var changes: Bool { operation == .write || operation == .delete }
    var words: String { isEvidence ? "evidence" : key.map { "\(operation.rawValue) \($0)" } ?? operation.rawValue }

    /// An error of the request, by default with the usual disposition of its kind.
    func error(
        _ kind: BackendError.Kind, _ message: String, _ disposition: BackendError.Disposition? = nil
    ) -> BackendError {
        BackendError(
            kind, operation: operation, key: key, disposition: disposition, message: "simulated: \(message)")
    }
}

/// The network faults that a request meets.
private struct MessageFaults {
    var isRequestLost: Bool
    var isAnswerLost: Bool
    var isRepeated: Bool
    var isRefused: Bool
    var isStale: Bool
    /// Microseconds.
    var requestDelay: Int64
    var answerDelay: Int64
    var repetitionDelay: Int64

    init(_ rates: FaultRates, random: inout SeededGenerator) {
        isRequestLost = random.happens(perMille: rates.lostRequests)
        isAnswerLost = random.happens(perMille: rates.lostAnswers)
        isRepeated = random.happens(perMille: rates.repeatedRequests)
        isRefused = random.happens(perMille: rates.refusals)
        isStale = random.happens(perMille: rates.staleReads)
        let factor: Int64 = random.happens(perMille: rates.delayed) ? 100 : 1
        let longest = Int64(max(1, rates.longestDelay)) * 1_000
        requestDelay = random.pick(100...max(100, longest)) * factor
        answerDelay = random.pick(100...max(100, longest))
        repetitionDelay = random.pick(1...2 * SimulatedLink.timeout)
    }
}

extension SimulatedLink {
    private func exchange<Outcome: Sendable>(
        _ request: Request, stale: (StoreContents) -> Answer<Outcome>? = { _ in nil },
        _ body: @escaping @Sendable (StoreContents) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        try process.begin(request.operation, request.key)
        try BackendError.throwIfCancelled(request.operation, key: request.key)
        let device = process.device
        device.requestCount += 1
        var random = world.random.generator(for: device.index, device.requestCount, .message)
        let exchange = Exchange(
            process: process, request: request, faults: MessageFaults(world.rates, random: &random), body: body)
        if exchange.faults.isStale, !device.isCut(.outgoing), !device.isCut(.incoming),
            let answer = stale(world.remote.contents)
        {
            exchange.answerFromCache(answer)
            return answer
        }
        let reply = exchange.reply
        let timer = world.scheduler.at(world.scheduler.now + Self.timeout) {
            reply.resolve(
                .failure(request.error(.unavailable, "no answer came", request.changes ? .outcomeUnknown : nil)))
        }
        let number = process.await { reply.resolve(.failure(.processEnded)) }
        process.beginRequest()
        defer {
            process.forget(number)
            process.endRequest()
        }
        exchange.send()
        let result = await withTaskCancellationHandler {
            await reply.wait()
        } onCancel: {
            reply.resolve(.failure(request.error(.cancelled, "cancelled", request.changes ? .outcomeUnknown : nil)))
        }
        world.scheduler.cancel(timer)
        if !process.isAlive, request.changes { world.marks.reach(.crashDuringRemoteWrite) }
        try process.checkAlive(request.operation, request.key)
        return try result.get()
    }
}

/// The messages of a request and its answer. Single-threaded.
private struct Exchange<Outcome: Sendable>: @unchecked Sendable {
    let process: SimulatedProcess
    let request: Request
    let faults: MessageFaults
    /// Performs the request at the remote.
    let body: @Sendable (StoreContents) async throws(BackendError) -> Answer<Outcome>
    /// The result for the process.
    let reply = Reply<Result<Answer<Outcome>, BackendError>>()

    private var world: World { process.world }
    private var lane: Int { process.device.lane }

    /// Records an answer from a cache: the request does not reach the remote.
    func answerFromCache(_ answer: Answer<Outcome>) {
        let message = leave(lane, to: world.remote.lane, request.words)
        let words = Result<Answer<Outcome>, BackendError>.success(answer).words
        lose(message, lane, "a cache answers it: \(words)")
        world.marks.reach(.staleAnswer)
    }

    func send() {
        let message = leave(lane, to: world.remote.lane, request.words)
        guard !faults.isRequestLost, !process.device.isCut(.outgoing) else {
            return lose(message, lane, "the request is lost")
        }
        deliver(message, after: faults.requestDelay)
        if faults.isRepeated { deliver(message, after: faults.requestDelay + faults.repetitionDelay) }
    }

    private func deliver(_ message: Int, after delay: Int64) {
        let (world, remote) = (world, world.remote)
        world.messagesUnderWay += 1
        world.scheduler.at(world.scheduler.now + delay) {
            world.recorder.record(remote.lane, .arrived, message, .arrived(message: message, request.words))
            if reply.isResolved { world.marks.reach(.requestRepeated) }
            world.scheduler.spawn {
                defer { world.messagesUnderWay -= 1 }
                if faults.isRefused { return answer(.failure(request.error(.unavailable, "the remote is overloaded"))) }
                if request.changes, remote.isFull { return answer(.failure(request.error(.full, "no space is left"))) }
                do throws(BackendError) {
                    var answer = try await body(remote.contents)
                    answer.relatedVersion = try await remote.server?.version(beside: request.key)
                    if remote.tellsTime, !request.isEvidence { answer.serverTime = remote.time }
                    self.answer(.success(answer))
                } catch {
                    answer(.failure(error))
                }
            }
        }
    }

    private func answer(_ result: Result<Answer<Outcome>, BackendError>) {
        let (world, remoteLane) = (world, world.remote.lane)
        let message = leave(remoteLane, to: lane, result.words)
        guard !faults.isAnswerLost, !process.device.isCut(.incoming) else {
            return lose(message, remoteLane, "the answer is lost")
        }
        let serverTime: Int64? = if case .success(let answer) = result { answer.serverTime } else { nil }
        let isLate = reply.isResolved
        world.messagesUnderWay += 1
        world.scheduler.at(world.scheduler.now + faults.answerDelay) {
            world.messagesUnderWay -= 1
            guard process.isAlive else { return lose(message, remoteLane, "the process has ended") }
            guard !reply.isResolved, !isLate else {
                return lose(message, remoteLane, "its request has timed out or was answered")
            }
            world.recorder.record(lane, .arrived, message, .arrived(message: message, result.words))
            if let serverTime {
                world.auditor.expectNoStepBack(by: serverTime, in: process)
                world.auditor.didReceiveServerTime(serverTime, in: process)
            }
            reply.resolve(result)
        }
    }

    /// Records that a message leaves a lane. Returns its id.
    private func leave(_ lane: Int, to receiver: Int, _ words: @autoclosure () -> String) -> Int {
        world.messageCount += 1
        let message = world.messageCount
        world.recorder.record(lane, .sent, message, .sent(message: message, to: receiver, words()))
        return message
    }

    private func lose(_ message: Int, _ lane: Int, _ reason: @autoclosure () -> String) {
        world.recorder.record(lane, .lost, message, .lost(message: message, reason()))
    }
}

extension Result {
    fileprivate var words: String {
        switch self {
        case .success(let answer): Self.words(for: answer)
        case .failure(let error): "\(error)"
        }
    }

    private static func words(for answer: Any) -> String {
        switch answer {
        case let answer as Answer<ReadOutcome>: answer.outcome.words
        case let answer as Answer<WriteOutcome>: answer.outcome.words
        case let answer as Answer<KeyPage>: "\(answer.outcome.items.count) keys"
        case let answer as Answer<ChangePage>: "\(answer.outcome.changes.count) changes"
        case let answer as Answer<[EvidenceAnswer]>: "\(answer.outcome.filter { $0 == .recorded }.count) recorded"
        default: "answers"
        }
    }
}

extension ReadOutcome {
    fileprivate var words: String {
        switch self {
        case .absent: "absent"
        case .unchanged: "unchanged"
        case .found(let entry): "\(entry.value.count) bytes"
        }
    }
}

extension WriteOutcome {
    fileprivate var words: String {
        switch self {
        case .written: "written"
        case .deleted: "deleted"
        case .conflict(let entry): entry.map { "conflict with \($0.value.count) bytes" } ?? "conflict with no entry"
        }
    }
}

extension BackendError {
    /// The error of every operation that a crashed process attempts.
    static var processEnded: BackendError { BackendError(.cancelled, message: "simulated: the process has ended") }
}
