import Entitlements
import SyncSimulation
import Testing

/// The output of ``Scenario/regressionTest(for:subject:)``, compiled as a test. If the output changes,
/// `RegressionTestTests` fails and prints the new text for this file.
@Suite("A printed regression test")
struct PrintedTest {
    @Test("seed 42: coverage: \"device 1\" lost 3 days")
    func seed42() throws {
        let json = #"""
            {"days":1,"devices":[{"account":"alice","catalog":0,"clockOffset":0},{"account":"alice","catalog":0,
            "clockOffset":0}],"faults":{"delayed":0,"diskErrors":0,"diskPauses":200,"diskUnknowns":0,"longestDelay":50,
            "lostAnswers":0,"lostRequests":0,"refusals":0,"repeatedRequests":0,"staleReads":0},
            "remote":{"comparesAndSwaps":true,"tellsTime":true},"seed":42,"sharesUnits":true,
            "steps":[{"action":{"buy":{"_0":{"isSigned":false,"product":"quarter","quantity":1,"transaction":"t0001"}}},
            "at":0,"device":0,"process":0},
            {"action":{"buy":{"_0":{"isSigned":false,"product":"quarter","quantity":1,"transaction":"t0002"}}},
            "at":3600000,"device":1,"process":0}]}
            """#
        let scenario = try Scenario(json: Array(json.utf8))
        #expect(Simulation(scenario, of: Subject(rules: ConflictRules())).run().violations.isEmpty)
    }
}
