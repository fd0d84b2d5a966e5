import Entitlements
import Foundation
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Dates of purchases that a client reports before the store's evidence")
struct ReportedDateTests {
    /// The starts of the periods of an account, in milliseconds since 1970 UTC.
    private func starts(_ stage: ReportingStage) async throws -> [Int64] {
        let groups = await stage.alice.entitlements().members["subscriptions"] as? [[String: Any]] ?? []
        return try groups.flatMap { $0["periods"] as? [[String: Any]] ?? [] }.compactMap { $0["start"] as? String }
            .map { try Timestamp($0).milliseconds }
    }

    /// - Parameter hours: The reported date in hours from now; `nil` for a report without a date.
    @Test("The date in the evidence replaces the one that the server decided", arguments: [nil, 1] as [Int64?])
    func evidenceWins(hours: Int64?) async throws {
        for difference in [-3_600_000, 3_600_000] as [Int64] {
            let stage = try await ReportingStage()
            let now = stage.stage.now
            var report = ReportingStage.bought("three", "1")
            report["store"] = "app-store"
            if let hours { report["date"] = "\(Timestamp(milliseconds: now + hours * 3_600_000))" }
            #expect(await stage.report(report) == ["purchase, recording"])
            #expect(try await starts(stage) == [now])
            stage.stage.clock.advance(seconds: 7_200)
            var sale = Sale("1", at: now + difference, signed: stage.stage.now)
            sale.product = "three"
            #expect(try await stage.stage.send([sale], as: stage.alice).results == ["2"])
            #expect(try await starts(stage) == [now + difference])
            // A later report of the same purchase changes nothing.
            _ = await stage.report(report)
            #expect(try await starts(stage) == [now + difference])
        }
    }
}
