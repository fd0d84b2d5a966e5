import CryptoExtras
import Foundation
import HTTPTypes
import SyncCore
import SyncServer
import Synchronization
import TestSupport
import Testing

@Suite("Client of the Play Developer API")
struct GooglePlayTests {
    private struct Claims: Decodable {
        var iss: String
        var scope: String
        var aud: String
        var iat: Int64
        var exp: Int64
    }

    private static let granted = ScriptedTransport.answer(
        200, #"{"access_token":"secret","expires_in":3599,"token_type":"Bearer"}"#)
    private static let app = "/androidpublisher/v3/applications/com.example.owls/purchases"
    private let key: _RSA.Signing.PrivateKey

    init() throws { key = try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    private func client(_ transport: ScriptedTransport, now: @escaping @Sendable () -> Int64 = { 1_800_000_000_000 })
        throws -> GooglePlayClient
    {
        let file = [
            "type": "service_account", "client_email": "sync@example.iam", "private_key_id": "K1",
            "private_key": key.pkcs8PEMRepresentation, "token_uri": "https://oauth2.example.com/token",
        ]
        var host = ManualHost(seed: 1).host
        host.now = now
        return try GooglePlayClient(
            serviceAccountJSON: Array(try JSONEncoder().encode(file)), packageName: "com.example.owls",
            transport: transport, host: host)
    }

    @Test("obtains one access token with a signed assertion and uses it until it expires")
    func assertion() async throws {
        let clock = ManualTime(1_800_000_000_000)
        let state = ScriptedTransport.answer(200, #"{"a":1}"#)
        let transport = ScriptedTransport([Self.granted, state, state, Self.granted, state])
        let client = try client(transport, now: { clock.now })
        #expect(
            try await client.subscription(packageName: "com.example.owls", purchaseToken: "t/1")
                == Array(#"{"a":1}"#.utf8))
        _ = try await client.subscription(packageName: "com.example.owls", purchaseToken: "t/1")
        clock.now += 3_600_000
        _ = try await client.subscription(packageName: "com.example.owls", purchaseToken: "t/1")
        let look = "GET \(Self.app)/subscriptionsv2/tokens/t%2F1"
        #expect(transport.sent.map(\.line) == ["POST /token", look, look, "POST /token", look])
        #expect(transport.sent[1].bearer == "secret")
        let prefix = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
        #expect(transport.sent[0].body.hasPrefix(prefix))
        let token = try SentToken(String(transport.sent[0].body.dropFirst(prefix.count)))
        #expect(token.header == ["alg": "RS256", "kid": "K1", "typ": "JWT"])
        #expect(
            key.publicKey.isValidSignature(
                .init(rawRepresentation: token.signature), for: token.signed, padding: .insecurePKCS1v1_5))
        let claims = try JSONDecoder().decode(Claims.self, from: token.payload)
        #expect(claims.iss == "sync@example.iam" && claims.aud == "https://oauth2.example.com/token")
        #expect(claims.scope == "https://www.googleapis.com/auth/androidpublisher")
        #expect(claims.iat == 1_800_000_000 && claims.exp - claims.iat == 3_600)
    }

    @Test("looks up subscriptions of its own app only")
    func package() async throws {
        let transport = ScriptedTransport([Self.granted, ScriptedTransport.answer(200, "{}")])
        let client = try client(transport)
        let error = await #expect(throws: StoreAPIError.self) {
            _ = try await client.subscription(packageName: "com.example.other", purchaseToken: "t")
        }
        #expect(error?.kind == .invalidArgument && transport.sent.isEmpty)
        #expect(
            try await client.subscription(packageName: "com.example.owls", purchaseToken: "t") == Array("{}".utf8))
    }

    @Test("looks up one-time products, and acknowledges for a server what it recorded, of its own app only")
    func server() async throws {
        let done = ScriptedTransport.answer(204, "")
        let transport = ScriptedTransport([Self.granted, ScriptedTransport.answer(200, "{}"), done, done])
        let client = try client(transport)
        let app = "com.example.owls"
        #expect(try await client.product(packageName: app, purchaseToken: "t/1") == Array("{}".utf8))
        for isSubscription in [true, false] {
            try await client.acknowledge(
                packageName: app, product: "pro", purchaseToken: "t", isSubscription: isSubscription)
        }
        #expect(
            transport.sent.map(\.line).dropFirst() == [
                "GET \(Self.app)/productsv2/tokens/t%2F1", "POST \(Self.app)/subscriptions/pro/tokens/t:acknowledge",
                "POST \(Self.app)/products/pro/tokens/t:acknowledge",
            ])
        let error = await #expect(throws: StoreAPIError.self) {
            try await client.acknowledge(
                packageName: "com.example.other", product: "pro", purchaseToken: "t", isSubscription: true)
        }
        #expect(error?.kind == .invalidArgument && transport.sent.count == 4)
    }

    @Test("reads all pages of voided purchases and stops at a repeated page token")
    func voided() async throws {
        let item = #"{"purchaseToken":"p","orderId":"o","purchaseTimeMillis":"5","voidedTimeMillis":"7"}"#
        let page = ScriptedTransport.answer(
            200, #"{"voidedPurchases":[\#(item)],"tokenPagination":{"nextPageToken":"n"}}"#)
        let last = ScriptedTransport.answer(200, #"{"voidedPurchases":[\#(item)]}"#)
        let transport = ScriptedTransport([Self.granted, page, last])
        let dates = Mutex<[Int64]>([])
        try await client(transport).voidedPurchases(since: 3) { page in
            dates.withLock { $0 += page.map(\.voidedAt) }
        }
        #expect(dates.withLock { $0 } == [7, 7])
        let line = "GET \(Self.app)/voidedpurchases?startTime=3&type=1"
        #expect(transport.sent.map(\.line).dropFirst() == [line, line + "&token=n"])
        let endless = try client(ScriptedTransport([Self.granted, page, page]))
        let error = await #expect(throws: StoreAPIError.self) { try await endless.voidedPurchases(since: 3) { _ in } }
        #expect(error?.kind == .endless)
    }

    @Test("replaces a rejected access token once")
    func rejectedToken() async throws {
        let rejected = ScriptedTransport.answer(401, "{}")
        let transport = ScriptedTransport([Self.granted, rejected, Self.granted, rejected])
        let error = await #expect(throws: StoreAPIError.self) {
            _ = try await client(transport).subscription(packageName: "com.example.owls", purchaseToken: "t")
        }
        #expect(error?.kind == .unauthorized)
        #expect(transport.sent.count == 4)
    }

    @Test("says that a subscription is unknown", arguments: [404, 410, 400])
    func unknownSubscription(status: Int) async throws {
        let transport = ScriptedTransport([Self.granted, ScriptedTransport.answer(status, "{}")])
        let error = await #expect(throws: StoreAPIError.self) {
            _ = try await client(transport).subscription(packageName: "com.example.owls", purchaseToken: "t")
        }
        #expect(error?.isNotFound == (status != 400))
    }

    private final class ManualTime: Sendable {
        private let value: Mutex<Int64>
        var now: Int64 {
            get { value.withLock { $0 } }
            set { value.withLock { $0 = newValue } }
        }
        init(_ now: Int64) { value = Mutex(now) }
    }
}
