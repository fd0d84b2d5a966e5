import SyncSimulation

/// A scenario with every kind of action and without default values.
enum EveryAction {
    static let scenario: Scenario = {
        var scenario = Scenario(
            seed: 18_446_744_073_709_551_615,
            devices: [
                DeviceSetup(),
                DeviceSetup(
                    rule: "latestExpiryWins", catalog: 1, clockOffset: -94_608_000_000, account: nil, pollingHours: 24),
                DeviceSetup(account: "a \"quoted\" name"),
            ], steps: [], days: 36_500)
        scenario.remote.comparesAndSwaps = false
        scenario.remote.tellsTime = false
        scenario.sharesUnits = false
        scenario.rules = "remoteWins"
        scenario.faults = FaultRates(
            lostRequests: 1, lostAnswers: 2, repeatedRequests: 3, refusals: 4, staleReads: 5, longestDelay: 60_000,
            delayed: 7, diskErrors: 8, diskUnknowns: 9, diskPauses: 1_000)
        for (index, action) in onDevices.enumerated() {
            scenario.steps.append(
                Step(at: Int64(index) * 86_399_999, device: index % 3, process: index % 2, action))
        }
        for (index, action) in onRemote.enumerated() {
            scenario.steps.append(Step(at: 3_153_600_000_000 + Int64(index), action))
        }
        return scenario
    }()

    static let onDevices: [Action] = [
        .buy(Sale("t0001", of: "quarter")),
        .buy(Sale("t\"\\\n\u{1B}\u{202E}é2", of: "coins", quantity: 10_000, date: -1, isSigned: true)),
        .buy(Sale("a transaction with a name as long as they come", of: "a long product")),
        .refund("t0001", isSigned: true), .reinstate("t0001", isSigned: false), .use("random-owls", id: "s0001"),
        .flag("owl", isSet: true), .assert(group: "random", until: 15_552_000_000, source: "parse"),
        .echo(group: "random", source: "parse"), .defer("quarter", isWithdrawn: true), .writeUnknown(id: "t0003"),
        .sync, .restore, .look, .createAccount("alice"), .logIn("alice", adoptsAnonymous: true), .logOut,
        .erase("alice"), .start, .crash(afterOperations: 1_234), .backUp, .putBack, .wipe, .lose, .fill(1_000),
        .moveClock(-3_153_600_000_000), .cut(requests: true, answers: false, 60_000),
        .present(StoreStatement("e0001", of: "club", date: 0, signedAt: 1_000), isRestore: false),
        .present(refundedRenewal, isRestore: true),
        .forge(StoreStatement("e(\"3,", of: "half", date: 1, signedAt: -2)),
    ]

    static let onRemote: [Action] = [
        .backUpRemote, .putBackRemote, .wipeRemote, .moveRemoteClock(-999, for: 1_000_000), .fillRemote(12),
        .failOver(afterWrites: 3, promotion: 2_500), .switchOver(promotion: 20),
        .lie(.oldContent), .lie(.deletion), .lie(.garbage(86_400_000)), .lie(.laterFormat(172_800_000)),
        .lie(.forgedRefunds), .notify(refundedRenewal), .claim(.purchase("e0004", of: "owl"), account: "alice"),
        .claim(.flag("owl"), account: "alice"), .claim(.expiry(group: "random"), account: "bob"),
        .claim(.reversal("e0002"), account: "bob"), .claim(.refund("e0001"), account: "alice"),
        .claim(.grace("e0001"), account: "alice"),
        .claim(.evidence(StoreStatement("e0005", of: "half", date: 3, signedAt: 4)), account: "alice"),
    ]

    /// A statement with every property.
    private static let refundedRenewal = StoreStatement(
        "e0002", of: "club", date: 2_592_000_000, signedAt: 2_600_000_000, revokedAt: 2_599_999_000,
        expires: 5_184_000_000, original: "e0001", account: "alice")

    /// The name of each case. The switch is exhaustive, so a new case must be added here.
    static func name(of action: Action) -> String {
        switch action {
        case .buy: "buy"
        case .refund: "refund"
        case .reinstate: "reinstate"
        case .use: "use"
        case .flag: "flag"
        case .assert: "assert"
        case .echo: "echo"
        case .defer: "defer"
        case .writeUnknown: "writeUnknown"
        case .present(_, let isRestore): isRestore ? "restore and present" : "present"
        case .forge: "forge"
        case .sync: "sync"
        case .restore: "restore"
        case .look: "look"
        case .createAccount: "createAccount"
        case .logIn: "logIn"
        case .logOut: "logOut"
        case .erase: "erase"
        case .start: "start"
        case .crash: "crash"
        case .backUp: "backUp"
        case .putBack: "putBack"
        case .wipe: "wipe"
        case .lose: "lose"
        case .fill: "fill"
        case .moveClock: "moveClock"
        case .cut: "cut"
        case .backUpRemote: "backUpRemote"
        case .putBackRemote: "putBackRemote"
        case .wipeRemote: "wipeRemote"
        case .moveRemoteClock: "moveRemoteClock"
        case .fillRemote: "fillRemote"
        case .failOver: "failOver"
        case .switchOver: "switchOver"
        case .lie(let lie): "lie \(name(of: lie))"
        case .notify: "notify"
        case .claim(let claim, _): "claim \(name(of: claim))"
        }
    }

    private static func name(of lie: MaliciousWrite) -> String {
        switch lie {
        case .oldContent: "oldContent"
        case .deletion: "deletion"
        case .garbage: "garbage"
        case .laterFormat: "laterFormat"
        case .forgedRefunds: "forgedRefunds"
        }
    }

    private static func name(of claim: ClientClaim) -> String {
        switch claim {
        case .purchase: "purchase"
        case .flag: "flag"
        case .expiry: "expiry"
        case .reversal: "reversal"
        case .refund: "refund"
        case .grace: "grace"
        case .evidence: "evidence"
        }
    }

    /// The number of cases in the functions above.
    static let caseCount = 48
}
