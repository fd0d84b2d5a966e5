import ServiceSimulation
import SyncCore
import SyncService
import Testing

@Suite("The projection under simulation")
struct ProjectionSimulationTests {
    /// Two servers that project, two accounts that buy and lose a subscription, and disturbances.
    private func scenario(
        _ disturbances: [ServiceStep], seed: UInt64 = 1, _ change: (inout ServiceScenario) -> Void = { _ in }
    ) -> ServiceScenario {
        var scenario = ServiceScenario(seed: seed, servers: [0, 0], devices: ["amber", "birch"])
        scenario.projection = ProjectionSetup()
        scenario.projection?.deliversEvents = true
        scenario.steps = [
            ServiceStep(at: 30_000, .signUp(device: 0)), ServiceStep(at: 31_000, .signUp(device: 1)),
            ServiceStep(at: 40_000, .present(device: 0, sale: 12, isRestore: false)),
            ServiceStep(at: 44_000, .present(device: 1, sale: 1, isRestore: false)),
            ServiceStep(at: 60_000, .refund(sale: 1)), ServiceStep(at: 90_000, .erase(device: 1)),
            ServiceStep(at: 86_440_000, .read(device: 0, key: 0)),
        ]
        scenario.steps = (scenario.steps + disturbances).sorted { $0.at < $1.at }
        change(&scenario)
        return scenario
    }

    /// Expects that all invariants hold with each seed, and that rare states were reached with one of them.
    private func expect(
        _ marks: [ServiceMark], _ scenarios: [ServiceScenario], at location: SourceLocation = #_sourceLocation
    ) {
        var reached: Set<ServiceMark> = []
        for scenario in scenarios {
            let outcome = SimulatedService(scenario).run()
            #expect(outcome.violations.isEmpty, sourceLocation: location)
            reached.formUnion(outcome.marks.keys)
        }
        for mark in marks { #expect(reached.contains(mark), "\(mark)", sourceLocation: location) }
    }

    @Test("Rows and events follow purchases, refunds, time and erasures, also of a time without servers")
    func rows() {
        expect(
            [.eventsProjected, .endAnnounced, .endProjected, .refundProjected, .erasureProjected, .projectionCompared],
            [scenario([])])
    }

    @Test("A server that is frozen before a transaction loses the lease, and writes nothing")
    func frozen() {
        expect(
            [.projectorFrozen, .leaseTakenOver, .projectionFenced],
            [scenario([ServiceStep(at: 39_000, .freezeProjector(afterTransactions: 0, milliseconds: 40_000))])])
    }

    @Test(
        "A server that is killed at a transaction loses and doubles no event", arguments: 1...6 as ClosedRange<UInt64>)
    func killed(seed: UInt64) {
        expect(
            [.projectorKilled, .leaseTakenOver, .delivered],
            [scenario([ServiceStep(at: 39_000, .killProjector(afterTransactions: 0, pause: 1_000))], seed: seed)])
    }

    @Test("Transactions with an unknown outcome, also those performed late, lose and double no event")
    func unknownOutcomes() {
        let failures = stride(from: 29_000 as Int64, to: 100_000, by: 8_000).map {
            ServiceStep(at: $0, .failProjection(perMille: 300, milliseconds: 8_000))
        }
        expect([.projectionOutcomeUnknown], (1...8).map { scenario(failures, seed: $0) })
    }

    @Test("Rows are derived again while purchases go on, also if that is interrupted")
    func reindex() {
        let steps = [
            ServiceStep(at: 40_010, .reindex(afterOperations: nil)), ServiceStep(at: 59_990, .expireCursors),
            ServiceStep(at: 60_000, .reindex(afterOperations: 6)),
        ]
        expect([.reindexed, .reindexInterrupted], [scenario(steps)])
    }

    @Test("Rows of sessions that ended during an interrupted first rebuild are removed if the cursor expires")
    func expiredFirstRebuild() throws {
        let json = #"""
            {"cluster":{"longestCommit":432,"longestLag":1086,"slowCommits":93},"devices":["birch","birch","AMBER"],
            "isVerified":true,"link":{"cutStreams":0,"longestDelay":171,"lostAnswers":0,"lostRequests":0,
            "repeatedRequests":0,"slow":0},"ownership":"keepWithFirst","projection":{"deliversEvents":false,
            "lostDeliveries":0},"seed":50915,"servers":[0],"steps":[{"action":{"signUp":{"device":2}},"at":1252},
            {"action":{"killProjector":{"afterTransactions":2,"pause":10508}},"at":1394},
            {"action":{"logOut":{"device":2,"everywhere":true}},"at":63265529},
            {"action":{"expireCursors":{}},"at":63265808}]}
            """#
        #expect(SimulatedService(try ServiceScenario(json: Array(json.utf8))).run().violations.isEmpty)
    }

    @Test("Deliveries that are lost or refused arrive in the end, in order")
    func deliveries() {
        let failures = [ServiceStep(at: 40_000, .failReceiver(milliseconds: 20_000))]
        expect(
            [.deliveryLost, .deliveryFailed],
            (1...8).map { scenario(failures, seed: $0) { $0.projection?.lostDeliveries = 300 } })
    }

    @Test("A projector that misses changes is noticed")
    func missedChanges() {
        var subject = SimulatedService.Subject()
        subject.wrapStore = { OmittingChanges(base: $0, prefix: "accounts/") }
        let found = SimulatedService(scenario([]), of: subject).run().violations
        #expect(found.contains { $0.oracle == .projection }, "\(found)")
    }
}
