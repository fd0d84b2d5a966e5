import Entitlements
import HTTPTypes
import SyncService
import SyncSimulation

extension ServiceWorld {
    /// Passes a request that arrives at a server to the oracles.
    func didArrive(_ delivery: Delivery) {
        paidTime.didArrive(delivery, from: holder(of: delivery))
        tokens.didArrive(delivery)
    }

    /// Passes an answer of a server to the oracles.
    ///
    /// - Parameter lane: The lane of the client.
    func didAnswer(_ delivery: Delivery, _ request: HTTPRequest, _ response: ServiceResponse, lane: Int) {
        var body: JSON?
        if case .bytes(let bytes) = response.body, bytes.first == UInt8(ascii: "{") { body = try? JSON(parsing: bytes) }
        let (status, holder) = (response.head.status.code, holder(of: delivery))
        paidTime.didAnswer(delivery, from: holder, status, body)
        limits.didAnswer(delivery, from: holder, lane: lane, status, body)
        content.didAnswer(delivery, request, from: holder, status, body)
        tokens.didAnswer(delivery, status, body?["access_token"]?.string)
    }

    /// The time that the clock of the server showed when a request arrived, in milliseconds since 1970 UTC.
    func serverTime(of delivery: Delivery) -> Int64 {
        scheduler.trueTime - (scheduler.now - delivery.arrival) / 1_000 + delivery.clockOffset
    }

    /// The account whose token the request has.
    private func holder(of delivery: Delivery) -> TokenHolder? {
        audit.chain(of: delivery).map { TokenHolder(name: $0.life.name, incarnation: $0.life.incarnation) }
    }

    /// The numbers of months by which season passes may be longer than in the first catalogue.
    var extraMonths: Set<Int64> {
        let later = marks[.reconfigured] == nil ? nil : scenario.later?.extraMonths
        return Set([0, later ?? 0])
    }

    /// True if a step moves the clock of a server.
    var movesClocks: Bool { scenario.steps.contains { if case .moveClock = $0.action { true } else { false } } }

    /// True if no server ever believed its clients.
    var isAlwaysVerified: Bool {
        scenario.isVerified && (marks[.reconfigured] == nil || scenario.later?.isVerified != false)
    }
}
