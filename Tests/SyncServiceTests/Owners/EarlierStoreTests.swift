import Foundation
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Stores of earlier versions")
struct EarlierStoreTests {
    @Test("A server on the store of an earlier version gives the same owners and answers")
    func sameAnswers() async throws {
        let expected = try String(contentsOf: EarlierStore.answersFile, encoding: .utf8)
        let answers = try await EarlierStore.answers { try await EarlierStore.load() }
        if let folder = ProcessInfo.processInfo.environment["OWNER_HISTORIES"] { try (answers.joined(separator: "\n") + "\n").write(toFile: folder + "/answers", atomically: true, encoding: .utf8) }
        for (answer, other) in zip(answers, expected.split(separator: "\n")) { #expect(answer == other) }
    }
}
