import Entitlements
import HTTPTypes
import ServiceSimulation
import SyncService
import SyncSimulation
import Testing

@Suite("Purchases, limits and content of servers under simulation")
struct TradeSimulationTests {
    /// A scenario of `steps`, one every two seconds.
    private func timed(
        servers: [Int64] = [0], devices: [String] = ["amber"], _ actions: ServiceAction...
    ) -> ServiceScenario {
        var scenario = ServiceScenario(seed: 1, servers: servers, devices: devices)
        scenario.steps = (0..<devices.count).map { ServiceStep(at: 1_000, .signUp(device: $0)) }
        for (index, action) in actions.enumerated() {
            scenario.steps.append(ServiceStep(at: 4_000 + Int64(index) * 2_000, action))
        }
        return scenario
    }

    /// The oracles that a service with changed responses violates. The production service violates none.
    private func violated(
        _ scenario: ServiceScenario,
        by change: @escaping @Sendable (_ path: String, ServiceResponse) -> ServiceResponse
    ) -> Set<ServiceViolation.Oracle> {
        #expect(SimulatedService(scenario).run().violations.isEmpty)
        var subject = SimulatedService.Subject()
        subject.changeResponse = change
        return Set(SimulatedService(scenario, of: subject).run().violations.map(\.oracle))
    }

    private static func replacing(_ old: String, with new: String, in response: ServiceResponse) -> ServiceResponse {
        guard case .bytes(let bytes) = response.body else { return response }
        var changed = response
        changed.body = .bytes(Array(String(decoding: bytes, as: UTF8.self).replacing(old, with: new).utf8))
        return changed
    }

    private static func changing(
        _ response: ServiceResponse, to status: HTTPResponse.Status, body: String = ""
    ) -> ServiceResponse {
        var changed = response
        changed.head.status = status
        changed.body = .bytes(Array(body.utf8))
        return changed
    }

    @Test("Season passes add up in any order, also after a refund that was reversed")
    func seasons() {
        let scenario = timed(
            servers: [0, 40_000], .present(device: 0, sale: 10, isRestore: false), .notify(sale: 8),
            .refund(sale: 8), .buy(device: 0, sale: 8), .reverseRefund(sale: 8), .refund(sale: 10))
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.seasonsAdded] != nil && outcome.marks[.refundReversed] != nil)
        let oracles = violated(scenario) { path, response in
            path == "/v1/entitlements" ? Self.replacing("2026-04", with: "2026-05", in: response) : response
        }
        #expect(oracles.contains(.paidTime))
    }

    @Test("All renewals of a subscription count for the account that its token names")
    func renewals() {
        let scenario = timed(
            servers: [0, 0], devices: ["amber", "birch"], .nameOwner(device: 0, sale: 14), .notify(sale: 13),
            .present(device: 1, sale: 12, isRestore: false), .notify(sale: 15))
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.ownerNamed] != nil && outcome.marks[.renewalsAdded] != nil)
        let oracles = violated(scenario) { path, response in
            path == "/v1/entitlements" ? Self.replacing("t13", with: "t12", in: response) : response
        }
        #expect(oracles.contains(.paidTime))
    }

    @Test("Equal spends at several servers take one unit")
    func spends() {
        let scenario = timed(
            servers: [0, 0], devices: ["amber", "amber"], .buy(device: 0, sale: 16), .use(device: 0, spend: 1),
            .use(device: 1, spend: 1), .use(device: 1, spend: 2), .sync(device: 0))
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.unitsSpent] != nil)
        let oracles = violated(scenario) { path, response in
            path == "/v1/entitlements" ? Self.replacing("\"coin\": 8", with: "\"coin\": 7", in: response) : response
        }
        #expect(oracles.contains(.paidTime))
    }

    @Test("Evidence decides about a purchase that another account has reported")
    func claims() {
        var scenario = timed(
            devices: ["amber", "birch"], .report(device: 0, sale: 9), .present(device: 1, sale: 9, isRestore: false),
            .sync(device: 0), .report(device: 0, sale: 8))
        scenario.isVerified = false
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.claimCounts] != nil)
    }

    @Test("Forged evidence that is accepted is noticed")
    func forgeries() {
        let scenario = timed(.forge(device: 0, sale: 1))
        #expect(SimulatedService(scenario).run().marks[.forgeryRefused] != nil)
        let oracles = violated(scenario) { path, response in
            path == "/v1/notifications/app-store" ? Self.changing(response, to: .ok) : response
        }
        #expect(oracles.contains(.evidence))
    }

    @Test("A statement from before a refund does not undo the refund")
    func formerStatements() {
        let scenario = timed(
            devices: ["amber", "birch"], .notify(sale: 8), .notify(sale: 1), .refund(sale: 8), .refund(sale: 1),
            .presentFormer(device: 0, sale: 8, isRestore: false),
            .presentFormer(device: 1, sale: 1, isRestore: false))
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.formerPresented] == 2)
    }

    @Test("A device that was approved with a former password gets no session")
    func lateApproval() {
        var scenario = timed(devices: ["amber", "amber"], .approve(device: 1, approver: 0))
        scenario.steps.append(ServiceStep(at: 7_500, .changePassword(device: 0)))
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.deviceVoid] != nil || outcome.marks[.deviceApproved] != nil)
    }

    @Test("Many guesses at once, in two spellings, keep to the limit")
    func guessesAtOnce() {
        let outcome = SimulatedService(timed(.guessOften(device: 0, count: 60, isParallel: true))).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.guessesLimited] != nil)
    }

    /// Seed 12777: an account that became an owner while another request was under way lacked what that one wrote.
    @Test("A further owner of a shared purchase gets what is written at the same moment")
    func sharedTogether() {
        var scenario = ServiceScenario(seed: 12_777, servers: [0], devices: ["cedar", "amber"])
        scenario.link.longestDelay = 729
        scenario.ownership = .share
        scenario.steps = [
            ServiceStep(at: 1_135, .signUp(device: 0)), ServiceStep(at: 1_332, .signUp(device: 1)),
            ServiceStep(at: 45_402, .freeze(server: 0, milliseconds: 89_997)),
            ServiceStep(at: 46_402, .present(device: 1, sale: 14, isRestore: true)),
            ServiceStep(at: 47_402, .present(device: 0, sale: 15, isRestore: false)),
        ]
        #expect(SimulatedService(scenario).run().violations.isEmpty)
    }

    @Test("Content that is open without a purchase is noticed")
    func content() {
        let scenario = timed(
            .present(device: 0, sale: 1, isRestore: false), .openContent(device: 0), .refund(sale: 1),
            .openContent(device: 0))
        #expect(SimulatedService(scenario).run().marks[.contentOpened] != nil)
        let oracles = violated(scenario) { path, response in
            path == "/v1/content-check" ? Self.changing(response, to: .noContent) : response
        }
        #expect(oracles.contains(.content))
    }

    @Test("Limits that do not hold are noticed")
    func limits() {
        var flood = timed(.flood(device: 0, count: 60))
        flood.limits = AccountLimits(writesPerSecond: 1, writeBurst: 20, keys: 6)
        let outcome = SimulatedService(flood).run()
        #expect(outcome.marks[.accountLimited] != nil && outcome.marks[.quotaReached] != nil)
        // Answers as a server gives them that limits nothing.
        let oracles = violated(flood) { path, response in
            path.hasPrefix("/v1/kv/") && response.head.status.code >= 400
                ? Self.changing(response, to: .noContent) : response
        }
        #expect(oracles.contains(.limits))
        let guesses = violated(timed(.guessOften(device: 0, count: 60, isParallel: false))) { path, response in
            guard path == "/v1/sessions", response.head.status.code == 429 else { return response }
            return Self.changing(response, to: .badRequest, body: #"{"error": "invalid_grant"}"#)
        }
        #expect(guesses.contains(.limits))
    }

    @Test("A purchase that two accounts stored under `verified` counts for one of them under `trusted`")
    func trustedLater() {
        var scenario = timed(
            servers: [0, 0], devices: ["amber", "birch", "coral"], .report(device: 1, sale: 2),
            .report(device: 0, sale: 2), .present(device: 0, sale: 3, isRestore: false), .report(device: 1, sale: 3),
            .report(device: 2, sale: 9), .reconfigure(server: 1))
        scenario.later = LaterConfiguration(isVerified: false, extraMonths: 0)
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.reconfigured] != nil)
    }

    @Test(
        "A refund reaches purchases that were reported without evidence, under each rule for owners",
        arguments: ServiceScenario.Ownership.allCases)
    func reportedRefund(_ ownership: ServiceScenario.Ownership) {
        var scenario = timed(
            devices: ["amber", "birch"], .report(device: 0, sale: 1), .report(device: 1, sale: 9), .refund(sale: 9),
            .refund(sale: 1), .refund(sale: 8), .report(device: 0, sale: 8), .report(device: 1, sale: 1))
        (scenario.isVerified, scenario.ownership) = (false, ownership)
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.claimReported] == 4)
    }

    @Test("Servers that get another catalogue one after another agree in the end")
    func laterCatalogue() {
        var scenario = timed(
            servers: [0, 0], .buy(device: 0, sale: 8), .reconfigure(server: 1),
            .present(device: 0, sale: 9, isRestore: false),
            .catchUp)
        scenario.later = LaterConfiguration(isVerified: true, extraMonths: 1)
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.reconfigured] != nil && outcome.marks[.caughtUp] != nil)
    }
}
