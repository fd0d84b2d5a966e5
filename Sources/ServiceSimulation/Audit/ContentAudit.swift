import Entitlements
import HTTPTypes
import SyncService
import SyncSimulation

/// Checks content sessions: they open only what their account has bought, and end in time. Single-threaded.
final class ContentAudit {
    private struct Pass {
        var holder: TokenHolder
        var asked: Int64
        /// The time by the clock of the server that issued it, in milliseconds since 1970 UTC.
        var serverTime: Int64
    }

    private unowned let world: ServiceWorld
    private var passes: [String: Pass] = [:]
    /// The virtual times at which a server accepted the refund of a sale.
    private var refunds: [Int: Int64] = [:]

    /// The longest life of a content session, in microseconds.
    private static let lifetime: Int64 = 600_000_000
    /// The largest difference between the clocks of two servers that were not set back, in microseconds.
    private static let clockDifference: Int64 = 201_000_000

    init(world: ServiceWorld) { self.world = world }

    func didAnswer(
        _ delivery: Delivery, _ request: HTTPRequest, from holder: TokenHolder?, _ status: Int, _ body: JSON?
    ) {
        switch (delivery.path, status) {
        case ("/v1/content-sessions", 201):
            guard let holder, let token = body?["session"]?.string else { return }
            passes[token] = Pass(
                holder: holder, asked: delivery.arrival, serverTime: world.serverTime(of: delivery))
            world.reach(.contentSessionIssued)
            if let erased = world.audit.life(holder.incarnation)?.erasedAt,
                delivery.arrival > erased + ServiceAudit.staleness
            {
                world.report(.content, "the erased account \(holder.name) got a content session")
            }
        case ("/v1/content-check", 204): didOpen(delivery, request)
        case ("/v1/content-check", 403): world.reach(.contentRefused)
        case ("/v1/content-check", 401): world.reach(.contentSessionExpired)
        case ("/v1/notifications/app-store", 200):
            let text = delivery.text("signedPayload") ?? ""
            guard let sale = StoreDesk.sale(of: text), sale < StoreDesk.saleCount, !text.hasSuffix(" -") else { return }
            refunds[sale] = refunds[sale] ?? world.scheduler.now
        default: break
        }
    }

    private func didOpen(_ delivery: Delivery, _ request: HTTPRequest) {
        let path = HTTPField.Name("X-Original-URI").flatMap { request.headerFields[$0] } ?? ""
        let sale = path.split(separator: "/").first.flatMap { Int($0.dropFirst()) } ?? 0
        guard let pass = delivery.bearer.flatMap({ passes[$0] }) else {
            return world.report(.content, "\(path) was opened without a content session")
        }
        world.reach(.contentOpened)
        let isSetBack = world.marks[.clockSetBack] != nil
        if !isSetBack, delivery.arrival > pass.asked + Self.lifetime + Self.clockDifference {
            world.report(.content, "\(path) was opened by a content session after its end")
        }
        // A refund counts from its date on, by the clock of the server.
        if let refunded = refunds[sale], pass.asked > refunded + ServiceAudit.staleness,
            !world.desk.counts(sale, at: min(pass.serverTime, world.serverTime(of: delivery)))
        {
            world.report(.content, "\(path) was opened after the refund of the sale \(sale)")
        }
        let name = ServiceAudit.folded(pass.holder.name)
        let isPresented =
            world.audit.sales[sale]?.events.contains { event in
                event.isSupport || event.life?.incarnation == pass.holder.incarnation
            } == true || !world.isAlwaysVerified
        if !isPresented { world.report(.content, "\(path) was opened for \(name), which has not bought it") }
    }
}
