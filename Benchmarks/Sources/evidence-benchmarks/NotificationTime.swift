import BenchmarkSupport
import CurlTransport
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import HTTPTypes
import SyncCore
import SyncProtocol

/// Times a purchase from the App Store's notification to a device that watches a `syncd serve --policy verified`.
///
/// The device never reports the purchase: the server finds the account by its token.
struct NotificationTime {
    /// The times in seconds, sorted.
    struct Result {
        /// From the start of the notification's request to its answer.
        let answers: [Double]
        /// From the start of the notification's request to the access on the device.
        let arrivals: [Double]

        var text: String {
            "a notification, to its answer:  \(Self.milliseconds(answers))\n"
                + "a notification, to the device:  \(Self.milliseconds(arrivals))"
        }

        var json: String {
            let (answers, arrivals) = (answers.map { $0 * 1e9 }, arrivals.map { $0 * 1e9 })
            return "  {\"name\":\"notification\",\"answerNanoseconds\":\(decimal(Self.median(answers), places: 1)),"
                + "\"nanoseconds\":\(decimal(Self.median(arrivals), places: 1)),"
                + "\"longestNanoseconds\":\(decimal(arrivals.last ?? 0, places: 1))}"
        }

        private static func median(_ sorted: [Double]) -> Double { sorted.isEmpty ? 0 : sorted[sorted.count / 2] }

        private static func milliseconds(_ sorted: [Double]) -> String {
            "median \(decimal(median(sorted) * 1e3, places: 1)) ms, longest of \(sorted.count): "
                + "\(decimal((sorted.last ?? 0) * 1e3, places: 1)) ms"
        }
    }

    let samples: SignedSamples
    let program: String

    /// Sends `count` notifications, one after the other.
    func measure(count: Int) async throws -> Result {
        let folder = temporaryFolder()
        defer { removeFolder(folder) }
        let products = (0..<count).map { "purchase\($0)" }
        let listed = products.map { "{\"id\":\"\($0)\",\"type\":\"nonConsumable\"}" }.joined(separator: ",")
        let catalog = "{\"products\":[\(listed)],\"entitlements\":[]}"
        try Data(catalog.utf8).write(to: URL(filePath: folder + "/catalog.json"))
        try Data(samples.roots).write(to: URL(filePath: folder + "/roots.pem"))
        let server = try BenchmarkServer(
            program: program, folder: folder,
            options: [
                "--catalog", folder + "/catalog.json", "--policy", "verified", "--app-store-bundle", "com.example",
                "--app-store-app-id", "1234", "--evidence-root", folder + "/roots.pem",
            ])
        defer { server.end() }
        let transport = try CurlClient()
        let client = try AccountClient(server: server.url, transport: transport)
        let session = try await client.signUp("bench", password: "correct horse").session
        let token = try await client.accountToken { _ throws(BackendError) in session.accessToken }
        let remote = try HTTPBackend(server: server.url, transport: transport) { _ throws(BackendError) in
            session.accessToken
        }
        let device = try await EntitlementStore(
            catalog: Catalog(json: Array(catalog.utf8)), local: MemoryBackend(), remote: remote, server: remote,
            account: Account(session.account, incarnation: session.incarnation))
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await device.run(pollingEvery: .seconds(3_600)) }
            defer { group.cancelAll() }
            return try await measure(products, token, device, server, transport)
        }
    }

    private func measure(
        _ products: [String], _ token: String, _ device: EntitlementStore, _ server: BenchmarkServer,
        _ transport: CurlClient
    ) async throws -> Result {
        var request = HTTPRequest(
            method: .post, scheme: "http", authority: String(server.url.dropFirst("http://".count)),
            path: "/v1/notifications/app-store")
        request.headerFields[.contentType] = "application/json"
        var snapshots = try await device.snapshots().makeAsyncIterator()
        var (answers, arrivals): ([Double], [Double]) = ([], [])
        for (number, product) in products.enumerated() {
            let body = try samples.notification(product: product, token: token)
            let start = ContinuousClock.now
            let answer = try await transport.send(
                request, body: body, timeout: .seconds(10), maximumByteCount: 1 << 16)
            let answered = ContinuousClock.now - start
            expect(answer.response.status == .ok, "the notification is accepted")
            while let snapshot = await snapshots.next(), !snapshot.owned.contains(ProductID(product)) {}
            // The device connects to the server's changes during the first.
            guard number > 0 else { continue }
            answers.append(answered / .seconds(1))
            arrivals.append((ContinuousClock.now - start) / .seconds(1))
        }
        return Result(answers: answers.sorted(), arrivals: arrivals.sorted())
    }
}
