import SyncCoreTesting
import Testing

@testable import SyncSimulation

@Suite("Random streams")
struct RandomSourceTests {
    @Test("A seed gives the same numbers with every toolchain")
    func pinned() {
        var generator = SeededGenerator(seed: 1)
        #expect((0..<8).map { _ in generator.pick(1...6) } == [4, 5, 6, 3, 3, 5, 6, 4])
        #expect(
            (0..<3).map { _ in generator.pick(.min ... .max) } == [
                5_266_705_631_892_356_520, -3_800_091_893_662_914_666, 7_455_107_161_863_376_737,
            ])
        #expect(
            (0..<3).map { _ in generator.pick(-1 ... .max) } == [
                5_584_017_301_749_351_934, 4_889_115_802_880_168_260, 1_540_625_848_015_299_868,
            ])
    }
}
