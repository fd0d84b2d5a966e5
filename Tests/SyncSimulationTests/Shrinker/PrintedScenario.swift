import Entitlements
import SyncSimulation
import Testing

/// The output of ``Scenario/swiftSource`` and ``Scenario/regressionTest(for:subject:)``, compiled as a test. If the
/// output changes, `SourceTests` fails and prints the new text for this file.
@Suite("A printed regression test")
struct PrintedScenario {
    enum Printed {
        static let everyAction = Scenario(
            seed: 18_446_744_073_709_551_615,
            devices: [
                DeviceSetup(),
                DeviceSetup(
                    rule: "latestExpiryWins",
                    catalog: 1,
                    clockOffset: -94_608_000_000,
                    account: nil,
                    pollingHours: 24),
                DeviceSetup(account: "a \"quoted\" name"),
            ],
            remote: RemoteSetup(comparesAndSwaps: false, tellsTime: false),
            faults: FaultRates(
                lostRequests: 1,
                lostAnswers: 2,
                repeatedRequests: 3,
                refusals: 4,
                staleReads: 5,
                longestDelay: 60_000,
                delayed: 7,
                diskErrors: 8,
                diskUnknowns: 9,
                diskPauses: 1_000),
            sharesUnits: false,
            rules: "remoteWins",
            steps: [
                Step(at: 0, device: 0, .buy(Sale("t0001", of: "quarter"))),
                Step(
                    at: 86_399_999,
                    device: 1,
                    process: 1,
                    .buy(Sale("t\"\\\n\u{1B}\u{202E}é2", of: "coins", quantity: 10_000, date: -1, isSigned: true))),
                Step(
                    at: 172_799_998,
                    device: 2,
                    .buy(Sale("a transaction with a name as long as they come", of: "a long product"))),
                Step(at: 259_199_997, device: 0, process: 1, .refund("t0001", isSigned: true)),
                Step(at: 345_599_996, device: 1, .reinstate("t0001", isSigned: false)),
                Step(at: 431_999_995, device: 2, process: 1, .use("random-owls", id: "s0001")),
                Step(at: 518_399_994, device: 0, .flag("owl", isSet: true)),
                Step(
                    at: 604_799_993,
                    device: 1,
                    process: 1,
                    .assert(group: "random", until: 15_552_000_000, source: "parse")),
                Step(at: 691_199_992, device: 2, .echo(group: "random", source: "parse")),
                Step(at: 777_599_991, device: 0, process: 1, .defer("quarter", isWithdrawn: true)),
                Step(at: 863_999_990, device: 1, .writeUnknown(id: "t0003")),
                Step(at: 950_399_989, device: 2, process: 1, .sync),
                Step(at: 1_036_799_988, device: 0, .restore),
                Step(at: 1_123_199_987, device: 1, process: 1, .look),
                Step(at: 1_209_599_986, device: 2, .createAccount("alice")),
                Step(at: 1_295_999_985, device: 0, process: 1, .logIn("alice", adoptsAnonymous: true)),
                Step(at: 1_382_399_984, device: 1, .logOut),
                Step(at: 1_468_799_983, device: 2, process: 1, .erase("alice")),
                Step(at: 1_555_199_982, device: 0, .start),
                Step(at: 1_641_599_981, device: 1, process: 1, .crash(afterOperations: 1_234)),
                Step(at: 1_727_999_980, device: 2, .backUp),
                Step(at: 1_814_399_979, device: 0, process: 1, .putBack),
                Step(at: 1_900_799_978, device: 1, .wipe),
                Step(at: 1_987_199_977, device: 2, process: 1, .lose),
                Step(at: 2_073_599_976, device: 0, .fill(1_000)),
                Step(at: 2_159_999_975, device: 1, process: 1, .moveClock(-3_153_600_000_000)),
                Step(at: 2_246_399_974, device: 2, .cut(requests: true, answers: false, 60_000)),
                Step(
                    at: 2_332_799_973,
                    device: 0,
                    process: 1,
                    .present(StoreStatement("e0001", of: "club", date: 0, signedAt: 1_000), isRestore: false)),
                Step(
                    at: 2_419_199_972,
                    device: 1,
                    .present(
                        StoreStatement(
                            "e0002",
                            of: "club",
                            date: 2_592_000_000,
                            signedAt: 2_600_000_000,
                            revokedAt: 2_599_999_000,
                            expires: 5_184_000_000,
                            original: "e0001",
                            account: "alice"),
                        isRestore: true)),
                Step(
                    at: 2_505_599_971,
                    device: 2,
                    process: 1,
                    .forge(StoreStatement("e(\"3,", of: "half", date: 1, signedAt: -2))),
                Step(at: 3_153_600_000_000, .backUpRemote),
                Step(at: 3_153_600_000_001, .putBackRemote),
                Step(at: 3_153_600_000_002, .wipeRemote),
                Step(at: 3_153_600_000_003, .moveRemoteClock(-999, for: 1_000_000)),
                Step(at: 3_153_600_000_004, .fillRemote(12)),
                Step(at: 3_153_600_000_005, .lie(.oldContent)),
                Step(at: 3_153_600_000_006, .lie(.deletion)),
                Step(at: 3_153_600_000_007, .lie(.garbage(86_400_000))),
                Step(at: 3_153_600_000_008, .lie(.laterFormat(172_800_000))),
                Step(at: 3_153_600_000_009, .lie(.forgedRefunds)),
                Step(
                    at: 3_153_600_000_010,
                    .notify(
                        StoreStatement(
                            "e0002",
                            of: "club",
                            date: 2_592_000_000,
                            signedAt: 2_600_000_000,
                            revokedAt: 2_599_999_000,
                            expires: 5_184_000_000,
                            original: "e0001",
                            account: "alice"))),
                Step(at: 3_153_600_000_011, .claim(.purchase("e0004", of: "owl"), account: "alice")),
                Step(at: 3_153_600_000_012, .claim(.flag("owl"), account: "alice")),
                Step(at: 3_153_600_000_013, .claim(.expiry(group: "random"), account: "bob")),
                Step(at: 3_153_600_000_014, .claim(.reversal("e0002"), account: "bob")),
                Step(at: 3_153_600_000_015, .claim(.refund("e0001"), account: "alice")),
                Step(at: 3_153_600_000_016, .claim(.grace("e0001"), account: "alice")),
                Step(
                    at: 3_153_600_000_017,
                    .claim(.evidence(StoreStatement("e0005", of: "half", date: 3, signedAt: 4)), account: "alice")),
            ],
            days: 36_500)
    }

    @Test("seed 42: coverage: \"device 1\" lost 3 days")
    func seed42() {
        let scenario = Scenario(
            seed: 42,
            devices: [
                DeviceSetup(),
                DeviceSetup(),
            ],
            steps: [
                Step(at: 0, device: 0, .buy(Sale("t0001", of: "quarter"))),
                Step(at: 3_600_000, device: 1, .buy(Sale("t0002", of: "quarter"))),
            ],
            days: 1)
        let subject = Subject(rules: ConflictRules())
        #expect(Simulation(scenario, of: subject).run().violations.isEmpty)
    }
}
