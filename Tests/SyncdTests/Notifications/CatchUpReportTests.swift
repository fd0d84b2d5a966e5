import StoreEvidence
import SyncService
import Testing

@testable import syncd

@Suite("The report of syncd notifications catch-up")
struct CatchUpReportTests {
    @Test("A full ledger does not end the command: later statements are received, and the exit code tells")
    func full() async throws {
        var report = CatchUpReport()
        try await report.count { .recorded }
        try await report.count { .full }
        try await report.count { .recorded }
        try await report.count { () async throws -> EvidenceNote.Outcome in
            throw EvidenceError(.signature, "the signature does not match")
        }
        #expect(
            report.text == """
                received: 4
                recorded: 2
                parked: 0
                ignored: 0
                without room: 1
                refused: 1
                  signature: 1, the first because the signature does not match

                """)
        let failure = try #require(report.failure)
        #expect(failure.code == .failed)
        #expect(failure.message.hasPrefix("1 could not be kept, because a ledger"), "\(failure.message)")
    }

    @Test("An error of the store ends the command, and what came before is counted")
    func storeFailure() async throws {
        struct Unreadable: Error {}
        var report = CatchUpReport()
        try await report.count { .parked }
        await #expect(throws: Unreadable.self) {
            try await report.count { () async throws -> EvidenceNote.Outcome in throw Unreadable() }
        }
        #expect(report.text.hasPrefix("received: 1\nrecorded: 0\nparked: 1\n"), "\(report.text)")
    }
}
