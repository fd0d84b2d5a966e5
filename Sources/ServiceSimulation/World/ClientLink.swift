import HTTPTypes
import SyncCore
import SyncCoreTesting
import SyncProtocol
import SyncService
import SyncSimulation

/// A client's way to the servers: a balancer, which chooses any server for each message, and a network that delays,
/// loses and repeats messages and cuts streams. Single-threaded.
final class ClientLink: HTTPStreamingTransport, @unchecked Sendable {
    private unowned let world: ServiceWorld
    private let lane: Int
    private let peer: String
    private var messageCount = 0

    init(lane: Int, world: ServiceWorld) {
        (self.lane, self.world) = (lane, world)
        peer = "192.0.2.\(lane + 1)"
    }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        let answer = try await exchange(request, body, timeout: timeout)
        guard case .bytes(let bytes) = answer.body, bytes.count <= maximumByteCount else {
            throw TransportError(.tooLarge, mayHaveArrived: true, message: "simulated: the answer is too long")
        }
        return TransportAnswer(answer.head, body: bytes)
    }

    func stream(_ request: HTTPRequest, idleTimeout: Duration) async throws(TransportError) -> TransportStream {
        let answer = try await exchange(request, [], timeout: idleTimeout)
        let (source, head) = (SimulatedStream(world: world, idleTimeout: idleTimeout), answer.head)
        switch answer.body {
        case .bytes(let bytes): source.push(bytes, isLast: true)
        case .stream(let pieces, let end): source.follow(pieces, from: answer.process, end: end, random: answer.random)
        }
        return TransportStream(head, source: source)
    }

    /// A response that reaches the client.
    private struct Arrived: Sendable {
        var head: HTTPResponse
        var body: ServiceResponse.Body
        var process: ServerProcess
        var random: SeededGenerator
    }

    private typealias Outcome = Result<Arrived, TransportError>

    private func exchange(
        _ request: HTTPRequest, _ body: [UInt8], timeout: Duration
    ) async throws(TransportError) -> Arrived {
        messageCount += 1
        var random = world.random.generator(for: lane, messageCount, .message)
        let faults = LinkFaults(world.isCalm ? LinkRates() : world.scenario.link, &random)
        let reply = Reply<Outcome>()
        let number = world.takeMessage()
        let words = "\(request.method) \(Self.route(of: request))"
        world.recorder.record(lane, .sent, number, .sent(message: number, to: faults.server(of: world).lane, words))
        if faults.isRequestLost {
            world.recorder.record(lane, .lost, number, .lost(message: number, "the request is lost"))
        } else {
            deliver(request, body, faults, random, number, after: faults.requestDelay, reply)
            if faults.isRepeated {
                var again = faults
                again.serverBits = random.next()
                deliver(request, body, again, random, number, after: faults.repetitionDelay, reply)
                world.reach(.requestRepeated)
            }
        }
        let timer = world.scheduler.at(world.scheduler.now + timeout.wholeMicroseconds) {
            reply.fail(.timedOut, mayHaveArrived: true, "no answer came in time")
        }
        let outcome = await withTaskCancellationHandler {
            await reply.wait()
        } onCancel: {
            reply.fail(.cancelled, mayHaveArrived: true, "the task was cancelled")
        }
        world.scheduler.cancel(timer)
        return try outcome.get()
    }

    /// The path without its query and without what differs between accounts.
    private static func route(of request: HTTPRequest) -> String {
        let path = (request.path ?? "").split(separator: "?")[0].split(separator: "/")
        return "/" + path.prefix(path.count > 5 ? 2 : 4).joined(separator: "/")
    }

    private func deliver(
        _ request: HTTPRequest, _ body: [UInt8], _ faults: LinkFaults, _ random: SeededGenerator, _ number: Int,
        after delay: Int64, _ reply: Reply<Outcome>
    ) {
        let (world, lane, peer) = (world, lane, peer)
        world.workCount += 1
        world.scheduler.at(world.scheduler.now + delay) {
            let machine = faults.server(of: world)
            guard let process = machine.process, process.isAlive, !process.isStopping else {
                world.workCount -= 1
                return reply.fail(.unreachable, mayHaveArrived: false, "no server runs")
            }
            world.spawn {
                defer { world.workCount -= 1 }
                await process.thaw()
                world.recorder.record(machine.lane, .arrived, number, .arrived(message: number, "\(request.method)"))
                guard process.isAlive, let service = process.service else {
                    return reply.fail(.interrupted, mayHaveArrived: true, "the server is not open")
                }
                let delivery = Delivery(
                    number, id: world.takeMessage(), request, body, to: process, at: world.scheduler.now)
                process.requestCount += 1
                defer { process.requestCount -= 1 }
                world.audit.didArrive(delivery)
                world.didArrive(delivery)
                let fast = service.fastRead(request, peer: peer)
                if fast != nil { world.reach(.fastRead) }
                var response: ServiceResponse
                if let fast {
                    response = fast
                } else {
                    response = await service.respond(to: ServiceRequest(request, body: body, peer: peer))
                }
                await process.thaw()
                guard process.isAlive else {
                    world.reach(.killedBeforeAnswer)
                    world.audit.didLose(delivery)
                    return reply.fail(.interrupted, mayHaveArrived: true, "the server was killed")
                }
                response = world.changeResponse(delivery, response)
                world.audit.didAnswer(delivery, response)
                world.didAnswer(delivery, request, response, lane: lane)
                Self.answer(response, faults, random, number, from: process, to: lane, reply)
            }
        }
    }

    private static func answer(
        _ response: ServiceResponse, _ faults: LinkFaults, _ random: SeededGenerator, _ number: Int,
        from process: ServerProcess, to lane: Int, _ reply: Reply<Outcome>
    ) {
        let (world, status) = (process.world, response.head.status.code)
        let message = world.takeMessage()
        let origin = process.machine.lane
        world.recorder.record(origin, .sent, status, .sent(message: message, to: lane, "\(status)"))
        func lose(_ reason: String) {
            if case .stream(_, let end) = response.body { end() }
            world.recorder.record(origin, .lost, message, .lost(message: message, reason))
        }
        guard !faults.isAnswerLost else {
            world.reach(.answerLost)
            return lose("the answer is lost")
        }
        world.scheduler.at(world.scheduler.now + faults.answerDelay) {
            guard !reply.isResolved else {
                world.reach(.answerTooLate)
                return lose("the client has given up")
            }
            world.recorder.record(lane, .arrived, message, .arrived(message: message, "\(status)"))
            reply.resolve(
                .success(Arrived(head: response.head, body: response.body, process: process, random: random)))
        }
    }
}

/// The faults that a message meets. Times are in microseconds.
private struct LinkFaults {
    let isRequestLost: Bool
    let isAnswerLost: Bool
    let isRepeated: Bool
    let requestDelay: Int64
    let answerDelay: Int64
    let repetitionDelay: Int64
    var serverBits: UInt64

    init(_ rates: LinkRates, _ random: inout SeededGenerator) {
        isRequestLost = random.happens(perMille: rates.lostRequests)
        isAnswerLost = random.happens(perMille: rates.lostAnswers)
        isRepeated = random.happens(perMille: rates.repeatedRequests)
        let isSlow = (random.happens(perMille: rates.slow), random.happens(perMille: rates.slow))
        let longest = Int64(max(1, rates.longestDelay)) * 1_000
        requestDelay = random.pick(100...longest) + (isSlow.0 ? random.pick(0...60_000_000) : 0)
        answerDelay = random.pick(100...longest) + (isSlow.1 ? random.pick(0...60_000_000) : 0)
        repetitionDelay = requestDelay + random.pick(1...(random.happens(perMille: 500) ? 5_000 : 90_000_000))
        serverBits = random.next()
    }

    /// The server that the balancer chooses: any one that runs, or else one that does not.
    func server(of world: ServiceWorld) -> ServerMachine {
        let running = world.machines.filter(\.isRunning)
        let candidates = running.isEmpty ? world.machines : running
        return candidates[Int(serverBits % UInt64(candidates.count))]
    }
}

extension Reply {
    fileprivate func fail<Success>(
        _ kind: TransportError.Kind, mayHaveArrived: Bool, _ message: String
    ) where Value == Result<Success, TransportError> {
        resolve(
            .failure(TransportError(kind, mayHaveArrived: mayHaveArrived, message: "simulated: " + message)))
    }
}

/// The body of a response that arrives in pieces. Single-threaded.
private final class SimulatedStream: TransportSource, @unchecked Sendable {
    private unowned let world: ServiceWorld
    private let idleTimeout: Duration
    private var pieces: [[UInt8]] = []
    private var isOver = false
    private var isBroken = false
    private var waiter: Reply<Bool>?
    private var end: @Sendable () -> Void = {}

    init(world: ServiceWorld, idleTimeout: Duration) { (self.world, self.idleTimeout) = (world, idleTimeout) }

    deinit { end() }

    func push(_ bytes: [UInt8], isLast: Bool = false) {
        if !bytes.isEmpty { pieces.append(bytes) }
        if isLast { isOver = true }
        waiter?.resolve(true)
    }

    private func breakOff() {
        (isOver, isBroken) = (true, true)
        waiter?.resolve(true)
    }

    /// Passes on what a process sends, until the connection is cut.
    func follow(
        _ body: AsyncStream<[UInt8]>, from process: ServerProcess, end: @escaping @Sendable () -> Void,
        random: SeededGenerator
    ) {
        self.end = end
        let world = world
        world.streamCount += 1
        world.spawn { [weak self] in
            defer { world.streamCount -= 1 }
            var random = random
            var isCut = false
            for await piece in body {
                await process.thaw()
                await world.pause(random.pick(100...20_000))
                isCut = !world.isCalm && random.happens(perMille: world.scenario.link.cutStreams)
                guard process.isAlive, !isCut else {
                    world.reach(.streamCut)
                    break
                }
                self?.push(piece)
            }
            end()
            if isCut || !process.isAlive { self?.breakOff() } else { self?.push([], isLast: true) }
        }
    }

    func next() async throws(TransportError) -> [UInt8]? {
        while true {
            if !pieces.isEmpty { return pieces.removeFirst() }
            guard !isOver else {
                guard isBroken else { return nil }
                throw TransportError(.interrupted, mayHaveArrived: true, message: "simulated: the stream was cut")
            }
            let reply = Reply<Bool>()
            waiter = reply
            let timer = world.scheduler.at(world.scheduler.now + idleTimeout.wholeMicroseconds) {
                reply.resolve(false)
            }
            let isHeard = await withTaskCancellationHandler {
                await reply.wait()
            } onCancel: {
                reply.resolve(false)
            }
            world.scheduler.cancel(timer)
            guard isHeard else {
                end()
                throw TransportError(.timedOut, mayHaveArrived: true, message: "simulated: the stream is silent")
            }
        }
    }
}
