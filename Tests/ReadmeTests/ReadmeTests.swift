import EntitlementKit
import EntitlementSync
import Entitlements
import Foundation
import TestSupport
import Testing

@Suite("The samples in the documentation")
struct ReadmeTests {
    private static let catalogFile = Repository.file("Examples/insomniowl.json")

    @MainActor
    @Test("The README's sample adopts what was bought before the log-in, and another device restores it")
    func readmeSampleRuns() async throws {
        let folder = try TemporaryFolder()
        let server = try ServerProcess(store: "memory:", options: ["--catalog", Self.catalogFile.path()])
        let password = "correct horse battery"
        func place(_ device: String) -> URL { URL(filePath: folder.path(of: device)) }
        let first = Shop(catalog: Self.catalogFile, server: server.url, folder: place("phone"))
        try await first.signUp("alice", password: password, earlierPurchases: .adopt)
        try await first.logOut()
        try await first.record("com.back40.InsomniOwl.3monthsOfRandom", transaction: "1")

        let (access, phone) = try await restoreWithShop(
            catalog: Self.catalogFile, folder: place("phone"), server: server.url, password: password)
        #expect(access.isGranted)
        #expect(phone.account == "alice")
        let (restored, _) = try await restoreWithShop(
            catalog: Self.catalogFile, folder: place("tablet"), server: server.url, password: password)
        #expect(restored == access)
    }

    @Test("README.md and Docs/GettingStarted.md show the sample that is compiled here")
    func readmeShowsSample() throws {
        let source = try Self.text("Tests/ReadmeTests/ReadmeSample.swift")
        let shown = source.components(separatedBy: "// README begin\n").dropFirst()
            .map { $0.components(separatedBy: "// README end")[0] }
        try #require(shown.count == 2)
        let body = shown[1].split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.hasPrefix("    ") ? String($0.dropFirst(4)) : "" }.joined(separator: "\n")
        #expect(try Self.swiftBlocks(of: "README.md").first == shown[0] + body)
        #expect(try Self.swiftBlocks(of: "Docs/GettingStarted.md").contains(shown[0] + body))
    }

    @Test("Docs/GettingStarted.md shows the program that .ci/check-docs runs")
    func gettingStartedShowsProgram() throws {
        let program = try Self.text("Tests/GettingStarted/main.swift")
        #expect(try Self.swiftBlocks(of: "Docs/GettingStarted.md").contains(program))
    }

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: Repository.file(path), encoding: .utf8)
    }

    /// The contents of the Swift blocks of the page at `path`, in order.
    private static func swiftBlocks(of path: String) throws -> [String] {
        try text(path).components(separatedBy: "\n```swift").dropFirst().map { block in
            let lines = block.components(separatedBy: "\n").dropFirst()
            return lines.prefix { $0 != "```" }.map { $0 + "\n" }.joined()
        }
    }
}
