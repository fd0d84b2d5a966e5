import HTTPTypes
import ServiceSimulation
import SyncCore
import SyncService
import Synchronization
import Testing

@Suite("The oracles of the servers' simulation notice broken services")
struct OracleTests {
    private typealias Subject = SimulatedService.Subject

    /// Runs the steps of two devices, "amber" and "birch", which both have accounts.
    private func scenario(
        _ actions: [ServiceAction], _ change: (inout ServiceScenario) -> Void = { _ in }
    ) -> ServiceScenario {
        var scenario = ServiceScenario(seed: 1, servers: [0, 0], devices: ["amber", "birch", "cedar"])
        let all: [ServiceAction] = [.signUp(device: 0), .signUp(device: 1), .signUp(device: 2)] + actions
        scenario.steps = all.enumerated().map { ServiceStep(at: Int64($0 + 1) * 5_000, $1) }
        change(&scenario)
        return scenario
    }

    /// Expects that the scenario holds, and that it violates `oracle` with `subject`.
    private func expect(
        _ oracle: ServiceViolation.Oracle, _ message: String, _ scenario: ServiceScenario, _ subject: Subject,
        at location: SourceLocation = #_sourceLocation
    ) {
        let held = SimulatedService(scenario).run().violations
        #expect(held.isEmpty, sourceLocation: location)
        let found = SimulatedService(scenario, of: subject).run().violations
        #expect(
            found.contains { $0.oracle == oracle && $0.message.contains(message) }, "\(found)",
            sourceLocation: location)
    }

    private func subject(store: @escaping @Sendable (any KeyValueBackend) -> any KeyValueBackend) -> Subject {
        var subject = Subject()
        subject.wrapStore = store
        return subject
    }

    private func subject(
        _ path: String, _ change: @escaping @Sendable (ServiceResponse) -> ServiceResponse
    ) -> Subject {
        var subject = Subject()
        subject.changeResponse = { $0.hasPrefix(path) ? change($1) : $1 }
        return subject
    }

    private static func json(_ text: String, _ status: HTTPResponse.Status = .ok) -> ServiceResponse {
        ServiceResponse(HTTPResponse(status: status), body: Array(text.utf8))
    }

    private static let recorded = json(#"{"results":[{"facts":[{}]}]}"#)

    private static func text(of response: ServiceResponse) -> String {
        if case .bytes(let bytes) = response.body { String(decoding: bytes, as: UTF8.self) } else { "" }
    }

    // MARK: erasure

    @Test("An erasure that leaves a list of purchases", arguments: ["server/holdings/", "accounts/"])
    func erasure(prefix: String) {
        let steps: [ServiceAction] = [
            .present(device: 0, sale: 1, isRestore: false), .write(device: 0, key: 1), .erase(device: 0),
        ]
        expect(
            .erased, "names the erased account", scenario(steps),
            subject { IgnoringDeletes(base: $0, prefix: prefix) })
    }

    // MARK: owners

    @Test("A purchase that moves without a restore")
    func movedWithoutRestore() {
        let steps = [0, 1].map { ServiceAction.present(device: $0, sale: 1, isRestore: false) }
        for ownership in [ServiceScenario.Ownership.keepWithFirst, .transfer] {
            expect(
                .ownership, "without a restore", scenario(steps) { $0.ownership = ownership },
                subject("/v1/transactions") { _ in Self.recorded })
        }
    }

    @Test("A purchase that moves twice in a day")
    func movedTwice() {
        let steps = [0, 1, 2].map { ServiceAction.present(device: $0, sale: 1, isRestore: true) }
        expect(
            .ownership, "in a day", scenario(steps) { $0.ownership = .transfer },
            subject("/v1/transactions") { _ in Self.recorded })
    }

    @Test("A restore whose purchase stays with the former owner, or is lost")
    func lostRestore() {
        let steps = [0, 1].map { ServiceAction.present(device: $0, sale: 1, isRestore: true) }
        let transfer = scenario(steps) { $0.ownership = .transfer }
        let hasBegun = Mutex(false)
        let keeping = subject { store in
            IgnoringWrites(base: store) { key in
                hasBegun.withLock { hasBegun in
                    if key.hasPrefix("server/transfers/") { hasBegun = true }
                    return hasBegun && key.hasPrefix("accounts/amber/") && key.text.hasSuffix("/decisions")
                }
            }
        }
        expect(.ownership, "counts for amber and birch", transfer, keeping)
        expect(
            .ownership, "counts for no account", transfer,
            subject { IgnoringWrites(base: $0) { $0.hasPrefix("accounts/birch/") && $0.text.hasSuffix("decisions") } })
    }

    @Test("An act of support that is killed at any operation loses no purchase")
    func interruptedSupport() {
        for count in stride(from: 0, to: 48, by: 4) {
            let scenario = scenario([
                .present(device: 0, sale: 1, isRestore: false), .interruptSupport(afterOperations: count),
                .support(device: 1, sale: 1, isTransfer: true), .read(device: 0, key: 0),
            ])
            #expect(SimulatedService(scenario).run().violations.isEmpty, "\(count) operations")
        }
    }

    // MARK: the audit list

    @Test("An audit list that is no chain, or lacks a transfer")
    func auditList() {
        let steps = [0, 1].map { ServiceAction.present(device: $0, sale: 1, isRestore: true) }
        let transfer = scenario(steps + [.support(device: 2, sale: 2, isTransfer: false)]) { $0.ownership = .transfer }
        expect(
            .auditList, "does not follow", transfer,
            subject { store in
                ChangingValues(base: store, prefix: "server/audit/000000000002") {
                    $0.replacing(#""previous":""#, with: #""previous":"0"#)
                }
            })
        expect(
            .auditList, "moved 1 times, with 0 entries", transfer,
            subject { ChangingValues(base: $0, prefix: "server/audit/") { $0.replacing("transfer", with: "other") } })
    }

    // MARK: grants

    @Test("A grant of another account, an old one, and one that is not signed")
    func grants() {
        let steps: [ServiceAction] = [
            .grant(device: 0), .present(device: 0, sale: 1, isRestore: false), .grant(device: 0), .grant(device: 1),
        ]
        let first = Mutex("")
        let repeated = subject("/v1/grants") { response in
            first.withLock { text in
                if text.isEmpty { text = Self.text(of: response) }
                return Self.json(text)
            }
        }
        expect(.grants, "it names another account", scenario(steps), repeated)
        expect(.grants, "it was issued at", scenario(steps), repeated)
        let unsigned = subject("/v1/grants") { response in
            var parts = Self.text(of: response).split(separator: "\"", omittingEmptySubsequences: false).map(
                String.init)
            if let name = parts.firstIndex(of: "grant") { parts[name + 2] = parts[name + 2].dropLast(4) + "AAAA" }
            return Self.json(parts.joined(separator: "\""))
        }
        expect(.grants, "the key has not signed the grant", scenario(steps), unsigned)
    }

    @Test("Entitlements that lack a recorded purchase")
    func lostPurchase() {
        expect(
            .ownership, "lacks the recorded sale 1", scenario([.present(device: 0, sale: 1, isRestore: false)]),
            subject("/v1/entitlements") { _ in Self.json(#"{"access":{}}"#) })
    }

    // MARK: sessions and streams

    @Test("A token of an ended session that learns that a key is absent")
    func absence() {
        let steps: [ServiceAction] = [.logOut(device: 0, everywhere: false), .tryOldCredentials(device: 0)]
        expect(
            .revocation, "was done after its log-out", scenario(steps),
            subject("/v1/kv/") { $0.head.status == .unauthorized ? Self.json("{}", .notFound) : $0 })
    }

    @Test("A valid token that is refused")
    func refusedToken() {
        expect(
            .validity, "was refused with a valid token", scenario([.read(device: 0, key: 1)]),
            subject("/v1/kv/") { _ in Self.json("{}", .unauthorized) })
    }

    @Test("A stream that reports a key of another life of the name, and one that ends for ever")
    func streams() {
        let event = #"event: change\ndata: {"key":"accounts/amber/other/notes/1","version":"1"}\n\n"#
        expect(
            .isolation, "a stream of amber reports", scenario([.watch(device: 0)]),
            subject("/v1/changes") { _ in Self.json(event.replacing(#"\n"#, with: "\n")) })
        expect(
            .streams, "does not reconnect", scenario([.watch(device: 0), .read(device: 0, key: 1)]),
            subject("/v1/changes") { _ in Self.json("{}", .serviceUnavailable) })
    }

    @Test("A stream that goes on after the log-out of its session")
    func streamAfterLogOut() {
        let steps: [ServiceAction] = [
            .logIn(device: 3), .watch(device: 3), .logOut(device: 0, everywhere: true), .logIn(device: 0),
            .write(device: 0, key: 1),
        ]
        let scenario = scenario(steps) {
            $0.devices.append("amber")
            $0.servers = [0]
        }
        // Epochs are part of the account's record.
        expect(
            .revocation, "a later write", scenario,
            subject { IgnoringDeletes(base: HidingChanges(base: $0), prefix: "server/sessions/") })
    }

    // MARK: entries and errors

    @Test("A store that loses deletions, and one that ignores the versions of conditional writes")
    func entries() {
        expect(
            .durability, "does not show the last write",
            scenario([.write(device: 0, key: 1), .delete(device: 0, key: 1), .read(device: 0, key: 1)]),
            subject { IgnoringDeletes(base: $0, prefix: "accounts/") })
        let replacements = scenario([.write(device: 0, key: 1)]) { scenario in
            scenario.devices.append("amber")
            scenario.steps.append(ServiceStep(at: 60_000, .logIn(device: 3)))
            for time in 70...80 as ClosedRange<Int64> {
                for device in [0, 3] {
                    scenario.steps.append(ServiceStep(at: time * 1_000, .replace(device: device, key: 1)))
                }
            }
        }
        expect(
            .durability, "two conditional writes", replacements,
            subject { IgnoringPreconditions(base: $0, prefix: "accounts/") })
    }

    @Test("A status of 500 without a fault of the store", arguments: [false, true])
    func unexplainedError(isCluster: Bool) {
        let scenario = scenario([.read(device: 0, key: 1)]) {
            let clusters = (1...30 as ClosedRange<UInt64>).lazy.compactMap { ServiceSwarm().scenario(seed: $0).cluster }
            $0.cluster = isCluster ? clusters.first : nil
        }
        expect(
            .service, "was answered with 500", scenario,
            subject("/v1/kv/") { _ in Self.json(#"{"disposition":"outcomeUnknown"}"#, .internalServerError) })
    }

    @Test("A stream whose position the store has forgotten starts over")
    func expiredCursor() {
        var scenario = ServiceScenario(seed: 1, devices: ["amber", "birch"])
        scenario.steps = [
            ServiceStep(at: 1_000, .signUp(device: 0)), ServiceStep(at: 2_000, .signUp(device: 1)),
            ServiceStep(at: 20_000, .watch(device: 0)),
            ServiceStep(at: 30_000, .kill(server: 0, afterOperations: 0, pause: 1)),
            ServiceStep(at: 31_000, .write(device: 1, key: 1)), ServiceStep(at: 31_500, .expireCursors),
            ServiceStep(at: 40_000, .write(device: 0, key: 1)),
        ]
        let outcome = SimulatedService(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.marks[.streamExpired] != nil)
    }
}

/// A store whose changes do not report the records of accounts.
private struct HidingChanges: ForwardingBackend {
    let base: any KeyValueBackend

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        var answer = try await base.changes(since: cursor, prefix: prefix, limit: limit)
        answer.outcome.changes.removeAll { $0.key.hasPrefix("server/accounts/") }
        return answer
    }
}
