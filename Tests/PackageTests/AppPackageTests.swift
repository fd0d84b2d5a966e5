import Foundation
import TestSupport
import Testing

@Suite("App packages")
struct AppPackageTests {
    @Test(
        "An app of EntitlementSync and FileStorage builds, runs and fetches at most 3 packages",
        .timeLimit(.minutes(15)))
    func app() async throws {
        let app = try AppPackage(
            products: ["EntitlementSync", "FileStorage"],
            code: """
                import EntitlementSync
                import FileStorage

                let json = #"{"products":[{"id":"owl","type":"nonConsumable"}],"#
                    + #""entitlements":[{"id":"owl","grantedBy":["product:owl"]}]}"#
                let store = try await EntitlementStore(
                    catalog: .init(json: json.utf8), local: .file("store"), account: Account("alice"))
                try await store.record(.reported("owl"))
                print(try await store.access(to: "owl").isGranted ? "ready" : "denied")
                """)
        try await expect(app, prints: "ready\n")
    }

    @Test(
        "An app of HTTPStorage and CurlTransport builds, runs and fetches at most 3 packages",
        .timeLimit(.minutes(15)))
    func httpApp() async throws {
        let app = try AppPackage(
            products: ["HTTPStorage", "CurlTransport"],
            code: """
                import CurlTransport
                import HTTPStorage
                import SyncCore

                let backend = try HTTPBackend(server: "http://127.0.0.1:1", transport: CurlClient())
                do throws(BackendError) {
                    print(try await backend.read(try EntryKey("k")).outcome)
                } catch {
                    print(error.kind, error.disposition)
                }
                """)
        try await expect(app, prints: "unavailable transient\n")
    }

    @Test(
        "An app of EntitlementSyncEvidence without its trait fetches no package for certificates",
        .timeLimit(.minutes(15)))
    func evidenceApp() async throws {
        let app = try AppPackage(
            products: ["EntitlementSync", "EntitlementSyncEvidence"],
            code: """
                import EntitlementSync
                import EntitlementSyncEvidence

                print(try Account("alice").name ?? "")
                """)
        try await expect(app, prints: "alice\n")
    }

    @Test(
        "The console shop builds with one import and at most 3 packages, buys, signs up, and restores elsewhere",
        .timeLimit(.minutes(15)))
    func consoleShop() async throws {
        var root = URL(filePath: #filePath)
        for _ in 1...3 { root.deleteLastPathComponent() }
        let source = root.appending(path: "Examples/console-shop/Sources/shop/main.swift")
        let catalog = root.appending(path: "Examples/insomniowl.json").path
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

    /// Builds the app, counts the packages it fetched, runs it, and removes it.
    private func expect(_ app: AppPackage, prints output: String) async throws {
        defer { try? app.remove() }
        let build = try await app.build()
        try #require(build.status == 0, "\(build.output)")

        let packages = try app.packages()
        #expect(packages.count <= 3, "fetched \(packages.fetched)")

        let launch = try await app.launch()
        #expect(launch.status == 0)
        #expect(launch.output == output)
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
