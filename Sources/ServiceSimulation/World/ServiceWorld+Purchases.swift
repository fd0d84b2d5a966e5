import Entitlements
import HTTPTypes
import SyncProtocol
import SyncService
import SyncSimulation

extension ServiceWorld {
    /// Sends the store's notification until a server has accepted it, as stores do.
    func notify(_ sale: Int) async -> String {
        let body = Array(#"{"signedPayload":"\#(desk.text(of: sale, at: scheduler.trueTime))"}"#.utf8)
        var request = HTTPRequest(
            method: .post, scheme: "https", authority: "sync.example.com", path: "/v1/notifications/app-store")
        request.headerFields[.contentType] = "application/json"
        for _ in 0..<5 {
            do throws(TransportError) {
                let answer = try await storeLink.send(
                    request, body: body, timeout: .seconds(30), maximumByteCount: 1 << 16)
                if answer.response.status.kind == .successful { return "accepted" }
            } catch {}
            await pause(5_000_000)
        }
        return "not accepted"
    }

    func refund(_ sale: Int) async -> String {
        desk.refund(sale, at: scheduler.trueTime)
        return await notify(sale)
    }

    /// Lets support record a sale, by a program beside the servers.
    func act(for name: String, _ sale: Int, isTransfer: Bool) async -> String {
        let number = audit.didBeginAct(sale)
        let acts = SupportActs(
            store: store, catalog: StoreDesk.catalog, ownership: configuration.ownership, host: clientHost)
        let order = SupportActs.Order(
            account: name, act: "record", summary: "sale \(sale)", operatorName: "support", reason: "ticket \(number).",
            isTransfer: isTransfer)
        let now = Timestamp(milliseconds: scheduler.trueTime)
        do {
            let text = desk.text(of: sale, at: now.milliseconds)
            let evidence = try StoreVerifier().transaction(text, now: now)
            let outcome = try await acts.record(evidence, order)
            audit.didAct(number, for: outcome.account)
            reach(outcome.formerOwners.isEmpty ? .supportActed : .supportTransferred)
            return "recorded"
        } catch {
            reach(.supportRefused)
            return "refused"
        }
    }
}
