import Crypto
import EvidenceTestSupport
import Foundation
import SyncCore
import TestSupport
import Testing

@Suite("syncd notifications catch-up")
struct CatchUpTests {
    private let stage: NotificationStage

    init() throws { stage = try NotificationStage() }

    private func counts(
        received: Int, recorded: Int = 0, parked: Int = 0, refused: String = "refused: 0"
    ) -> String {
        "received: \(received)\nrecorded: \(recorded)\nparked: \(parked)\nignored: 0\n\(refused)"
    }

    /// Fifty notifications: the last is of alice, and the others are of purchases without an account.
    private func entries() throws -> [FakeAppStore.Entry] {
        try (0..<50).map { index in
            try stage.notification(
                "200000000000\(1_000 + index)", minutes: 60 - Int64(index), token: index == 49 ? stage.token : nil)
        }
    }

    @Test("An outage of several pages is caught up beside the running server, and a second run changes nothing")
    func outage() async throws {
        let store = FakeAppStore(try entries())
        let api = try store.start()
        #expect(try !stage.hasAccess(to: "night-owl"))
        let report = Sandbox.Outcome.done(counts(received: 50, recorded: 1, parked: 49))
        #expect(try stage.catchUp(api, of: store) == report)
        #expect(api.requests.count == 3)
        #expect(try stage.hasAccess(to: "night-owl"))
        let listed = try stage.list()
        #expect(listed.output.split(separator: "\n").count == 50)
        #expect(listed.output.contains("app-store/production/2000000000001000  purchase, reinstatement"), "\(listed)")
        let before = try await stage.versions()
        #expect(try stage.catchUp(api, of: store) == report)
        #expect(try await stage.versions() == before)
    }

    @Test("The histories of customers are read, and an unknown transaction is counted")
    func customers() async throws {
        let store = FakeAppStore(
            [],
            transactions: [
                "2000000000001001": [
                    try stage.transaction("2000000000001001", minutes: 9, token: stage.token),
                    try stage.transaction("2000000000001002", minutes: 8), "not.signed.text",
                ]
            ])
        let api = try store.start()
        try stage.sandbox.write("2000000000001001\n\n2000000000009999\n", to: "customers")
        let options = ["--app-store-transactions", "customers"]
        let outcome = try stage.catchUp(api, of: store, options)
        let report = "received: 4\nrecorded: 1\nparked: 1\nignored: 0\nunknown to the store: 1\nrefused: 1\n  format: 1"
        #expect(outcome.exitCode == 0 && outcome.output.hasPrefix(report), "\(outcome)")
        #expect(try stage.hasAccess(to: "night-owl"))
        let before = try await stage.versions()
        #expect(try stage.catchUp(api, of: store, options) == outcome)
        #expect(try await stage.versions() == before)
    }

    @Test("A store that is not a server's is refused before anything is read")
    func device() throws {
        let store = FakeAppStore([])
        let api = try store.start()
        let outcome = try stage.catchUp(api, of: store, into: "file:phone")
        #expect(outcome == .refused(4, "this store is not that of a server: it has no keys of a server"))
        #expect(api.requests.isEmpty)
    }

    @Test("Errors that pass are retried: Apple's 404 for a retry, a limit of the rate, and a failure")
    func retries() async throws {
        let failures: [Int: [FakeAPI.Answer]] = [
            0: [.error("404 Not Found", 4_040_004, "App not found. Please try again.")],
            1: [FakeAPI.Answer(status: "429 Too Many Requests", fields: "Retry-After: 0\r\n", body: "{}")],
            2: [.error("500 Internal Server Error", 5_000_001, "An unknown error occurred. Please try again.")],
        ]
        let store = FakeAppStore(try entries(), failures: failures)
        let api = try store.start()
        #expect(try stage.catchUp(api, of: store) == .done(counts(received: 50, recorded: 1, parked: 49)))
        #expect(api.requests.count == 6)
    }

    @Test("If the API fails for good, the command says how to go on, and the next run does")
    func failure() async throws {
        let failures: [Int: [FakeAPI.Answer]] = [
            1: [.error("400 Bad Request", 4_000_017, "The pagination token expired.")],
            2: [.error("404 Not Found", 4_040_003, "App not found.")],
        ]
        let store = FakeAppStore(try entries(), failures: failures)
        let api = try store.start()
        let expired = try stage.catchUp(api, of: store)
        #expect(expired.exitCode == 1)
        #expect(expired.output == counts(received: 20, parked: 20) + "\n")
        #expect(
            expired.error.hasPrefix(
                "syncd: Apple does not accept the token of the next page any more (error 4000017: The pagination token "
                    + "expired.); read the period again; what was received is recorded, and changes nothing when you "
                    + "repeat: syncd notifications catch-up --store sqlite:server.sqlite --since "), "\(expired.error)")
        let unknown = try stage.catchUp(api, of: store)
        #expect(unknown.exitCode == 1)
        #expect(unknown.output == counts(received: 40, parked: 40) + "\n")
        #expect(try stage.catchUp(api, of: store) == .done(counts(received: 50, recorded: 1, parked: 49)))
        #expect(try stage.hasAccess(to: "night-owl"))
    }

    @Test("The history of exactly 180 days can be read, and an older start is refused")
    func oldestStart() throws {
        let store = FakeAppStore(try entries())
        let api = try store.start()
        let days: Int64 = 86_400_000
        let oldest = try stage.catchUp(api, of: store, since: stage.now - 180 * days)
        #expect(oldest == .done(counts(received: 50, recorded: 1, parked: 49)))
        let older = try stage.catchUp(api, of: store, since: stage.now - 182 * days)
        #expect(older.exitCode == 2 && older.error.hasPrefix("syncd: Apple keeps notifications for 180 days; "))
    }

    @Test("A wrong key is refused by Apple, and nothing is recorded")
    func wrongKey() async throws {
        let store = FakeAppStore(try entries())
        let api = try store.start()
        let before = try await stage.versions()
        let refused = try stage.catchUp(api, of: store, key: P256.Signing.PrivateKey())
        #expect(refused.exitCode == 1 && refused.error.hasPrefix("syncd: Apple rejects the credentials; check that"))
        #expect(refused.output == counts(received: 0) + "\n")
        #expect(try await stage.versions() == before)
    }

    @Test("Notifications of another app and with forged signatures are counted by their check and change nothing")
    func forgeries() async throws {
        let foreign = try AppStoreFoundry()
        let entries = [
            try stage.notification("1", minutes: 3, token: stage.token, foundry: foreign),
            try stage.notification("2", minutes: 2, token: stage.token, bundle: "com.example.other"),
            FakeAppStore.Entry(date: stage.now - 60_000, payload: "not.signed.text"),
        ]
        let store = FakeAppStore(entries)
        let api = try store.start()
        let before = try await stage.versions()
        let outcome = try stage.catchUp(api, of: store)
        #expect(outcome.exitCode == 4)
        let lines = outcome.output.split(separator: "\n").map { String($0.prefix { $0 != "," }) }
        #expect(
            lines == [
                "received: 3", "recorded: 0", "parked: 0", "ignored: 0", "refused: 3", "  app: 1", "  certificates: 1",
                "  format: 1",
            ])
        #expect(try await stage.versions() == before)
        #expect(try !stage.hasAccess(to: "night-owl"))
    }

    @Test("A server that lies about its pages ends the command with a reason", arguments: Lie.allCases)
    func lies(lie: Lie) async throws {
        let store = FakeAppStore([])
        let payload = try stage.notification("1", minutes: 1).payload
        let api = try FakeAPI { request in
            let page = Int(request.query["paginationToken"]?.dropFirst() ?? "") ?? 0
            return switch lie {
            case .repeatedToken: FakeAppStore.page([payload], next: "p1")
            case .endless: FakeAppStore.page([payload], next: "p\(page + 1)")
            case .oversized: FakeAPI.Answer(body: String(repeating: " ", count: (4 << 20) + 1))
            case .notJSON: FakeAPI.Answer(body: "<html>")
            }
        }
        let before = try await stage.versions()
        let outcome = try stage.catchUp(api, of: store)
        #expect(outcome.exitCode == 1)
        #expect(outcome.error.hasPrefix("syncd: the App Store Server API \(lie.rawValue)"), "\(outcome.error)")
        let after = try await stage.versions()
        let new = after.keys.filter { before[$0] == nil }
        let mayPark = lie == .repeatedToken || lie == .endless
        #expect(new == (mayPark ? ["server/parked/app-store/production/1"] : []))
    }

    enum Lie: String, CaseIterable {
        case repeatedToken = "repeated the token of a page"
        case endless = "sent 16 pages in a row without a new notification"
        case oversized = "answered with more than 4194304 bytes"
        case notJSON = "answered with bytes that are not JSON"
    }
}
