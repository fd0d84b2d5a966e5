import CurlTransport
import EntitlementSync
import Entitlements
import FileStorage
import Foundation
import HTTPStorage
import TestSupport
import Testing

@Suite("The samples in the documentation")
struct ReadmeTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let catalogFile = root.appending(path: "Examples/insomniowl.json")

    @Test("The README's sample buys three months on one device, and another device restores them")
    func readmeSampleRuns() async throws {
        let folder = try TemporaryFolder()
        let server = try ServerProcess(store: "memory:", options: ["--catalog", Self.catalogFile.path()])
        let client = try AccountClient(server: server.url, transport: CurlClient())
        _ = try await client.signUp("alice", password: "correct horse battery")

        let access = try await buyThreeMonths(
            catalog: .json(at: Self.catalogFile), folder: folder.path(of: "phone"), server: server.url,
            password: "correct horse battery")
        guard case .granted(let grant) = access else {
            Issue.record("access is \(access)")
            return
        }
        #expect(grant.source == .group("random"))

        let tokens = SessionTokens(client, store: MemorySessionStore())
        try await tokens.begin(client.logIn("alice", password: "correct horse battery"))
        let tablet = try await EntitlementStore(
            catalog: .json(at: Self.catalogFile), local: .file(folder.path(of: "tablet")),
            remote: HTTPBackend(server: server.url, transport: CurlClient(), token: tokens.token(refused:)))
        try await tablet.logIn("alice")
        #expect(try await tablet.access(to: "random-owls") == .denied(.restoreNeeded))
        let report = try await tablet.restore()
        #expect(report.purchases.map(\.product) == ["com.back40.InsomniOwl.3monthsOfRandom"])
        #expect(report.snapshot[access: "random-owls"] == .granted(grant))
    }

    @Test("README.md shows the sample that is compiled here")
    func readmeShowsSample() throws {
        let source = try Self.text("Tests/ReadmeTests/ReadmeSample.swift")
        let shown = source.components(separatedBy: "// README begin\n").dropFirst()
            .map { $0.components(separatedBy: "// README end")[0] }
        try #require(shown.count == 2)
        let body = shown[1].split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.hasPrefix("    ") ? String($0.dropFirst(4)) : "" }.joined(separator: "\n")
        #expect(try Self.swiftBlocks(of: "README.md").first == shown[0] + body)
    }

    @Test("Docs/GettingStarted.md shows the program that .ci/check-docs runs")
    func gettingStartedShowsProgram() throws {
        let program = try Self.text("Tests/GettingStarted/main.swift")
        #expect(try Self.swiftBlocks(of: "Docs/GettingStarted.md").contains(program))
    }

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// The contents of the Swift blocks of the page at `path`, in order.
    private static func swiftBlocks(of path: String) throws -> [String] {
        try text(path).components(separatedBy: "\n```swift").dropFirst().map { block in
            let lines = block.components(separatedBy: "\n").dropFirst()
            return lines.prefix { $0 != "```" }.map { $0 + "\n" }.joined()
        }
    }
}
