import Entitlements
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@testable import EntitlementSync

@Suite("Evidence that this device has verified")
struct OutboxTests {
    private let household: Household
    private let server: EvidenceServer
    private let local = MemoryBackend()

    init() throws {
        household = try Household()
        server = try EvidenceServer(household.alice, catalog: household.catalog)
    }

    private func device(_ local: (any KeyValueBackend)? = nil, account: Account? = nil) async throws -> EntitlementStore
    {
        try await household.store(
            local ?? self.local, remote: server, server: server, account: account ?? household.alice)
    }

    /// Evidence of a purchase that is signed at `signedAt`, known to the server.
    private func evidence(
        _ id: TransactionID, signedAt: String = "2026-01-10T12:00:00Z", revokedAt: String? = nil
    ) throws -> Evidence {
        let signedDate = try date(signedAt)
        return known(
            try facts([id], signedDate, revokedAt: try revokedAt.map { try date($0) }),
            kind: "app-store-transaction", subject: "production/\(id)", text: "\(id) \(signedAt)", signedDate)
    }

    /// A receipt with several purchases, known to the server.
    private func receipt(_ ids: [TransactionID]) throws -> Evidence {
        let signedDate = try date("2026-01-10T12:00:00Z")
        return known(
            try facts(ids, signedDate), kind: "app-store-receipt", subject: "production", text: "\(ids)", signedDate)
    }

    private func known(
        _ facts: [Fact], kind: String, subject: String, text: String, _ signedDate: Timestamp
    ) -> Evidence {
        let data = Array("{\"jws\":\"\(text)\"}".utf8)
        server.update { $0.facts[data] = facts }
        return .verified(
            VerifiedStatement(kind: kind, subject: subject, data: data, facts: facts, signedDate: signedDate))
    }

    /// Purchases of three months on January 10, and their revocations or the absence of them.
    private func facts(
        _ ids: [TransactionID], _ signedDate: Timestamp, revokedAt: Timestamp? = nil
    ) throws -> [Fact] {
        let stamp = Stamp(signedDate: signedDate, logicalTime: LogicalTime.zero.next(at: signedDate))
        return try ids.flatMap { id -> [Fact] in
            let transaction = TransactionReference(store: .appStore, id: id)
            return [
                .purchase(
                    Purchase(
                        transaction: transaction, product: Owls.threeMonths, terms: nil,
                        date: try date("2026-01-10"), stamp: stamp)),
                .revocation(Revocation(transaction: transaction, revokedAt: revokedAt, stamp: stamp)),
            ]
        }
    }

    @Test("A purchase bought offline counts at once, and under verified until and after the server has answered")
    func offline() async throws {
        try await server.set(.verified)
        let store = try await device()
        let receipt = try await store.record(try evidence("1"))
        #expect(receipt.transactions.map(\.id) == ["1"])
        #expect(try await store.end() == date("2026-04-10"))
        #expect(try await store.waitingEvidenceCount() == 1)
        let report = try await store.sync()
        #expect(report.evidence.map(\.answer) == [.recorded])
        #expect(report.evidence.first?.transactions.map(\.id) == ["1"])
        #expect(try await store.waitingEvidenceCount() == 0)
        #expect(try await store.end() == date("2026-04-10"))
        // A purchase that is only reported does not count.
        try await store.record(.reported(Owls.sixMonths, transaction: "forged", store: .appStore, signedAt: .latest))
        try await store.sync()
        #expect(try await store.end() == date("2026-04-10"))
        // Another device gets it from the server.
        let tablet = try await device(MemoryBackend())
        try await tablet.restore()
        #expect(try await tablet.end() == date("2026-04-10"))
        #expect(server.submissions.count == 1)
    }

    @Test("Evidence of a guest stays after the server has recorded it, and is sent for the account that adopts it")
    func guest() async throws {
        let guest = try Account(Account.guestName(household.machine.host))
        let guestServer = try EvidenceServer(guest, catalog: household.catalog)
        let evidence = try evidence("1")
        server.update { state in
            let facts = state.facts
            guestServer.update { $0.facts = facts }
        }
        try await guestServer.set(.verified)
        try await server.set(.verified)
        let store = try await household.store(local, remote: guestServer, server: guestServer, account: guest)
        try await store.record(evidence)
        try await store.sync()
        try await store.sync()
        #expect(guestServer.submissions.count == 1)
        #expect(try await store.end() == date("2026-04-10"))
        let adoption = Adoption(backend: local, host: household.machine.host)
        try await adoption.moveToAnonymous(guest)
        _ = try await adoption.adopt(for: household.alice, at: date("2026-01-11"))
        let adopter = try await device()
        try await adopter.sync()
        #expect(server.submissions.count == 1)
        #expect(try await adopter.waitingEvidenceCount() == 0)
        #expect(try await adopter.end() == date("2026-04-10"))
    }

    @Test("A sync that fails after the server's answer keeps the evidence, so the purchase never stops counting")
    func interruptedAnswer() async throws {
        try await server.set(.verified)
        let store = try await device()
        try await store.sync()
        try await store.record(try evidence("1"))
        server.update { $0.isServerLedgerUnreadable = true }
        await #expect(throws: EntitlementError.self) { try await store.sync() }
        #expect(try await store.waitingEvidenceCount() == 1)
        #expect(try await store.end() == date("2026-04-10"))
        server.update { $0.isServerLedgerUnreadable = false }
        try await store.sync()
        #expect(try await store.waitingEvidenceCount() == 0)
        #expect(try await store.end() == date("2026-04-10"))
        #expect(server.submissions.count == 2)
    }

    @Test("A sync that cannot send reads the server's word all the same, and knows nothing while that is unreadable")
    func fullRemote() async throws {
        try await server.set(.verified)
        let phone = try await device()
        try await phone.record(.reported(Owls.nightOwl, transaction: "owl"))
        try await phone.sync()
        // A notification: only the server ledger has the purchase.
        _ = try evidence("1")
        _ = try await server.submit(
            [Array("{\"jws\":\"1 2026-01-10T12:00:00Z\"}".utf8)],
            account: household.alice, isRestore: false)
        let tablet = try await device(MemoryBackend())
        try await tablet.record(.reported(Owls.couchOwl, transaction: "couch"))
        server.update { ($0.isFull, $0.isServerLedgerUnreadable) = (true, true) }
        await #expect(throws: EntitlementError.self) { try await tablet.sync() }
        #expect(try await tablet.access(to: Owls.access) == .denied(.restoreNeeded))
        server.update { $0.isServerLedgerUnreadable = false }
        await #expect(throws: EntitlementError.self) { try await tablet.sync() }
        #expect(try await tablet.end() == date("2026-04-10"))
    }

    @Test("A refusal ends the waiting, and under verified the purchase stops counting")
    func refused() async throws {
        try await server.set(.verified)
        server.update { $0.refusal = .refused(code: "owned-by-another", detail: "it belongs to another account") }
        let store = try await device()
        try await store.record(try evidence("1"))
        #expect(try await store.end() == date("2026-04-10"))
        let report = try await store.sync()
        #expect(
            report.evidence.map(\.answer)
                == [.refused(code: "owned-by-another", detail: "it belongs to another account")])
        #expect(try await store.waitingEvidenceCount() == 0)
        #expect(try await store.end() == nil)
        #expect(try await store.access(to: Owls.access) == .denied(.ownedByAnotherAccount))
    }

    @Test("The reason of a refusal survives a restart, the last one counts, and it ends when the server verifies")
    func refusalIsKept() async throws {
        try await server.set(.verified)
        server.update { $0.refusal = .refused(code: "evidence-refused", detail: "the app is another one") }
        let store = try await device()
        try await store.record(try evidence("1"))
        #expect(try await store.access(to: Owls.access).isGranted)
        try await store.sync()
        let first = Access.denied(.refusedByServer("the app is another one"))
        #expect(try await store.access(to: Owls.access) == first)
        #expect(try await device().access(to: Owls.access) == first)
        #expect(try await device().use(Owls.access) == .denied(.refusedByServer("the app is another one")))
        server.update { $0.refusal = .refused(code: "evidence-refused", detail: "the signature is wrong") }
        try await store.restore(presenting: [try evidence("1")])
        #expect(try await store.access(to: Owls.access) == .denied(.refusedByServer("the signature is wrong")))
        server.update { $0.refusal = nil }
        try await store.restore(presenting: [try evidence("1")])
        #expect(try await store.access(to: Owls.access).isGranted)
        #expect(try await device().end() == date("2026-04-10"))
    }

    @Test("An unreachable server and one without verifiers leave the evidence where it is")
    func unreachable() async throws {
        let store = try await device()
        try await store.record(try evidence("1"))
        server.update { $0.failure = BackendError(.unavailable, message: "offline") }
        await #expect(throws: EntitlementError.self) { try await store.sync() }
        server.update { $0.failure = BackendError(.unsupported, message: "no such path") }
        try await store.sync()
        #expect(try await store.waitingEvidenceCount() == 1)
        #expect(try await store.hasUnsentFacts(household.alice))
        server.update { $0.failure = nil }
        try await store.sync()
        #expect(try await store.waitingEvidenceCount() == 0)
        #expect(try await !store.hasUnsentFacts(household.alice))
    }

    @Test("A server that refuses all evidence of an erased account does not keep a device from learning of the erasure")
    func erased() async throws {
        let store = try await device()
        try await store.record(try evidence("1"))
        server.update {
            $0.failure = BackendError(.permissionDenied, disposition: .permanent, message: "the account was erased")
        }
        // The rest of the sync was done.
        let refusal = await #expect(throws: EntitlementError.self) { try await store.sync() }
        #expect(refusal?.kind == .sync && refusal?.message.contains("was erased") == true)
        #expect(try await store.access(to: Owls.access).isGranted)
        #expect(try await store.waitingEvidenceCount() == 1)
        let key = try LedgerKeys(household.alice).ledger
        _ = try await server.write(LedgerDocument(ledger: .erased).encoded(), to: key, if: .any)
        #expect(await kind { try await store.sync() } == .accountErased)
        #expect(store.account == .anonymous)
    }

    @Test("Evidence that was signed again with the same content writes and sends nothing")
    func signedAgain() async throws {
        let store = try await device()
        try await store.record(try evidence("1"))
        let before = try await contents(of: local)
        try await store.record(try evidence("1", signedAt: "2026-01-10T12:30:00Z"))
        #expect(try await contents(of: local) == before)
        try await store.sync()
        try await store.record(try evidence("1", signedAt: "2026-01-10T12:40:00Z"))
        #expect(try await store.waitingEvidenceCount() == 0)
        // A refund says something new.
        try await store.record(try evidence("1", signedAt: "2026-02-10T00:00:00Z", revokedAt: "2026-02-01"))
        #expect(try await store.waitingEvidenceCount() == 1)
        #expect(try await store.end() == date("2026-02-01"))
    }

    /// Records a refund of the purchase `1` at the server, as if its store had notified it.
    private func notifyRefund() async throws {
        let signedAt = "2026-01-20T12:00:00Z"
        _ = try evidence("1", signedAt: signedAt, revokedAt: "2026-01-20")
        _ = try await server.submit(
            [Array("{\"jws\":\"1 \(signedAt)\"}".utf8)],
            account: household.alice, isRestore: false)
    }

    @Test("The reversal of a refund is sent although evidence from before the refund waits")
    func reversalWhileOlderEvidenceWaits() async throws {
        try await server.set(.verified)
        let store = try await device()
        server.update { $0.refusal = .postponed(code: "not-configured", detail: "later") }
        try await store.record(try evidence("1"))
        server.update { $0.refusal = nil }
        try await notifyRefund()
        server.update { $0.refusal = .postponed(code: "not-configured", detail: "later") }
        try await store.sync()
        #expect(try await store.waitingEvidenceCount() == 1)
        #expect(try await store.end() == date("2026-01-20"))
        try await store.record(try evidence("1", signedAt: "2026-02-01T12:00:00Z"))
        #expect(try await store.end() == date("2026-04-10"))
        server.update { $0.refusal = nil }
        try await store.sync()
        #expect(try await store.waitingEvidenceCount() == 0)
        #expect(try await store.end() == date("2026-04-10"))
    }

    @Test("A reversal that repeats what the device holds is sent once the device knows of the refund")
    func reversalBeforeTheRefundIsKnown() async throws {
        try await server.set(.verified)
        let store = try await device()
        try await store.record(try evidence("1"))
        try await store.sync()
        try await notifyRefund()
        // The device was offline during the refund, and the content is what it holds.
        let reversal = try evidence("1", signedAt: "2026-02-01T12:00:00Z")
        try await store.record(reversal)
        #expect(try await store.waitingEvidenceCount() == 0)
        try await store.sync()
        #expect(try await store.end() == date("2026-01-20"))
        // The store reports its purchases again at each start of the app.
        try await store.record(reversal)
        #expect(try await store.end() == date("2026-04-10"))
        try await store.sync()
        #expect(try await store.waitingEvidenceCount() == 0)
        #expect(try await store.end() == date("2026-04-10"))
    }

    @Test("Only evidence presented to a restore is sent as a restore, even if the server has stated the same")
    func restore() async throws {
        let store = try await device()
        try await store.record(try evidence("1"))
        try await store.sync()
        let report = try await store.restore(presenting: [try evidence("1", signedAt: "2026-01-10T12:10:00Z")])
        #expect(report.sync.evidence.map(\.answer) == [.recorded])
        #expect(server.submissions.map(\.isRestore) == [false, true])
        #expect(try await store.waitingEvidenceCount() == 0)
    }

    @Test("A restore does not send evidence that was not presented to it as a restore")
    func onlyPresented() async throws {
        let store = try await device()
        try await store.record(try evidence("1"))
        try await store.restore(presenting: [try evidence("2")])
        #expect(server.submissions.map(\.isRestore) == [true, false])
        #expect(
            server.submissions.map { String(decoding: $0.evidence[0], as: UTF8.self).prefix(9) } == [
                #"{"jws":"2"#, #"{"jws":"1"#,
            ])
        #expect(try await store.waitingEvidenceCount() == 0)
    }

    @Test("A receipt of which another account owns a purchase leaves the outbox, and lends nothing")
    func recordedInPart() async throws {
        try await server.set(.verified)
        server.update { $0.others = ["theirs"] }
        let store = try await device()
        try await store.record(try receipt(["theirs", "1"]))
        #expect(try await store.end() == date("2026-07-10"))
        let report = try await store.sync()
        guard case .recordedInPart(let others)? = report.evidence.first?.answer else {
            Issue.record("\(report.evidence)")
            return
        }
        #expect(others.map(\.id) == ["theirs"])
        // Its three months would have followed those that count.
        household.machine.set(try date("2026-06-01").milliseconds)
        #expect(try await store.access(to: Owls.access) == .denied(.ownedByAnotherAccount))
        #expect(try await store.waitingEvidenceCount() == 0)
        #expect(try await store.end() == date("2026-04-10"))
    }

    @Test("Evidence that the server postpones stays, and is sent again")
    func postponed() async throws {
        try await server.set(.verified)
        server.update { $0.refusal = .postponed(code: "not-configured", detail: "no verifier") }
        let store = try await device()
        try await store.record(try evidence("1"))
        try await store.sync()
        #expect(try await store.waitingEvidenceCount() == 1)
        #expect(try await store.end() == date("2026-04-10"))
        server.update { $0.refusal = nil }
        try await store.sync()
        #expect(try await store.waitingEvidenceCount() == 0)
        #expect(try await store.end() == date("2026-04-10"))
    }

    @Test("A signed refund counts although an unsigned one was recorded before")
    func unsignedBefore() async throws {
        let store = try await device()
        let transaction = TransactionReference(store: .appStore, id: "1")
        try await store.record(.refunded(transaction, at: try date("2026-02-01")))
        try await store.record(try evidence("1", signedAt: "2026-02-10T00:00:00Z", revokedAt: "2026-02-01"))
        #expect(try await store.end() == date("2026-02-01"))
        // On a remote without a server ledger too.
        let folder = MemoryBackend()
        for local in [self.local, MemoryBackend()] {
            let other = try await household.device(local, remote: folder)
            try await other.sync()
            #expect(try await other.end() == date("2026-02-01"))
        }
    }

    @Test("Without a server at most 1 MiB of evidence is kept, and all facts are recorded")
    func withoutServer() async throws {
        let store = try await household.offlineDevice(local)
        try await recordLongEvidence(5, in: store)
        #expect(try await store.waitingEvidenceCount() == 3)
        #expect(try await store.snapshot().subscriptions.flatMap(\.periods).count == 5)
    }

    @Test("With a server that never answers, at most 2 MiB of evidence is kept, and all facts are recorded")
    func unanswered() async throws {
        let store = try await device()
        try await recordLongEvidence(9, in: store)
        #expect(try await store.waitingEvidenceCount() == 6)
        #expect(try await store.snapshot().subscriptions.flatMap(\.periods).count == 9)
    }

    /// Records `count` purchases, each with 300,000 bytes of evidence.
    private func recordLongEvidence(_ count: Int, in store: EntitlementStore) async throws {
        for index in 1...count {
            let statement = VerifiedStatement(
                kind: "app-store-transaction", subject: "production/\(index)",
                data: [UInt8](repeating: 32, count: 300_000),
                facts: try facts([TransactionID("\(index)")], date("2026-01-10T12:00:00Z")),
                signedDate: try date("2026-01-10T12:00:00Z"))
            try await store.record(.verified(statement))
        }
    }

    @Test("Evidence recorded before signing in moves with adoption, and is sent for the account")
    func adoption() async throws {
        try await AccountDirectory(backend: server.store).adopt(household.alice)
        let store = try await household.store(local, remote: server, server: server)
        try await store.record(try evidence("1"))
        #expect(try await store.end() == date("2026-04-10"))
        try await store.logIn("alice", adoptAnonymous: true)
        #expect(try await store.waitingEvidenceCount() == 1)
        try await server.set(.verified)
        try await store.sync()
        #expect(try await store.waitingEvidenceCount() == 0)
        #expect(try await store.end() == date("2026-04-10"))
        #expect(server.submissions.count == 1)
    }

    @Test("A crash at any write keeps what was acknowledged, and recording again completes it")
    func crashes() async throws {
        try await server.set(.verified)
        for failing in 0..<8 {
            let disk = MemoryBackend()
            let writes = Mutex(0)
            let isReady = Mutex(false)
            let faulty = FaultyBackend(
                disk,
                plan: .init { call in
                    guard isReady.withLock({ $0 }) else { return nil }
                    if call.operation == .write { writes.withLock { $0 += 1 } }
                    return writes.withLock { $0 > failing } ? .permanent(.unavailable) : nil
                })
            let store = try await device(faulty)
            isReady.withLock { $0 = true }
            let isAcknowledged: Bool
            do {
                try await store.record(try evidence("1"))
                isAcknowledged = true
            } catch {
                isAcknowledged = false
            }
            // The process restarts on the same disk.
            let next = try await device(disk)
            if isAcknowledged {
                #expect(try await next.end() == date("2026-04-10"), "write \(failing)")
            } else {
                try await next.record(try evidence("1"))
            }
            try await next.sync()
            #expect(try await next.waitingEvidenceCount() == 0, "write \(failing)")
            #expect(try await next.end() == date("2026-04-10"), "write \(failing)")
        }
    }

    @Test("Evidence that is too long for one record is refused, and nothing is recorded")
    func tooLong() async throws {
        let store = try await device()
        let statement = VerifiedStatement(
            kind: "app-store-receipt", subject: "production", data: [UInt8](repeating: 32, count: 1 << 20), facts: [],
            signedDate: try date("2026-01-10"))
        #expect(await kind { try await store.record(.verified(statement)) } == .invalid)
        #expect(try await store.waitingEvidenceCount() == 0)
    }

    @Test("A purchase that the app records while evidence is sent goes out with the same sync")
    func recordedMeanwhile() async throws {
        let store = try await device()
        try await store.record(try evidence("t1"))
        server.beforeAnswer.arm { try await store.record(.reported(Owls.couchOwl, transaction: "meanwhile")) }
        try await store.sync()
        let tablet = try await device(MemoryBackend())
        try await tablet.sync()
        #expect(try await tablet.facts().purchases.contains { $0.transaction.id == "meanwhile" })
    }
}
