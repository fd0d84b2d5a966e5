import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Retrying")
struct RetryTests {
    private let memory = MemoryBackend()
    private let manual = ManualHost(seed: 3)

    private func store(
        _ faults: [FaultyBackend.Fault?], policy: RetryPolicy = RetryPolicy()
    ) -> (RetryBackend, FaultyBackend) {
        let faulty = FaultyBackend(memory, plan: .scripted(faults))
        return (faulty.retrying(policy, host: manual.host), faulty)
    }

    @Test("repeats every operation after transient errors, at most four times by default")
    func transient() async throws {
        let key = try EntryKey("k")
        let (store, faulty) = store([.transient, .transient, .transient, nil])
        guard case .written = try await store.write([1], to: key, if: .absent).outcome else {
            Issue.record("the fourth attempt was not made")
            return
        }
        #expect(faulty.callCount == 4)
        #expect(manual.pauses.count == 3)
        for (pause, ceiling) in zip(manual.pauses, [100, 200, 400]) {
            #expect(pause >= .zero && pause <= .milliseconds(ceiling))
        }
    }

    @Test("throws the store's error after the last attempt")
    func exhausted() async throws {
        let (store, faulty) = store(Array(repeating: .transient, count: 10))
        let error = await #expect(throws: BackendError.self) { try await store.list(prefix: "", after: nil, limit: 1) }
        #expect(error?.kind == .unavailable)
        #expect(faulty.callCount == 4)
    }

    @Test("repeats a read of unknown outcome, but not a write", arguments: [true, false])
    func unknownOutcome(isApplied: Bool) async throws {
        let key = try EntryKey("k")
        let fault = isApplied ? FaultyBackend.Fault.lostAnswer : .lostRequest
        let (reading, _) = store([fault, nil])
        #expect(try await reading.read(key).outcome == .absent)
        let (writing, faulty) = store([fault])
        let error = await #expect(throws: BackendError.self) { try await writing.write([1], to: key, if: .absent) }
        #expect(error?.disposition == .outcomeUnknown)
        #expect(faulty.callCount == 1)
        let isThere = try await memory.read(key).outcome != .absent
        #expect(isThere == isApplied)
        let (deleting, _) = store([fault])
        let deleteError = await #expect(throws: BackendError.self) { try await deleting.delete(key, if: .any) }
        #expect(deleteError?.disposition == .outcomeUnknown)
    }

    @Test("repeats nothing after a permanent error or a cancellation")
    func permanent() async throws {
        for fault in [FaultyBackend.Fault.permanent(.full), .cancelled] {
            let (store, faulty) = store([fault])
            await #expect(throws: BackendError.self) { try await store.read(EntryKey("k")) }
            #expect(faulty.callCount == 1)
        }
    }

    @Test("repeats only the failed items of a batch and keeps the results of the others")
    func batches() async throws {
        let keys = try ["a", "b", "c", "d"].map { try EntryKey($0) }
        let (store, faulty) = store([nil, .transient, .lostAnswer, .permanent(.full), nil])
        let results = try await store.write(keys.map { WriteRequest($0, value: [1], if: .absent) }).outcome
        #expect(faulty.callCount == 5)
        guard case .success(.written) = results[0], case .success(.written) = results[1],
            case .failure(let unknown) = results[2], case .failure(let full) = results[3]
        else {
            Issue.record("answered \(results)")
            return
        }
        #expect(unknown.disposition == .outcomeUnknown)
        #expect(full.kind == .full)
    }

    @Test("gives up on a batch with the error of each item, not with the first error for all")
    func ownErrors() async throws {
        let keys = try ["a", "b", "c"].map { try EntryKey($0) }
        let named = FaultyBackend(memory) { call in call.key?.text == "b" ? nil : .transient }
        let store = named.retrying(RetryPolicy(maximumAttempts: 2), host: manual.host)
        let results = try await store.write(keys.map { WriteRequest($0, value: [1], if: .any) }).outcome
        #expect(results.map { if case .failure(let error) = $0 { error.key } else { nil } } == [keys[0], nil, keys[2]])
    }

    @Test("reports the last error of each batch item as the cause when it is cancelled in a pause")
    func cancelledBatch() async throws {
        let clock = EndlessClock()
        let keys = try ["a", "b", "c"].map { try EntryKey($0) }
        let named = FaultyBackend(memory) { call in call.key?.text == "b" ? nil : .transient }
        let store = named.retrying(host: HostServices(now: { 0 }, timer: clock, randomBits: { 1 }))
        let results = await withTaskGroup(of: [Result<WriteOutcome, BackendError>].self) { group in
            group.addTask {
                do throws(BackendError) {
                    return try await store.write(keys.map { WriteRequest($0, value: [1], if: .any) }).outcome
                } catch {
                    return [.failure(error)]
                }
            }
            for await _ in clock.pauses { group.cancelAll() }
            return await group.next() ?? []
        }
        let errors = results.map { if case .failure(let error) = $0 { error } else { nil as BackendError? } }
        #expect(errors.map { $0?.kind } == [.cancelled, nil, .cancelled])
        #expect(errors.map { ($0?.cause as? BackendError)?.key } == [keys[0], nil, keys[2]])
    }

    @Test("stops waiting when the task is cancelled, and reports the last error as the cause")
    func cancellation() async throws {
        let clock = EndlessClock()
        let faulty = FaultyBackend(memory, plan: .scripted([.transient, nil]))
        let store = faulty.retrying(host: HostServices(now: { 0 }, timer: clock, randomBits: { 1 }))
        let key = try EntryKey("k")
        let result = await withTaskGroup(of: BackendError?.self) { group in
            group.addTask {
                do throws(BackendError) { _ = try await store.read(key) } catch { return error }
                return nil
            }
            for await _ in clock.pauses { group.cancelAll() }
            return await group.next() ?? nil
        }
        #expect(result?.kind == .cancelled)
        #expect((result?.cause as? BackendError)?.kind == .unavailable)
        #expect(faulty.callCount == 1)
    }

    @Test("keeps each pause within the back-off, the maximum and the total", arguments: 1...50)
    func policy(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let policy = RetryPolicy(
            maximumAttempts: 100, firstDelay: .milliseconds(10), maximumDelay: .seconds(1),
            maximumTotalDelay: .seconds(5))
        var waited = Duration.zero
        var attempts = 1
        while let pause = policy.delay(afterFailedAttempts: attempts, waited: waited, using: &generator) {
            let ceiling = Duration.milliseconds(10) * (1 << min(attempts - 1, 20))
            #expect(pause >= .zero && pause <= min(ceiling, .seconds(1)))
            waited += pause
            attempts += 1
        }
        #expect(waited <= .seconds(5))
        #expect(attempts <= 100)
    }
}
