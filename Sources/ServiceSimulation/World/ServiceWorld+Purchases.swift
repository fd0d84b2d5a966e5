import Entitlements
import HTTPTypes
import SyncCore
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

    func reverseRefund(_ sale: Int) async -> String {
        guard sale >= StoreDesk.saleCount, desk.isRefunded(sale) else { return "not refunded" }
        desk.reinstate(sale)
        return await notify(sale)
    }

    /// Records the store's present statements about all sales, as `syncd notifications catch-up` does.
    func catchUp() async -> String {
        do {
            let intake = try await NotificationIntake(
                store, machines.contains(where: \.isReconfigured) ? laterConfiguration : configuration,
                host: clientHost, onError: { _ in })
            for sale in desk.sold.keys.sorted() {
                let text = desk.text(of: sale, at: scheduler.trueTime)
                let outcome = try await intake.receive(signedTransaction: text)
                guard outcome == .recorded || outcome == .parked else { return "\(outcome)" }
                paidTime.didConfirm(text)
                reach(.caughtUp)
            }
            return "recorded"
        } catch {
            return "failed"
        }
    }

    /// Lets support record a sale, by a program beside the servers.
    func act(for name: String, _ sale: Int, isTransfer: Bool) async -> String {
        let number = audit.didBeginAct(sale, for: name, isTransfer: isTransfer)
        let program = SimulatedProgram(
            world: self, operationCount: pendingInterruption, mark: .supportInterrupted)
        pendingInterruption = nil
        let acts = SupportActs(
            store: subject.wrapStore(program), catalog: StoreDesk.catalog, ownership: configuration.ownership,
            host: clientHost)
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
            guard !program.isInterrupted else { return ClientDevice.failurePrefix + "interrupted" }
            // An error of the store leaves the outcome open.
            if error is SupportError { audit.didRefuseAct(number) }
            reach(.supportRefused)
            return ClientDevice.failurePrefix + "refused"
        }
    }
}
