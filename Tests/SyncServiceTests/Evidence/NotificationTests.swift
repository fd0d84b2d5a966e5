import Entitlements
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import SyncProtocol
import Synchronization
import Testing

@testable import SyncService

@Suite("Notifications of stores")
struct NotificationTests {
    @Test("A notification alone finds the account by its token, and wakes its watching device")
    func token() async throws {
        let stage = try await EvidenceStage(.verified)
        let token = try #require(await stage.token(of: stage.alice))
        #expect(await stage.token(of: stage.alice) == token)
        _ = await stage.alice.get()
        let before = try await stage.serverLedger(of: stage.alice)
        let head = HTTPRequest(
            method: .get, scheme: "http", authority: "x", path: "/v1/changes",
            headerFields: [.authorization: "Bearer \(stage.alice.token)", .accept: "text/event-stream"])
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await stage.service.run() }
            let answer = await stage.service.respond(to: ServiceRequest(head, peer: "192.0.2.1"))
            guard case .stream(let pieces, let end) = answer.body else {
                Issue.record("there is no event stream")
                return
            }
            var sale = Sale("1", at: stage.now)
            sale.token = token.uppercased()
            #expect(try await stage.notify(sale).status == 200)
            var parser = ServerSentEvents()
            var heard = false
            for await piece in pieces {
                let events = try parser.feed(piece)
                heard = heard || events.contains { $0.data.contains(stage.alice.path.dropFirst(7) + "decisions") }
                if heard { break }
            }
            #expect(heard)
            end()
            group.cancelAll()
        }
        #expect(try await stage.serverLedger(of: stage.alice) != before)
        let version = await stage.alice.get().fields[try #require(HTTPField.Name(WireFields.decisions))]
        #expect(version == (await stage.alice.get([:], "decisions").fields[.eTag]))
        #expect(await stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("Facts about a line without an owner wait for the first claim, also through a restart")
    func parked() async throws {
        let stage = try await EvidenceStage(.verified)
        let (first, second) = (Sale.month("1", of: "1", at: stage.now), Sale.month("2", of: "1", at: stage.now))
        #expect(try await stage.notify(first).status == 200)
        #expect(try await stage.notify(second).status == 200)
        #expect(try await stage.notify(second).status == 200)
        #expect(stage.notes.all.map(\.outcome) == [.parked, .parked, .parked])
        let restarted = try await EvidenceStage.open(stage.store, stage.clock, .verified, .keepWithFirst)
        #expect(restarted.recorder.parked.byteCount == stage.service.recorder.parked.byteCount)
        #expect(restarted.recorder.parked.byteCount > 0)
        #expect(try await restarted.recorder.parked.items().map(\.line) == [first.line])
        let alice = await stage.alice.at(restarted)
        #expect(try await stage.send([first], as: alice).results == ["2"])
        #expect(try await stage.serverLedger(of: alice).transactions(ofLine: first.line).count == 2)
        #expect(restarted.recorder.parked.byteCount == 0)
        #expect(try await !stage.store.keys().contains { $0.hasPrefix("server/parked/") })
    }

    @Test("Facts with a token that no account has yet wait until an account registers it")
    func registeredLater() async throws {
        let stage = try await EvidenceStage(.verified)
        let token = "0F8FAD5B-D9CB-469F-A165-70867728950E"
        #expect(try await stage.notify(Sale("1", at: stage.now, token: token)).status == 200)
        let registered = await stage.service.ask(
            .post, "/v1/accounts/self/token", token: stage.bob.token, json: ["token": token])
        #expect(registered.status == 204)
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        let keys = try await stage.store.keys()
        #expect(keys.allSatisfy { !$0.hasPrefix("server/parked/") && !$0.hasPrefix("server/waiting/") })
    }

    @Test("When the room for facts without an owner is full, the store must send them again")
    func full() async throws {
        let stage = try await EvidenceStage(.verified, parkedByteLimit: 300)
        var refused: Reply?
        for number in 1...5 where refused == nil {
            let reply = try await stage.notify(Sale("\(number)", at: stage.now))
            if reply.status != 200 { refused = reply }
        }
        let reply = try #require(refused)
        #expect(reply.status == 503 && reply.fields[.retryAfter] != nil)
        #expect(stage.service.recorder.parked.byteCount <= 300)
        let claimed = try await stage.send([Sale("1", at: stage.now)], as: stage.alice)
        #expect(claimed.results == ["2"])
        #expect(try await stage.notify(Sale("9", at: stage.now)).status == 200)
    }

    @Test("A replayed or late notification changes nothing")
    func replay() async throws {
        let (stage, sale) = try await EvidenceStage.owned(.verified)
        stage.clock.advance(seconds: 60)
        let refund = sale.refunded(at: stage.now)
        #expect(try await stage.notify(refund).status == 200)
        let ledger = try await stage.serverLedger(of: stage.alice)
        for late in [sale, refund, sale] {
            #expect(try await stage.notify(late).status == 200)
            #expect(try await stage.serverLedger(of: stage.alice) == ledger)
        }
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(sale.signed(at: stage.now)).status == 200)
        #expect(await stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("A token of an erased account is ignored")
    func erasedToken() async throws {
        let stage = try await EvidenceStage(.verified)
        let token = try #require(await stage.token(of: stage.alice))
        #expect(await AccountOwner(stage.service, "alice").erase(token: stage.alice.token).status == 204)
        #expect(try await stage.notify(Sale("1", at: stage.now, token: token)).status == 200)
        #expect(stage.notes.all.map(\.outcome) == [.parked])
        #expect(try await stage.send([Sale("1", at: stage.now, token: token)], as: stage.bob).results == ["2"])
        let names = try await stage.store.keys().filter { !$0.hasPrefix("server/sessions/") && $0.contains("alice") }
        // The last one is kept until the second sweep.
        let prefixes = ["accounts/alice/", "server/accounts/alice", "server/erasures/alice/"]
        #expect(names.allSatisfy { name in prefixes.contains { name.hasPrefix($0) } }, "\(names)")
    }

    @Test("A forged notification is refused with the name of the check, and too many block their address only")
    func forged() async throws {
        let stage = try await EvidenceStage(.verified)
        let body = ["signedPayload": "a.b.c"]
        let refused = await stage.service.ask(.post, "/v1/notifications/app-store", json: body, peer: "192.0.2.9")
        #expect(refused.status == 400)
        #expect(!String(decoding: refused.body, as: UTF8.self).contains("a.b.c"))
        var statuses: Set<Int> = []
        for _ in 0..<70 {
            statuses.insert(
                await stage.service.ask(.post, "/v1/notifications/app-store", json: body, peer: "192.0.2.9").status)
        }
        #expect(statuses == [400, 429])
        #expect(try await stage.notify(Sale("1", at: stage.now), peer: "192.0.2.9").status == 429)
        for number in 1...100 { #expect(try await stage.notify(Sale("\(number)", at: stage.now)).status == 200) }
        stage.clock.advance(seconds: 60)
        #expect(try await stage.notify(Sale("1", at: stage.now), peer: "192.0.2.9").status == 200)
        let note = try #require(stage.notes.all.first)
        #expect("\(note)".contains("kind=app-store-notification outcome=refused check="))
        #expect("\(note)".contains("address=192.0.2.9") && !"\(note)".contains("a.b.c"))
    }

    @Test("Stores without a verifier, wrong content types, wrong methods and long bodies are refused")
    func badInput() async throws {
        let stage = try await EvidenceStage(.verified)
        #expect(await stage.service.ask(.post, "/v1/notifications/stripe", json: [:]).status == 404)
        #expect(await stage.service.ask(.post, "/v1/notifications/google-play", json: [:]).status == 404)
        #expect(await stage.service.ask(.post, "/v1/notifications/other", json: [:]).status == 404)
        #expect(await stage.service.ask(.get, "/v1/notifications/app-store").status == 405)
        let text = await stage.service.ask(
            .post, "/v1/notifications/app-store", [.contentType: "text/plain"], body: Array("{}".utf8))
        #expect(text.status == 415)
        let head = HTTPRequest(method: .post, scheme: "http", authority: "x", path: "/v1/notifications/app-store")
        let long = await stage.service.refusal(ofLongBodyAfter: head, peer: "192.0.2.1")
        #expect(long?.head.status == .contentTooLarge)
    }

    @Test("A notification whose signature is ahead of the clock is to be sent again")
    func clockSkew() async throws {
        let stage = try await EvidenceStage(.verified)
        let reply = try await stage.notify(Sale("1", at: stage.now, signed: stage.now + 600_000))
        #expect(reply.status == 503 && reply.fields[.retryAfter] != nil)
        #expect(try await !stage.store.keys().contains { $0.hasPrefix("server/parked/") })
    }

    @Test("A token that is registered while its facts are parked gives them to the account")
    func registeredMeanwhile() async throws {
        let stage = try await EvidenceStage(.verified)
        let token = "0f8fad5b-d9cb-469f-a165-70867728950e"
        let first = Once()
        stage.store.before { key, _ throws(BackendError) in
            guard key.text.hasPrefix("server/waiting/"), first.happens() else { return }
            let registered = await stage.service.ask(
                .post, "/v1/accounts/self/token", token: stage.bob.token, json: ["token": token])
            #expect(registered.status == 204)
        }
        #expect(try await stage.notify(Sale("1", at: stage.now, token: token)).status == 200)
        #expect(first.hasHappened)
        stage.store.before(nil)
        #expect(await stage.rights(of: stage.bob) == ["owl"])
        let keys = try await stage.store.keys()
        #expect(keys.allSatisfy { !$0.hasPrefix("server/parked/") && !$0.hasPrefix("server/waiting/") })
    }

    @Test("Facts for an account that is erased while they are recorded wait for another owner")
    func erasedMeanwhile() async throws {
        let stage = try await EvidenceStage(.verified)
        let token = try #require(await stage.token(of: stage.alice))
        let other = try await EvidenceStage.open(stage.store, stage.clock, .verified, .keepWithFirst)
        let alice = await stage.alice.at(other)
        let first = Once()
        stage.store.beforeReading { key in
            guard key.text.hasPrefix("owners/"), first.happens() else { return }
            #expect(await AccountOwner(other, "alice").erase(token: alice.token).status == 204)
        }
        #expect(try await stage.notify(Sale("1", at: stage.now, token: token)).status == 200)
        #expect(first.hasHappened)
        stage.store.beforeReading(nil)
        #expect(stage.notes.all.map(\.outcome) == [.parked])
        #expect(try await stage.send([Sale("1", at: stage.now, token: token)], as: stage.bob).results == ["2"])
        #expect(await stage.rights(of: stage.bob) == ["owl"])
    }

    @Test("Room that another process frees is found before facts are refused")
    func sharedRoom() async throws {
        let stage = try await EvidenceStage(.verified, parkedByteLimit: 300)
        var count = 0
        while try await stage.notify(Sale("\(count)", at: stage.now)).status == 200 { count += 1 }
        #expect(count > 0)
        let other = try await EvidenceStage.open(stage.store, stage.clock, .verified, .keepWithFirst)
        let alice = await stage.alice.at(other)
        #expect(try await stage.send([Sale("0", at: stage.now)], as: alice).results == ["2"])
        #expect(try await stage.notify(Sale("9", at: stage.now)).status == 200)
    }

    @Test("The note of a token needs room, and is removed with the parked facts")
    func waitingRoom() async throws {
        let stage = try await EvidenceStage(.verified)
        let (first, second) = ("0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b-d9cb-469f-a165-708677289501")
        let sale = Sale("1", at: stage.now, token: first)
        #expect(try await stage.notify(sale).status == 200)
        let one = stage.service.recorder.parked.byteCount
        var other = sale
        other.token = second
        #expect(try await stage.notify(other).status == 200)
        let stored = try await stage.store.list(prefix: "server/", after: nil, limit: 1_000).outcome.items
        var size = 0
        for item in stored where ["server/parked/", "server/waiting/"].contains(where: item.key.text.hasPrefix) {
            guard case .found(let entry) = try await stage.store.read(item.key).outcome else { continue }
            size += entry.value.count
        }
        #expect(stage.service.recorder.parked.byteCount == size && size > one)
        #expect(try await stage.store.keys().count { $0.hasPrefix("server/waiting/") } == 2)
        #expect(try await stage.send([Sale("1", at: stage.now)], as: stage.alice).results == ["2"])
        let keys = try await stage.store.keys()
        #expect(keys.allSatisfy { !$0.hasPrefix("server/parked/") && !$0.hasPrefix("server/waiting/") })
        #expect(stage.service.recorder.parked.byteCount == 0)
    }
}
