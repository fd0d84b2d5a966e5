import Foundation
import ServiceTestSupport
import StoreEvidence
import Testing

@testable import SyncService

@Suite("Random histories of owners")
struct OwnerHistoryTests {
    @Test func generate() async throws {
        guard let folder = ProcessInfo.processInfo.environment["OWNER_HISTORIES"] else { return }
        for (name, isWild, count) in [("tame", false, UInt64(2000)), ("wild", true, UInt64(400))] {
            var text = ""
            for seed in 1...count {
                let trace = try await OwnerHistory.trace(seed: seed, isWild: isWild)
                text += "== \(seed) \(hexadecimalDigest(of: trace.joined(separator: "\n")))\n"
                text += trace.joined(separator: "\n") + "\n"
            }
            try text.write(toFile: folder + "/" + name, atomically: true, encoding: .utf8)
        }
    }
}
