import Crypto
import Foundation
import HTTPTypes
import SyncCore
import SyncServer
import Synchronization
import TestSupport
import Testing

@Suite("Client of the App Store Server API")
struct AppStoreServerTests {
    private struct Claims: Decodable {
        var iss: String
        var iat: Int64
        var exp: Int64
        var aud: String
        var bid: String
    }

    private static let now: Int64 = 1_800_000_000_000
    private let key = P256.Signing.PrivateKey()
    private let manual = ManualHost(seed: 1)

    private func client(_ transport: ScriptedTransport) throws -> AppStoreServerClient {
        var host = manual.host
        host.now = { Self.now }
        return try AppStoreServerClient(
            issuerID: "issuer", keyID: "KEY1", bundleID: "com.example.owls", privateKey: key.pemRepresentation,
            transport: transport, host: host)
    }

    private func read(_ transport: ScriptedTransport) async throws -> [[String]] {
        let pages = Mutex<[[String]]>([])
        try await client(transport).notifications(from: Self.now - 1_000, to: Self.now) { page in
            pages.withLock { $0.append(page) }
        }
        return pages.withLock { $0 }
    }

    @Test("reads all pages of the history with a signed token")
    func notifications() async throws {
        let transport = ScriptedTransport([
            ScriptedTransport.answer(
                200, #"{"hasMore":true,"paginationToken":"a/b","notificationHistory":[{"signedPayload":"1"}]}"#),
            ScriptedTransport.answer(200, #"{"hasMore":false,"notificationHistory":[{"signedPayload":"2"}]}"#),
        ])
        #expect(try await read(transport) == [["1"], ["2"]])
        #expect(
            transport.sent.map(\.line) == [
                "POST /inApps/v1/notifications/history",
                "POST /inApps/v1/notifications/history?paginationToken=a%2Fb",
            ])
        #expect(transport.sent.allSatisfy { $0.body == #"{"startDate":1799999999000,"endDate":1800000000000}"# })
        #expect(transport.sent.first?.request.authority == "api.storekit.itunes.apple.com")
        for sent in transport.sent {
            let token = try SentToken(sent.bearer)
            #expect(token.header == ["alg": "ES256", "kid": "KEY1", "typ": "JWT"])
            let signature = try P256.Signing.ECDSASignature(rawRepresentation: token.signature)
            #expect(key.publicKey.isValidSignature(signature, for: token.signed))
            let claims = try JSONDecoder().decode(Claims.self, from: token.payload)
            #expect(claims.aud == "appstoreconnect-v1" && claims.iss == "issuer" && claims.bid == "com.example.owls")
            #expect(claims.iat == Self.now / 1_000 && claims.exp > claims.iat && claims.exp - claims.iat <= 3_600)
        }
    }

    @Test("reads the transactions of a customer up to the last revision")
    func transactions() async throws {
        let transport = ScriptedTransport([
            ScriptedTransport.answer(200, #"{"hasMore":true,"revision":"r1","signedTransactions":["1","2"]}"#),
            ScriptedTransport.answer(200, #"{"hasMore":false,"revision":"r2","signedTransactions":["3"]}"#),
        ])
        let all = Mutex<[String]>([])
        let last = try await client(transport).transactions(ofCustomerWith: "42") { page in
            all.withLock { $0 += page }
        }
        #expect(last == "r2")
        #expect(all.withLock { $0 } == ["1", "2", "3"])
        #expect(transport.sent.map(\.line) == ["GET /inApps/v2/history/42", "GET /inApps/v2/history/42?revision=r1"])
    }

    @Test("waits until the date that Apple names, and retries")
    func rateLimit() async throws {
        let transport = ScriptedTransport([
            ScriptedTransport.answer(429, "{}", retryAfter: "\(Self.now + 60_000)"),
            ScriptedTransport.answer(200, #"{"hasMore":false}"#),
        ])
        #expect(try await read(transport) == [])
        let pause = try #require(manual.pauses.first)
        #expect(manual.pauses.count == 1 && pause >= .seconds(60) && pause <= .seconds(61))
    }

    @Test(
        "ends with a typed error",
        arguments: [
            (404, #"{"errorCode":4040002}"#, StoreAPIError.Kind.unavailable, 5),
            (404, #"{"errorCode":4040004}"#, .unavailable, 5), (404, #"{"errorCode":4040006}"#, .unavailable, 5),
            (404, #"{"errorCode":4040003}"#, .notFound, 1), (400, #"{"errorCode":4000017}"#, .rejected, 1),
            (401, "{}", .unauthorized, 1), (404, "{}", .notFound, 1), (400, "{}", .rejected, 1),
            (200, "{", .malformed, 1), (200, #"{"hasMore":true}"#, .malformed, 1),
            (200, #"{"hasMore":true,"paginationToken":"t"}"#, .endless, 2), (503, "", .unavailable, 5),
            (429, "", .rateLimited, 5), (200, String(repeating: " ", count: (4 << 20) + 1), .tooLarge, 1),
        ])
    func errors(status: Int, body: String, kind: StoreAPIError.Kind, count: Int) async throws {
        let answers = Array(repeating: ScriptedTransport.answer(status, body), count: 5)
        let transport = ScriptedTransport(answers)
        let error = await #expect(throws: StoreAPIError.self) { try await read(transport) }
        #expect(error?.kind == kind)
        #expect(transport.sent.count == count)
    }

    @Test("moves a start that is older by less than a day to the oldest notification, and refuses an older one")
    func oldestStart() async throws {
        let (day, oldest) = (Int64(86_400_000), Self.now - 180 * 86_400_000)
        for start in [oldest, oldest - day] {
            let transport = ScriptedTransport([ScriptedTransport.answer(200, "{}")])
            try await client(transport).notifications(from: start, to: Self.now) { _ in }
            #expect(
                transport.sent.map(\.body) == [#"{"startDate":\#(oldest + 60_000),"endDate":\#(Self.now)}"#])
        }
        let transport = ScriptedTransport([])
        let error = await #expect(throws: StoreAPIError.self) {
            try await client(transport).notifications(from: oldest - day - 1, to: Self.now) { _ in }
        }
        #expect(error?.kind == .invalidArgument && transport.sent.isEmpty)
    }

    @Test("ends a history whose pages bring nothing new")
    func idlePages() async throws {
        let pages = (0..<40).map {
            ScriptedTransport.answer(
                200,
                #"{"hasMore":true,"paginationToken":"\#($0)","notificationHistory":[{"signedPayload":"same"}]}"#)
        }
        let transport = ScriptedTransport(pages)
        let error = await #expect(throws: StoreAPIError.self) { try await read(transport) }
        #expect(error?.kind == .endless)
        #expect(transport.sent.count == 17)
    }
}
