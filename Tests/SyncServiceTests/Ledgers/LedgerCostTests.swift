import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("The cost of long ledgers")
struct LedgerCostTests {
    private static let now: Int64 = 1_800_000_000_000
    private let clock = TestClock(Self.now)
    private let store = MemoryBackend()
    private let decisionsField = HTTPField.Name(WireFields.decisions)

    private func open(_ limits: (inout CallerLimits) -> Void = { _ in }) async throws -> EntitlementService {
        let catalog = try Catalog(
            json: Array(
                """
                {"products":[{"id":"three","type":"nonRenewing","group":"owls","duration":"P3D"},
                  {"id":"owl","type":"nonConsumable"}],
                 "entitlements":[{"id":"owls","grantedBy":["group:owls"]}]}
                """.utf8))
        return try await .open(
            store, clock: clock,
            configure: { configuration in
                configuration.catalog = catalog
                limits(&configuration.callerLimits)
            })
    }

    private func purchases(_ count: Int, daysFromNow days: Int64) -> [Fact] {
        (0..<count).map { LedgerAccount.purchase("\($0)", at: Self.now, daysFromNow: days) }
    }

    private func version(_ reply: Reply) throws -> EntryVersion {
        guard case .tags(let tags)? = TagCondition(reply.fields[.eTag] ?? ""), let version = tags.first?.version else {
            throw BackendError(.other, message: "the answer has no version: \(reply.status)")
        }
        return version
    }

    @Test("200 conditional reads of a ledger decode its decisions once, and later batches not at all")
    func batchedReads() async throws {
        let service = try await open()
        let alice = await LedgerAccount(service, "alice")
        let known = try version(await alice.put(purchases(500, daysFromNow: 400)))
        let reads = Array(repeating: BatchOperation.read(ReadRequest(try alice.ledger, unless: known)), count: 200)
        for _ in 0..<3 {
            let results = try BatchBody.results(await alice.batch(reads).body)
            #expect(results == Array(repeating: .read(.unchanged), count: 200))
        }
        for _ in 0..<10 { #expect(await alice.get().status == 200) }
        #expect(await service.ledgers.decoder.serverLedgerCount == 1)
    }

    @Test("Concurrent reads decode decisions once")
    func concurrentReads() async throws {
        let service = try await open()
        let alice = await LedgerAccount(service, "alice")
        _ = await alice.put(purchases(2_000, daysFromNow: 400))
        await withDiscardingTaskGroup { group in
            for _ in 0..<20 { group.addTask { #expect(await alice.get().status == 200) } }
        }
        #expect(await service.ledgers.decoder.serverLedgerCount == 1)
    }

    @Test("A ledger with decisions is read synchronously once they are decoded, with their version")
    func synchronousReads() async throws {
        let service = try await open()
        let alice = await LedgerAccount(service, "alice")
        let written = await alice.put(purchases(3, daysFromNow: 400))
        let field = try #require(decisionsField)
        #expect(alice.synchronousGet() == nil)
        #expect(await alice.get().fields[field] == written.fields[field])
        let answer = try #require(alice.synchronousGet())
        #expect(answer.head.status == .ok)
        #expect(answer.head.headerFields[.eTag] == written.fields[.eTag])
        #expect(answer.head.headerFields[field] == written.fields[field])
        // A new decision has another version.
        let tag = try #require(written.fields[.eTag])
        let more = await alice.put(purchases(4, daysFromNow: 400), [.ifMatch: tag])
        #expect(more.status == 200 && more.fields[field] != written.fields[field])
        #expect(alice.synchronousGet() == nil)
        #expect(await alice.get().fields[field] == more.fields[field])
        #expect(alice.synchronousGet()?.head.headerFields[field] == more.fields[field])
    }

    @Test("A ledger with refusals is read synchronously until they are due to be reconsidered, once a minute")
    func refusals() async throws {
        let service = try await open()
        let (alice, mallory) = (await LedgerAccount(service, "alice"), await LedgerAccount(service, "mallory"))
        #expect(await alice.put(purchases(1, daysFromNow: 0)).status == 200)
        #expect(await mallory.put(purchases(1, daysFromNow: 0)).status == 200)
        #expect(mallory.synchronousGet() == nil)
        let refused = await mallory.get()
        let field = try #require(decisionsField)
        #expect(mallory.synchronousGet()?.head.headerFields[field] == refused.fields[field])
        #expect(await AccountOwner(service).erase(token: alice.token).status == 204)
        #expect(await mallory.get().fields[field] == refused.fields[field])
        clock.advance(seconds: 60)
        #expect(mallory.synchronousGet() == nil)
        #expect(await mallory.get().fields[field] != refused.fields[field])
        #expect(try await mallory.decisions().values.map(\.decision) == [.accepted])
        #expect(await service.ledgers.decoder.serverLedgerCount == 1)
    }

    @Test("Entitlements are derived again only after a change of ledger, decisions or answer, and are always correct")
    func entitlements() async throws {
        let service = try await open()
        var alice = await LedgerAccount(service, "alice")
        let day = LedgerAccount.purchase("1", "three", at: Self.now)
        let written = await alice.put([day])
        var replayCount = 0
        for step in 0..<4 {
            if step > 0 { clock.advance(seconds: 90_000) }
            // The previous token has expired.
            alice = await alice.at(service)
            for _ in 0..<3 {
                clock.advance(seconds: 1)
                // Another server over the store has an empty cache.
                let expected = await alice.at(try await open()).entitlements()
                let answer = await alice.entitlements()
                #expect(answer.status == 200 && answer.body == expected.body)
            }
            let count = await service.ledgers.decoder.replayCount
            #expect(count == replayCount + 1, "step \(step)")
            replayCount = count
        }
        let later = LedgerAccount.purchase("2", "three", at: clock.now, daysFromNow: 100, time: 2)
        let tag = try #require(written.fields[.eTag])
        #expect(await alice.put([day, later], [.ifMatch: tag]).status == 200)
        let expected = await alice.at(try await open()).entitlements()
        #expect(await alice.entitlements().body == expected.body)
        #expect(String(decoding: expected.body, as: UTF8.self).contains("\"active\": true"))
        for at in ["2027-01-15", "2027-01-17T12:00:00Z", "2030-01-01", "1999-01-01"] {
            let expected = await alice.at(try await open()).entitlements(at: at)
            let answer = await alice.entitlements(at: at)
            #expect(answer.status == 200 && answer.body == expected.body, "\(at)")
        }
    }

    @Test("Deriving entitlements is charged by the ledger's length; a cached answer costs one request")
    func charges() async throws {
        let facts = purchases(800, daysFromNow: 0)
        let cost = LedgerDocumentBytes.of(facts).count >> RequestLimiter.replayShift
        #expect(cost > 3)
        let service = try await open { $0.accountReads = Rate(perSecond: 1, burst: cost + 10) }
        let alice = await LedgerAccount(service, "alice")
        #expect(await alice.put(facts).status == 200)
        #expect(await alice.entitlements().status == 200)
        for _ in 0..<5 { #expect(await alice.entitlements().status == 200) }
        // The answer is valid for all later times.
        #expect(await alice.entitlements(at: "2030-01-01").status == 200)
        let refused = await alice.entitlements(at: "1999-01-01")
        #expect(refused.status == 429 && (Int(refused.fields[.retryAfter] ?? "") ?? 0) > 1)
        #expect(await service.ledgers.decoder.replayCount == 1)
        clock.advance(seconds: 60)
        #expect(await alice.entitlements(at: "1999-01-01").status == 200)
    }

    @Test("A batch is charged for its operations, and puts an account that cannot pay at once into debt")
    func batchCharges() async throws {
        let service = try await open {
            $0.accountReads = Rate(perSecond: 1, burst: 20)
            $0.accountWrites = Rate(perSecond: 1, burst: 20)
        }
        let alice = await LedgerAccount(service, "alice")
        let read = BatchOperation.read(ReadRequest(try alice.ledger))
        #expect(await alice.batch(Array(repeating: read, count: 256)).status == 200)
        let refused = await alice.get()
        #expect(refused.status == 429 && refused.fields[.retryAfter] == "13")
        clock.advance(seconds: 13)
        #expect(await alice.get().status == 404)
        let key = try EntryKey(String(alice.path.dropFirst("/v1/kv/".count)) + "a")
        let write = BatchOperation.write(WriteRequest(key, value: nil, if: .any))
        #expect(await alice.batch(Array(repeating: write, count: 256)).status == 200)
        #expect(await alice.batch([write]).status == 429)
        clock.advance(seconds: 60)
        #expect(await alice.batch([write]).status == 200)
    }

    @Test("A batch of ledger writes decodes the stored ledger once, and is refused while the account must wait")
    func batchedWrites() async throws {
        let facts = purchases(800, daysFromNow: 0)
        let cost = LedgerDocumentBytes.of(facts).count >> RequestLimiter.decodingShift
        #expect(cost > 0)
        let service = try await open { $0.accountReads = Rate(perSecond: 1, burst: cost * 10) }
        let alice = await LedgerAccount(service, "alice")
        let version = try version(await alice.put(facts))
        let request = WriteRequest(
            try alice.ledger, value: LedgerDocumentBytes.of(purchases(1, daysFromNow: 0)), if: .matches(version))
        let results = try BatchBody.results(
            await alice.batch(Array(repeating: .write(request), count: 20)).body)
        let refused = results.dropFirst(10).filter {
            guard case .problem(let problem) = $0 else { return false }
            return problem.kind == "busy" && problem.disposition == "transient"
        }
        #expect(results.count == 20 && refused.count == 10)
        let single = await alice.put(facts, [.ifMatch: EntityTag(version).description])
        #expect(single.status == 429 && Int(single.fields[.retryAfter] ?? "") ?? 0 > 0)
        #expect(await service.ledgers.decoder.ledgerCount == 1)
        clock.advance(seconds: 60)
        #expect(try BatchBody.results(await alice.batch([.write(request)]).body).first == results.first)
    }

    @Test("The caches are bounded by weight")
    func bounds() {
        var cache = WeightedCache<Int, Int>(capacity: 100)
        for number in 0..<1_000 {
            cache.insert(number, under: number, weight: number % 30 + 1)
            let value = cache.value(of: number)
            #expect(value == number && cache.weight <= 100)
        }
        cache.insert(1, under: 1, weight: 101)
        let heavy = cache.value(of: 1)
        #expect(heavy == nil && cache.weight <= 100)
        for _ in 0..<10 { cache.insert(2, under: 2, weight: 60) }
        let replaced = cache.value(of: 2)
        #expect(replaced == 2 && cache.weight <= 100)
    }

    @Test("A value that is used stays in the cache, however many others are added")
    func recentUse() {
        var cache = WeightedCache<Int, Int>(capacity: 100)
        cache.insert(-1, under: -1, weight: 10)
        var lossCount = 0
        for number in 0..<1_000 {
            cache.insert(number, under: number, weight: 10)
            if cache.value(of: -1) != -1 { lossCount += 1 }
        }
        #expect(lossCount == 0)
    }
}
