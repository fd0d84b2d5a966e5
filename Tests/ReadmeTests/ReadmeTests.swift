import EntitlementSync
import Entitlements
import FileStorage
import Foundation
import Testing

@Suite("The README's sample")
struct ReadmeTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test("It does what it says: three months bought on one device are there on another")
    func runs() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "readme-\(UInt64.random(in: 0...UInt64.max))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let catalog = Self.root.appending(path: "Examples/insomniowl.json")
        let shared = folder.appending(path: "shared").path()
        let access = try await buyThreeMonths(
            of: catalog, phone: folder.appending(path: "phone").path(), shared: shared)
        guard case .granted(let grant) = access else {
            Issue.record("access is \(access)")
            return
        }
        #expect(grant.source == .group("random"))
        let tablet = try await EntitlementStore(
            catalog: .json(at: catalog), local: .file(folder.appending(path: "tablet").path()), remote: .file(shared),
            account: Account("alice"))
        #expect(try await tablet.access(to: "random-owls") == .denied(.restoreNeeded))
        let report = try await tablet.restore()
        #expect(report.purchases.map(\.product) == ["com.back40.InsomniOwl.3monthsOfRandom"])
        #expect(report.snapshot[access: "random-owls"] == .granted(grant))
    }

    @Test("It stands in README.md as it was compiled here")
    func isTheSame() throws {
        let readme = try String(contentsOf: Self.root.appending(path: "README.md"), encoding: .utf8)
        let source = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent().appending(path: "ReadmeSample.swift"),
            encoding: .utf8)
        let sample = try #require(source.between("// README begin\n", and: "// README end"))
        let block = try #require(readme.between("```swift\n", and: "```"))
        #expect(block == sample)
        #expect(block.split(separator: "\n").count <= 20)
    }
}

extension String {
    fileprivate func between(_ start: String, and end: String) -> String? {
        guard let from = range(of: start)?.upperBound, let to = range(of: end, range: from..<endIndex) else {
            return nil
        }
        return String(self[from..<to.lowerBound])
    }
}
