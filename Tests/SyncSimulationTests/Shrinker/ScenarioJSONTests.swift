import Entitlements
import SyncSimulation
import Testing

@Suite("A scenario as JSON")
struct ScenarioJSONTests {
    @Test("A scenario with every kind of action survives a round trip")
    func everyAction() throws {
        let json = EveryAction.scenario.json
        let read = try Scenario(json: json)
        #expect(read == EveryAction.scenario)
        #expect(read.json == json)
    }

    @Test("Generated scenarios survive a round trip")
    func drawn() throws {
        for seed in UInt64(1)...300 {
            let scenario = Swarm().scenario(seed: seed)
            try #expect(Scenario(json: scenario.json) == scenario, "seed \(seed)")
        }
        let large = Swarm(replicas: 20, days: 36_500).scenario(seed: 1)
        try #expect(Scenario(json: large.json) == large)
    }

    @Test("Members are sorted by name")
    func sorted() throws {
        let scenario = Scenario(
            seed: 7, devices: [DeviceSetup()], steps: [Step(at: 5, device: 0, .use("owl", id: "s1"))], days: 3)
        let text = String(decoding: scenario.json, as: UTF8.self)
        let members = text.split(separator: "\n").filter { $0.hasPrefix("  \"") }.map { $0.prefix { $0 != ":" } }
        #expect(
            members == [
                "  \"days\" ", "  \"devices\" ", "  \"faults\" ", "  \"remote\" ", "  \"seed\" ",
                "  \"sharesUnits\" ", "  \"steps\" ",
            ])
    }

    /// A change to a valid document, and the resulting error.
    struct Damage: CustomTestStringConvertible, Sendable {
        var old: String
        var new: String
        var error: String
        var testDescription: String { "\(old) → \(new)" }
    }

    /// The error of an invalid document in words.
    private static func error(_ json: [UInt8]) -> String? {
        let error = #expect(throws: InputError.self) { try Scenario(json: json) }
        return error.map { "\($0)" }
    }

    private static let damages = [
        Damage(old: "\"days\" : 3,", new: "", error: "days: missing"),
        Damage(old: "\"days\" : 3", new: "\"days\" : 0", error: "days: must be 1 to 36500, not 0"),
        Damage(old: "\"sync\"", new: "\"synch\"", error: "steps[0].action: must be exactly one known case"),
        Damage(
            old: "\"device\" : 0", new: "\"device\" : 1", error: "steps[0].device: must be 0 to 0, not 1"),
        Damage(old: "\"device\" : 0,", new: "", error: "steps[0].device: missing"),
        Damage(
            old: "\"sync\"", new: "\"wipeRemote\"",
            error: "steps[0].device: must be missing: the action is one of the remote"),
        Damage(old: "\"process\" : 0", new: "\"process\" : 2", error: "steps[0].process: must be 0 to 1, not 2"),
        Damage(
            old: "\"at\" : 5", new: "\"at\" : 9223372036854775807",
            error: "steps[0].at: must be 0 to 12622780800000, not 9223372036854775807"),
        Damage(
            old: "\"catalog\" : 0", new: "\"catalog\" : -1",
            error: "devices[0].catalog: must be 0 to 100, not -1"),
        Damage(
            old: "\"refusals\" : 0", new: "\"refusals\" : 1001",
            error: "faults.refusals: must be 0 to 1000, not 1001"),
        Damage(
            old: "\"catalog\" : 0", new: "\"catalog\" : 0, \"pollingHours\" : 0",
            error: "devices[0].pollingHours: must be 1 to 87600, not 0"),
    ]

    @Test("An invalid value is rejected with its path", arguments: damages)
    func refused(damage: Damage) throws {
        let scenario = Scenario(seed: 7, devices: [DeviceSetup()], steps: [Step(at: 5, device: 0, .sync)], days: 3)
        let text = String(decoding: scenario.json, as: UTF8.self)
        try #require(text.ranges(of: damage.old).count == 1)
        let damaged = Array(text.replacing(damage.old, with: damage.new).utf8)
        #expect(Self.error(damaged) == damage.error)
    }

    @Test("A scenario that was written before servers verified evidence is read")
    func earlier() throws {
        let text = """
            {"days": 3, "seed": 7, "sharesUnits": true, "remote": {"comparesAndSwaps": true, "tellsTime": true},
            "devices": [{"account": "alice", "catalog": 0, "clockOffset": 0}],
            "faults": {"delayed": 0, "diskErrors": 0, "diskPauses": 200, "diskUnknowns": 0, "longestDelay": 50,
            "lostAnswers": 0, "lostRequests": 0, "refusals": 0, "repeatedRequests": 0, "staleReads": 0},
            "steps": [{"at": 5, "device": 0, "process": 0, "action": {"sync": {}}}]}
            """
        let expected = Scenario(seed: 7, devices: [DeviceSetup()], steps: [Step(at: 5, device: 0, .sync)], days: 3)
        try #expect(Scenario(json: Array(text.utf8)) == expected)
        #expect(expected.remote.policy == nil)
    }

    @Test("A policy that the remote cannot have is rejected")
    func policies() throws {
        var scenario = Scenario(seed: 7, devices: [DeviceSetup()], steps: [], days: 3)
        scenario.remote = RemoteSetup(comparesAndSwaps: false, policy: .trusted)
        #expect(Self.error(scenario.json) == "remote.policy: needs a remote that compares and swaps")
        scenario.remote = RemoteSetup(policy: .verified)
        try #expect(Scenario(json: scenario.json) == scenario)
        scenario.sharesUnits = false
        #expect(Self.error(scenario.json) == "remote.policy: verified needs shared units")
    }

    @Test("A cluster survives a round trip, and one that the remote cannot have is rejected")
    func clusters() throws {
        var scenario = Scenario(
            seed: 7, devices: [DeviceSetup()], steps: [Step(at: 5, .failOver(afterWrites: 2, promotion: 600_000))],
            days: 3)
        let cluster = ClusterSetup(slowCommits: 1_000, longestCommit: 60_000, longestLag: 0)
        scenario.remote = RemoteSetup(cluster: cluster)
        try #expect(Scenario(json: scenario.json) == scenario)
        func reason(_ change: (inout Scenario) -> Void) -> String? {
            var damaged = scenario
            change(&damaged)
            return Self.error(damaged.json)
        }
        #expect(
            reason { $0.remote.comparesAndSwaps = false }
                == "remote.cluster: needs a remote that compares and swaps")
        #expect(
            reason { $0.remote.cluster?.longestCommit = 0 }
                == "remote.cluster.longestCommit: must be 1 to 60000, not 0")
        #expect(
            reason { $0.steps[0].action = .failOver(afterWrites: -1, promotion: 0) }
                == "steps[0].action.failOver.afterWrites: must be 0 to 1000000, not -1")
        #expect(
            reason { $0.steps[0].action = .failOver(afterWrites: 0, promotion: 600_001) }
                == "steps[0].action.failOver.promotion: must be 0 to 600000, not 600001")
        #expect(
            reason { $0.steps[0].action = .switchOver(promotion: -1) }
                == "steps[0].action.switchOver.promotion: must be 0 to 600000, not -1")
    }

    @Test("Text that is not a scenario in JSON is rejected", arguments: ["", "{", "nonsense", "[]", "42", "\u{0}"])
    func noScenario(text: String) {
        #expect(throws: InputError.self) { try Scenario(json: Array(text.utf8)) }
    }

    @Test(
        "Amounts that would overflow are rejected",
        arguments: [
            Action.moveClock(.min), .fill(.max), .buy(Sale("t1", of: "owl", quantity: 10_001)),
            .buy(Sale("t1", of: "owl", date: .min)), .crash(afterOperations: -1),
            .assert(group: "random", until: .max, source: "parse"), .cut(requests: true, answers: true, .max),
            .present(StoreStatement("e1", of: "owl", date: .min, signedAt: 0), isRestore: false),
            .present(StoreStatement("e1", of: "owl", date: 0, signedAt: 0, expires: .max), isRestore: true),
            .forge(StoreStatement("e1", of: "owl", date: 0, signedAt: .max)),
        ])
    func overflow(action: Action) {
        let scenario = Scenario(seed: 7, devices: [DeviceSetup()], steps: [Step(at: 5, device: 0, action)], days: 3)
        let error = #expect(throws: InputError.self) { try Scenario(json: scenario.json) }
        #expect(error?.path.hasPrefix("steps[0].action") == true)
    }
}
