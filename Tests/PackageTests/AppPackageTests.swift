import Foundation
import TestSupport
import Testing

@Suite("App packages")
struct AppPackageTests {
    /// Only resolves the dependencies. The console shop is the app that is built.
    @Test(
        "An app fetches at most 3 packages, and none for certificates without the trait", .timeLimit(.minutes(15)),
        arguments: [
            ["EntitlementSync", "FileStorage"], ["HTTPStorage", "CurlTransport"],
            ["EntitlementSync", "EntitlementSyncEvidence"],
        ])
    func fetchedPackages(products: [String]) async throws {
        let app = try AppPackage(products: products, code: "")
        defer { try? app.remove() }
        let resolution = try await app.resolve()
        try #require(resolution.status == 0, "\(resolution.output)")
        let packages = try app.packages()
        #expect(packages.count <= 3, "fetched \(packages.fetched)")
    }

    @Test(
        "The console shop builds with one import and at most 3 packages, buys, signs up, and restores elsewhere",
        .timeLimit(.minutes(15)))
    func consoleShop() async throws {
        let source = Repository.file("Examples/console-shop/Sources/shop/main.swift")
        let catalog = Repository.catalog
        let app = try AppPackage(
            products: ["EntitlementKit"], code: String(contentsOf: source, encoding: .utf8))
        defer { try? app.remove() }
        let build = try await app.build()
        try #require(build.status == 0, "\(build.output)")
        #expect(try app.packages().count <= 3)
        let server = try ServerProcess(store: "memory:", options: ["--catalog", catalog])
        func shop(_ device: String, _ command: String...) async throws -> String {
            let arguments = [catalog, server.url, app.folder.appending(path: device).path] + command
            let environment = ["SHOP_PASSWORD": "correct horse battery staple"]
            return try await app.launch(arguments, environment: environment).output
        }
        let product = "com.back40.InsomniOwl.3monthsOfRandom"
        #expect(try await shop("phone", "buy", product, "order-1") == "bought: \(product)\n")
        #expect(try await shop("phone", "sign-up", "alice").hasPrefix("signed up: alice, with "))
        #expect(try await shop("tablet", "has", "random-owls") == "not available: not purchased\n")
        #expect(try await shop("tablet", "log-in", "alice") == "logged in: alice\n")
        #expect(try await shop("tablet", "has", "random-owls") == "available\n")
        #expect(try await shop("tablet", "show").contains("\(product)  3 Months of Random Owls  renew(until: "))
        #expect(try await shop("tablet", "restore") == "restored: 0\n")
        #expect(try await shop("tablet", "log-out") == "logged out\n")
        #expect(try await shop("tablet", "restore").hasPrefix("You are not logged in. Log in, and try again.\n"))
        // A shop that runs shows what another device buys.
        _ = try await shop("laptop", "sign-up", "bob")
        _ = try await shop("kiosk", "log-in", "bob")
        async let page = shop("kiosk", "watch", "random-owls")
        _ = try await shop("laptop", "buy", product, "order-2")
        _ = try await shop("laptop", "show")
        #expect(try await page.contains("\(product)  3 Months of Random Owls  renew(until: "))
        #expect(server.stop() == 0)
    }

    @Test("A package is counted once, whether it is checked out, pinned or both, and this package counts too")
    func counting() throws {
        let app = try AppPackage(products: [], code: "")
        defer { try? app.remove() }
        #expect(try app.packages().count == 1)

        let checkout = app.folder.appending(path: ".build/checkouts/swift-log")
        try FileManager.default.createDirectory(at: checkout, withIntermediateDirectories: true)
        let pins = #"{"pins":[{"identity":"swift-log"},{"identity":"swift-nio"},{"identity":"swift-atomics"}]}"#
        try Data(pins.utf8).write(to: app.folder.appending(path: "Package.resolved"))
        #expect(try app.packages() == AppPackage.Packages(fetched: ["swift-atomics", "swift-log", "swift-nio"]))
        #expect(try app.packages().count == 4)
    }
}
