import Entitlements
import HTTPTypes
import ProjectionStorage
import SyncCoreTesting
import SyncProtocol
import SyncService
import SyncSimulation

/// A receiver of the events, behind a network that loses requests and answers. Single-threaded.
///
/// It checks that each event arrives at least once, in order for each account, and that repetitions have the same id.
final class EventReceiver: @unchecked Sendable {
    private unowned let world: ServiceWorld
    private var random: SeededGenerator
    /// The virtual time until which the receiver answers with errors, in microseconds.
    private var failsUntil: Int64 = 0
    /// The body and the first sender of each event, by its id.
    private var arrived: [String: (body: [UInt8], sender: ProjectionWriter)] = [:]
    private var numbers: Set<Int64> = []
    /// The number of the last event before the receiver became known.
    private var start: Int64?

    /// The endpoint, as the file of webhooks describes it.
    static let endpoints: [WebhookEndpoint] = {
        let json = #"[{"name":"all","url":"https://r.example","secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}]"#
        do throws(InputError) { return try WebhookEndpoint.list(json: Array(json.utf8)) } catch {
            preconditionFailure("the endpoint of the simulation is not valid: \(error)")
        }
    }()

    init(world: ServiceWorld) {
        self.world = world
        random = world.random.generator(for: 403, 0, .message)
    }

    /// Answers all requests with an error for this many microseconds.
    func fail(microseconds: Int64) { failsUntil = world.scheduler.now + microseconds }

    private func report(_ message: String) { world.report(.webhooks, message) }

    private func rows(_ sql: String, _ values: [SQLValue] = []) -> [[SQLValue]] {
        (try? world.projection?.database.readNow([SQLStatement(sql, values)])[0]) ?? []
    }

    /// Called after a transaction that may have made the receiver known.
    func noteStart() {
        guard start == nil else { return }
        start = rows("SELECT position FROM webhooks").first?[0].count
    }

    // MARK: requests

    func exchange(
        _ request: HTTPRequest, _ body: [UInt8], timeout: Duration, from process: ServerProcess
    ) async -> Result<TransportAnswer, TransportError> {
        let reply = Reply<Result<TransportAnswer, TransportError>>()
        let isCalm = world.isCalm
        let lost = isCalm ? 0 : world.scenario.projection?.lostDeliveries ?? 0
        let (losesRequest, losesAnswer) = (random.happens(perMille: lost), random.happens(perMille: lost))
        let delays = (0..<2).map { _ in
            random.pick(500...(!isCalm && random.happens(perMille: 100) ? 20_000_000 : 200_000))
        }
        let id = HTTPField.Name("webhook-id").flatMap { request.headerFields[$0] } ?? ""
        if losesRequest {
            world.reach(.deliveryLost)
        } else {
            world.scheduler.at(world.scheduler.now + delays[0]) { [self] in
                guard !world.isOver else { return }
                let status = failsUntil > world.scheduler.now && !world.isCalm ? 503 : 204
                if status == 204 { didReceive(id, body, from: process.writer) } else { world.reach(.deliveryFailed) }
                if losesAnswer { return world.reach(.deliveryLost) }
                world.scheduler.at(world.scheduler.now + delays[1]) {
                    reply.resolve(.success(TransportAnswer(HTTPResponse(status: .init(code: status)), body: [])))
                }
            }
        }
        func failure(_ kind: TransportError.Kind) -> Result<TransportAnswer, TransportError> {
            .failure(TransportError(kind, mayHaveArrived: true, message: "simulated: \(kind)"))
        }
        let (timedOut, cancelled) = (failure(.timedOut), failure(.cancelled))
        let timer = world.scheduler.at(world.scheduler.now + timeout.wholeMicroseconds) { reply.resolve(timedOut) }
        let outcome = await withTaskCancellationHandler {
            await reply.wait()
        } onCancel: {
            reply.resolve(cancelled)
        }
        world.scheduler.cancel(timer)
        await process.thaw()
        return process.isAlive ? outcome : cancelled
    }

    // MARK: checks

    private func didReceive(_ id: String, _ body: [UInt8], from sender: ProjectionWriter) {
        let digits = id.split(separator: "_").dropFirst().first ?? ""
        guard id.hasPrefix("evt_"), let number = Int64(digits) else { return report("an event has the id \(id)") }
        if let known = arrived[id] {
            world.reach(known.sender == sender ? .deliveryRepeated : .deliveredByAnother)
            if known.body != body { report("the event \(id) came with two bodies") }
            return
        }
        if !numbers.insert(number).inserted { report("the event \(number) came again with the id \(id)") }
        arrived[id] = (body, sender)
        world.reach(.delivered)
        world.recorder.record(world.storeLane, .arrived, Int(number), .note("the event \(number) is delivered"))
        let stored = rows("SELECT account, body FROM events WHERE id = $1", [.integer(number)])
        guard let row = stored.first, Array(row[1].words.utf8) == body else {
            return report("the event \(id) is not in the outbox")
        }
        let earlier = rows("SELECT id FROM events WHERE account = $1 AND id < $2", [row[0], .integer(number)])
        for item in missing(earlier) {
            report("the event \(number) of \(row[0].words) came before the event \(item)")
        }
    }

    /// The events of `rows` that have not arrived, and are no dead letters.
    private func missing(_ rows: [[SQLValue]]) -> [Int64] {
        let all = rows.compactMap { $0[0].count }.filter { $0 > start ?? 0 && !numbers.contains($0) }
        guard !all.isEmpty else { return [] }
        let dead = Set(self.rows("SELECT event FROM deliveries WHERE dead IS NOT NULL").compactMap { $0[0].count })
        return all.filter { !dead.contains($0) }
    }

    /// Waits until all events have arrived, at most as long as the pauses between attempts take.
    func checkEnd() async {
        var rest: [Int64] = []
        for _ in 0..<400 {
            rest = missing(rows("SELECT id FROM events ORDER BY id"))
            if start != nil, rest.isEmpty { return }
            await world.pause(5_000_000)
        }
        guard start != nil else { return report("the receiver never became known") }
        report("\(rest.count) events never arrived: \(rest.prefix(9))")
    }
}

/// The way of one process to the receiver.
struct ReceiverLink: HTTPTransport {
    let process: ServerProcess
    let receiver: EventReceiver

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        try await receiver.exchange(request, body, timeout: timeout, from: process).get()
    }
}
