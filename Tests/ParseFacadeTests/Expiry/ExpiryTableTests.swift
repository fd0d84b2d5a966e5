import Entitlements
import Foundation
import ParseFacade
import Testing

/// The catalogue of the tutorials' app.
func tutorialCatalog() throws -> Catalog {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    return try Catalog(json: Array(Data(contentsOf: root.appending(path: "Examples/insomniowl.json"))))
}

@Suite("The table of histories with old apps")
struct ExpiryTableTests {
    private static let count: UInt64 =
        ProcessInfo.processInfo.environment["EXPIRY_HISTORIES"].flatMap(UInt64.init) ?? 200

    @Test("The rules lose and gain nothing where the tutorials' own server does", arguments: HistoryRow.allCases)
    func row(_ row: HistoryRow) throws {
        let catalog = try tutorialCatalog()
        var (rules, tutorial) = ((loss: 0, gain: 0), (loss: 0, gain: 0))
        var seeds: [UInt64] = []
        for seed in 0..<Self.count {
            var own = ExpiryHistory(row, seed: seed, catalog: catalog, server: try RuleServer(catalog))
            let outcome = own.run()
            if outcome.isLoss { rules.loss += 1 }
            if outcome.isGain { rules.gain += 1 }
            if outcome.isLoss || outcome.isGain { seeds.append(seed) }
            var old = ExpiryHistory(row, seed: seed, catalog: catalog, server: TutorialServer())
            let other = old.run()
            if other.isLoss { tutorial.loss += 1 }
            if other.isGain { tutorial.gain += 1 }
        }
        print("\(row): rules \(rules), tutorial \(tutorial) of \(Self.count)")
        #expect(row == .wrongClocks || seeds.isEmpty, "seeds \(seeds)")
        if [.twoOldDevices, .concurrentPurchases, .retries, .lostAnswers].contains(row) {
            #expect(tutorial.loss > Int(Self.count) / 4)
        }
        if [.sharedPhone, .newVersion].contains(row) { #expect(tutorial.gain > Int(Self.count) / 4) }
    }
}
