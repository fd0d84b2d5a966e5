import BenchmarkSupport
import CurlTransport
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import HTTPTypes
import SyncCore
import SyncProtocol

/// Measures the requests of a device, in alternation with libcurl that requests the same bytes.
struct WireRows {
    let program: String
    let folder: String
    let isSecure: Bool

    private static let operatorToken = "operator-token-of-the-benchmark"

    private func writePrivate(_ text: String, to path: String) throws {
        guard
            FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        else { exitWithFailure("\(path) cannot be written") }
    }

    func measure(with stopwatch: WireStopwatch) async -> WireMeasurement {
        do {
            let (catalog, token) = (folder + "/catalog.json", folder + "/operator.token")
            try writePrivate(WireAccount.catalog, to: catalog)
            try writePrivate(Self.operatorToken, to: token)
            let server = try BenchmarkServer(
                program: program, folder: folder, isSecure: isSecure,
                options: ["--catalog", catalog, "--operator-token-file", token])
            defer { server.end() }
            return try await measure(server, stopwatch)
        } catch { exitWithFailure("\(error)") }
    }

    private func measure(_ server: BenchmarkServer, _ stopwatch: WireStopwatch) async throws -> WireMeasurement {
        var configuration = CurlClient.Configuration()
        if let file = server.certificates { configuration.trust = .file(file) }
        let transport = try CurlClient(configuration)
        let account = try await WireAccount("bench", server: server.url, transport: transport)
        let remote = try account.backend(transport)
        guard case .found(let entry) = try await remote.read(account.ledger).outcome else {
            exitWithFailure("the ledger is not there")
        }
        let path = "/v1/kv/" + account.ledger.text
        let url = server.url + path
        let token = account.session.accessToken
        let tag = try await entityTag(of: path, at: server.url, token, transport)
        let unchanged = RawRequest(url, token: token, tag: tag, certificates: server.certificates, status: 304)
        let whole = RawRequest(url, token: token, certificates: server.certificates, status: 200)
        // An account's own question for its entitlements, and that of the operator about the account.
        let own = RawRequest(
            server.url + "/v1/entitlements", token: token, certificates: server.certificates, status: 200)
        let asked = RawRequest(
            server.url + "/v1/customers/bench/entitlements", token: Self.operatorToken,
            certificates: server.certificates, status: 200)
        defer { for request in [unchanged, whole, own, asked] { request.free() } }
        expect(own.perform() == asked.perform(), "the operator reads what the account reads")
        expect(unchanged.perform() == 0, "nothing comes of what is known")
        expect(whole.perform() == entry.value.count, "all of it comes otherwise")
        expect(unchanged.version == (isSecure ? 20 : 11), "TLS means HTTP/2")
        try await checkRequests(account, transport)

        let device = try await account.newDevice(remote)
        let decided = try await WireAccount("decided", server: server.url, transport: transport, isDecided: true)
        let decidedDevice = try await decided.newDevice(decided.backend(transport))
        let engine = SyncEngine(local: MemoryBackend(), remote: remote, merge: LedgerMerge())
        _ = try await engine.sync(account.ledger)
        let subjects = [
            Subject("conditional read", against: unchanged) {
                guard case .unchanged = try await remote.read(account.ledger, unless: entry.version).outcome else {
                    exitWithFailure("it did change")
                }
            },
            Subject("idle sync, engine", against: unchanged) { _ = try await engine.sync(account.ledger) },
            Subject("idle sync, EntitlementStore", against: unchanged) { try await device.sync() },
            Subject("idle sync with decisions", against: unchanged) { try await decidedDevice.sync() },
            Subject("read", against: whole) { _ = try await remote.read(account.ledger) },
            Subject("new device", against: whole, requests: 3) { _ = try await account.newDevice(remote) },
            Subject("operator's entitlements", against: own) { asked.perform() },
        ]
        return WireMeasurement(
            name: isSecure ? "TLS, HTTP/2" : "HTTP/1.1", byteCount: entry.value.count,
            rows: try await stopwatch.measure(subjects))
    }

    /// The entity tag of the entry at `path`.
    private func entityTag(
        of path: String, at server: String, _ token: String, _ transport: CurlClient
    ) async throws -> String {
        var request = HTTPRequest(
            method: .get, scheme: isSecure ? "https" : "http",
            authority: String(server.trimmingPrefix(isSecure ? "https://" : "http://")), path: path)
        request.headerFields[.authorization] = "Bearer \(token)"
        let answer = try await transport.send(request, body: [], timeout: .seconds(10), maximumByteCount: 1 << 20)
        guard let tag = answer.response.headerFields[.eTag] else { exitWithFailure("there is no ETag") }
        return tag
    }

    /// Counts the requests before the measurement.
    private func checkRequests(_ account: WireAccount, _ transport: CurlClient) async throws {
        let counting = CountingTransport(transport)
        let remote = try account.backend(counting)
        let device = try await account.newDevice(remote)
        expect(counting.take() == 3, "a new device makes 3 requests")
        try await device.sync()
        expect(counting.take() == 1, "an idle sync is 1 request")
        let engine = SyncEngine(local: MemoryBackend(), remote: remote, merge: LedgerMerge())
        _ = try await engine.sync(account.ledger)
        _ = counting.take()
        _ = try await engine.sync(account.ledger)
        expect(counting.take() == 1, "an engine's idle sync is 1 request")
    }
}

/// An operation of a device.
struct Subject {
    let name: String
    /// The baseline.
    let floor: RawRequest
    /// The number of requests of the operation, and of its baseline.
    let requests: Int
    let body: () async throws -> Void

    init(_ name: String, against floor: RawRequest, requests: Int = 1, _ body: @escaping () async throws -> Void) {
        (self.name, self.floor, self.requests, self.body) = (name, floor, requests, body)
    }
}
