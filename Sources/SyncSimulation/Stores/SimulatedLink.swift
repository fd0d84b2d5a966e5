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
        var random = world.random.generator(for: device.index, device.takeMessageNumber(), .message)
        let faults = MessageFaults(world.rates, random: &random)
        let reply = Reply<Answer<Outcome>>()
        if faults.isStale, !device.isCut(.outgoing), !device.isCut(.incoming),
            let answer = stale(world.remote.contents)
        {
            noteStale(answer, to: request)
            return answer
        }
        let timer = world.scheduler.at(world.scheduler.now + Self.timeout) {
            reply.resolve(.failure(.noAnswer(to: request)))
        }
        let number = process.await { reply.resolve(.failure(.processEnded)) }
        process.beginRequest()
        defer {
            process.forget(number)
            process.endRequest()
        }
        send(request, faults, reply, body)
        let result = await withTaskCancellationHandler {
            await reply.wait()
        } onCancel: {
            reply.resolve(.failure(.cut(request)))
        }
        world.scheduler.cancelIfPending(timer)
        if !process.isAlive, request.changes { world.marks.reach(.crashDuringRemoteWrite) }
        try process.checkAlive(request.operation, request.key)
        return try result.get()
    }

    /// Records an answer from a cache: the request does not reach the remote.
    private func noteStale<Outcome: Sendable>(_ answer: Answer<Outcome>, to request: Request) {
        let message = world.takeMessageID()
        let lane = process.device.lane
        world.recorder.note(lane, .sent, message, .sent(message: message, to: world.remote.lane, request.words))
        let words = Result<Answer<Outcome>, BackendError>.success(answer).words
        world.recorder.note(lane, .lost, message, .lost(message: message, "a cache answers it: \(words)"))
        world.marks.reach(.staleAnswer)
    }

    private func send<Outcome: Sendable>(
        _ request: Request, _ faults: MessageFaults, _ reply: Reply<Answer<Outcome>>,
        _ body: @escaping @Sendable (StoreContents) async throws(BackendError) -> Answer<Outcome>
    ) {
        let message = world.takeMessageID()
        let lane = process.device.lane
        world.recorder.note(lane, .sent, message, .sent(message: message, to: world.remote.lane, request.words))
        guard !faults.isRequestLost, !process.device.isCut(.outgoing) else {
            world.recorder.note(lane, .lost, message, .lost(message: message, "the request is lost"))
            return
        }
        deliver(request, faults, message, after: faults.requestDelay, reply, body)
        if faults.isRepeated {
            deliver(request, faults, message, after: faults.requestDelay + faults.repetitionDelay, reply, body)
        }
    }

    private func deliver<Outcome: Sendable>(
        _ request: Request, _ faults: MessageFaults, _ message: Int, after delay: Int64,
        _ reply: Reply<Answer<Outcome>>,
        _ body: @escaping @Sendable (StoreContents) async throws(BackendError) -> Answer<Outcome>
    ) {
        let (world, process) = (world, process)
        world.messagesUnderWay += 1
        world.scheduler.at(world.scheduler.now + delay) {
            let remote = world.remote
            world.recorder.note(remote.lane, .arrived, message, .arrived(message: message, request.words))
            if reply.isResolved { world.marks.reach(.requestRepeated) }
            world.scheduler.spawn {
                defer { world.messagesUnderWay -= 1 }
                var result: Result<Answer<Outcome>, BackendError>
                if faults.isRefused {
                    result = .failure(.refused(request))
                } else if request.changes, remote.isFull {
                    result = .failure(.noRoom(for: request))
                } else {
                    do throws(BackendError) {
                        var answer = try await body(remote.contents)
                        answer.relatedVersion = try await remote.server?.version(beside: request.key)
                        result = .success(answer)
                    } catch {
                        result = .failure(error)
                    }
                }
                if remote.tellsTime, !request.isEvidence, case .success(var answer) = result {
                    answer.serverTime = remote.time
                    result = .success(answer)
                }
                answer(request, faults, result, to: process, reply)
            }
        }
    }

    private func answer<Outcome: Sendable>(
        _ request: Request, _ faults: MessageFaults, _ result: Result<Answer<Outcome>, BackendError>,
        to process: SimulatedProcess, _ reply: Reply<Answer<Outcome>>
    ) {
        let world = world
        let message = world.takeMessageID()
        world.recorder.note(
            world.remote.lane, .sent, message,
            .sent(message: message, to: process.device.lane, result.words))
        guard !faults.isAnswerLost, !process.device.isCut(.incoming) else {
            world.recorder.note(world.remote.lane, .lost, message, .lost(message: message, "the answer is lost"))
            return
        }
        let (serverTime, isLate) = (result.serverTime(), reply.isResolved)
        world.messagesUnderWay += 1
        world.scheduler.at(world.scheduler.now + faults.answerDelay) {
            world.messagesUnderWay -= 1
            guard process.isAlive, !reply.isResolved, !isLate else {
                let reason = process.isAlive ? "its request has timed out or was answered" : "the process has ended"
                world.recorder.note(world.remote.lane, .lost, message, .lost(message: message, reason))
                return
            }
            world.recorder.note(process.device.lane, .arrived, message, .arrived(message: message, result.words))
            if let serverTime {
                world.auditor.expectNoStepBack(by: serverTime, in: process)
                world.auditor.didReceiveServerTime(serverTime, in: process)
            }
            reply.resolve(result)
        }
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

extension Result where Failure == BackendError {
    fileprivate func serverTime<Outcome>() -> Int64? where Success == Answer<Outcome> {
        if case .success(let answer) = self { answer.serverTime } else { nil }
    }
}

extension BackendError {
    fileprivate static func noAnswer(to request: Request) -> BackendError {
        BackendError(
            .unavailable, operation: request.operation, key: request.key,
            disposition: request.changes ? .outcomeUnknown : .transient, message: "simulated: no answer came")
    }

    fileprivate static func refused(_ request: Request) -> BackendError {
        BackendError(
            .unavailable, operation: request.operation, key: request.key, disposition: .transient,
            message: "simulated: the remote is overloaded")
    }

    fileprivate static func noRoom(for request: Request) -> BackendError {
        BackendError(.full, operation: request.operation, key: request.key, message: "simulated: no space is left")
    }

    fileprivate static func cut(_ request: Request) -> BackendError {
        BackendError(
            .cancelled, operation: request.operation, key: request.key,
            disposition: request.changes ? .outcomeUnknown : .permanent, message: "simulated: cancelled")
    }

    /// The error of every operation that a crashed process attempts.
    static var processEnded: BackendError { BackendError(.cancelled, message: "simulated: the process has ended") }
}
