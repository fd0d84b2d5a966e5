#if Parse
import SyncSimulation
import TestSupport
import Testing

@Suite("Histories of old apps")
struct OldAppTests {
    private static let seeds: ClosedRange<UInt64> = 0...(Soak.isLong ? 199 : 39)

    @Test(
        "The rules lose and gain nothing where a server that keeps the later date does", arguments: OldAppKind.allCases)
    func table(_ kind: OldAppKind) throws {
        let row = try OldAppTable().row(kind, seeds: Self.seeds)
        #expect(row.seeds == Self.seeds.count)
        #expect(row.failures.isEmpty, "\(row.failures)")
        if [.twoOldDevices, .concurrentPurchases, .retries, .lostAnswers].contains(kind) {
            #expect(row.laterDate.lost > row.seeds / 4)
        }
        if [.sharedPhone, .newVersion].contains(kind) { #expect(row.laterDate.gained > row.seeds / 4) }
    }

    @Test(
        "A seed gives the same events each time, and different seeds give different ones",
        arguments: OldAppKind.allCases)
    func reproducible(_ kind: OldAppKind) throws {
        let table = try OldAppTable()
        let first = table.outcome(kind, seed: 7, isRecording: true)
        let second = table.outcome(kind, seed: 7, isRecording: true)
        #expect(first.lines == second.lines && first.outcome == second.outcome)
        #expect(first.lines.count > 8)
        #expect(table.outcome(kind, seed: 8, isRecording: true).lines != first.lines)
    }
}
#endif
