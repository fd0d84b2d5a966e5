import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Synchronization
import Testing

@testable import SyncService

@Suite("Notifications of Google Play and Stripe")
struct OtherStoreTests {
    private struct PlainPush: PushAuthentication {
        func verify(_ token: String, now: Int64) async throws(TokenRefusal) {
            guard token == "google" else { throw TokenRefusal("it is from another sender") }
        }
    }

    private final class PlainLookup: PlayLookup {
        private let answer = Mutex<String?>(nil)

        func set(_ sale: Sale?) throws {
            let text = try sale.map(StoreMint.jws)
            answer.withLock { $0 = text }
        }

        func answer(_ text: String) { answer.withLock { $0 = text } }

        func subscription(packageName: String, purchaseToken: String) async throws -> [UInt8] {
            guard let text = answer.withLock({ $0 }) else { throw URLError(.timedOut) }
            return Array(text.utf8)
        }

        func product(packageName: String, purchaseToken: String) async throws -> [UInt8] {
            throw URLError(.badURL)
        }

        func acknowledge(
            packageName: String, product: String, purchaseToken: String, isSubscription: Bool
        ) async throws {}
    }

    /// Knows no subscription, and cannot be asked about most.
    private struct EmptyLookup: PlayLookup {
        struct Failure: PlayLookupError {
            var isNotFound: Bool
            var isRejected: Bool { false }
            var isTransient: Bool { false }
        }

        func subscription(packageName: String, purchaseToken: String) async throws -> [UInt8] {
            throw Failure(isNotFound: purchaseToken == "gone")
        }

        func product(packageName: String, purchaseToken: String) async throws -> [UInt8] {
            throw URLError(.badURL)
        }

        func acknowledge(
            packageName: String, product: String, purchaseToken: String, isSubscription: Bool
        ) async throws {}
    }

    private func stripe(
        _ stage: EvidenceStage, _ members: [String: String], signature: String? = "signed"
    ) async throws -> Int {
        var fields: HTTPFields = [.contentType: "application/json"]
        fields[try #require(HTTPField.Name("Stripe-Signature"))] = signature
        let body = Array(try JSONEncoder().encode(members))
        return await stage.service.ask(.post, "/v1/notifications/stripe", fields, body: body).status
    }

    private func month(_ id: String, at date: Int64, token: String? = nil) -> Sale {
        var sale = Sale.month(id, of: "sub", at: date, token: token)
        sale.store = "stripe"
        return sale
    }

    private func isRefunded(_ stage: EvidenceStage, _ sale: Sale) async throws -> Bool {
        try await stage.serverLedger(of: stage.alice).facts(ofLine: sale.line).contains { fact in
            guard case .revocation(let revocation) = fact else { return false }
            return revocation.transaction == sale.reference && revocation.revokedAt != nil
        }
    }

    @Test("A Checkout names the owner, and a refund of a payment ends the period that its invoice paid")
    func checkout() async throws {
        let stage = try await EvidenceStage(.verified) { $0.stripe = PlainStoreVerifier() }
        let token = try #require(await stage.token(of: stage.alice))
        #expect(try await stripe(stage, ["line": "sub", "token": token]) == 200)
        let sale = month("invoice", at: stage.now)
        #expect(try await stripe(stage, ["sale": try StoreMint.jws(sale)]) == 200)
        #expect(await stage.rights(of: stage.alice) == ["owls"])
        #expect(try await stripe(stage, ["intent": "payment", "invoice": "invoice"]) == 200)
        stage.clock.advance(seconds: 60)
        #expect(try await stripe(stage, ["refund": "payment"]) == 200)
        #expect(try await isRefunded(stage, sale))
        #expect(await stage.rights(of: stage.alice).isEmpty)
    }

    @Test("A refund that arrives before everything else waits under its own name and counts in the end")
    func disorder() async throws {
        let stage = try await EvidenceStage(.verified) { $0.stripe = PlainStoreVerifier() }
        let token = try #require(await stage.token(of: stage.alice))
        let sale = month("invoice", at: stage.now, token: nil)
        stage.clock.advance(seconds: 60)
        #expect(try await stripe(stage, ["refund": "payment"]) == 200)
        #expect(try await stripe(stage, ["intent": "payment", "invoice": "invoice"]) == 200)
        #expect(try await stripe(stage, ["sale": try StoreMint.jws(sale)]) == 200)
        #expect(try await stripe(stage, ["line": "sub", "token": token]) == 200)
        #expect(try await isRefunded(stage, sale))
        #expect(try await !stage.store.keys().contains { $0.hasPrefix("server/parked/") })
    }

    @Test("A Checkout with a token that no account has yet gives the line to the account that registers it")
    func checkoutBeforeToken() async throws {
        let stage = try await EvidenceStage(.verified) { $0.stripe = PlainStoreVerifier() }
        let token = "0f8fad5b-d9cb-469f-a165-70867728950e"
        #expect(try await stripe(stage, ["line": "sub", "token": token]) == 200)
        #expect(try await stripe(stage, ["sale": try StoreMint.jws(month("invoice", at: stage.now))]) == 200)
        #expect(await stage.rights(of: stage.alice).isEmpty)
        let registered = await stage.service.ask(
            .post, "/v1/accounts/self/token", token: stage.alice.token, json: ["token": token])
        #expect(registered.status == 204)
        #expect(await stage.rights(of: stage.alice) == ["owls"])
    }

    @Test("An event without a valid signature is refused")
    func forgedEvent() async throws {
        let stage = try await EvidenceStage(.verified) { $0.stripe = PlainStoreVerifier() }
        #expect(try await stripe(stage, ["line": "sub"], signature: "forged") == 400)
        #expect(try await stripe(stage, ["line": "sub"], signature: nil) == 400)
    }

    private func play(_ stage: EvidenceStage, _ members: [String: String], token: String?) async throws -> Int {
        let body = Array(try JSONEncoder().encode(members))
        return await stage.service.ask(
            .post, "/v1/notifications/google-play", token: token, [.contentType: "application/json"], body: body
        ).status
    }

    @Test("A notification of Google Play counts by its look-up, which is repeated until it succeeds")
    func lookup() async throws {
        let lookup = PlainLookup()
        let stage = try await EvidenceStage(.verified) {
            ($0.googlePlay, $0.push, $0.lookup) = (PlainStoreVerifier(), PlainPush(), lookup)
        }
        let token = try #require(await stage.token(of: stage.alice))
        #expect(try await play(stage, ["token": "t"], token: "google") == 503)
        var sale = month("order", at: stage.now, token: token)
        sale.store = "google-play"
        try lookup.set(sale)
        #expect(try await play(stage, ["token": "t"], token: nil) == 401)
        #expect(try await play(stage, ["token": "t"], token: "someone") == 401)
        #expect(await stage.rights(of: stage.alice).isEmpty)
        #expect(try await play(stage, ["token": "t"], token: "google") == 200)
        #expect(await stage.rights(of: stage.alice) == ["owls"])
        #expect(try await play(stage, [:], token: "google") == 200)
    }

    @Test("Without access to Google Play's API, a notification is answered and logged")
    func withoutLookup() async throws {
        let stage = try await EvidenceStage(.verified) {
            ($0.googlePlay, $0.push) = (PlainStoreVerifier(), PlainPush())
        }
        #expect(try await play(stage, ["token": "t"], token: "google") == 200)
        #expect(stage.notes.all.map(\.outcome) == [.notConfigured])
    }

    @Test("A signed purchase of Google Play counts for the account that sends it")
    func playPurchase() async throws {
        let stage = try await EvidenceStage(.verified) { $0.googlePlay = PlainStoreVerifier() }
        var sale = Sale("order", at: stage.now)
        sale.store = "google-play"
        let item = ["kind": "google-play", "data": try StoreMint.jws(sale), "signature": "signed"]
        #expect(await stage.send([item], as: stage.alice).results == ["2"])
        #expect(
            await stage.send([item.merging(["signature": "x"]) { $1 }], as: stage.alice).results == ["evidence-refused"]
        )
        #expect(await stage.rights(of: stage.alice) == ["owl"])
    }

    @Test("Signed events that cannot be used do not block the address of the store")
    func unusableEvents() async throws {
        let stage = try await EvidenceStage(.verified) { $0.stripe = PlainStoreVerifier() }
        for _ in 0..<70 { #expect(try await stripe(stage, ["refused": "no product"]) == 400) }
        #expect(try await stripe(stage, ["line": "sub"]) == 200)
        let note = stage.notes.all.first
        #expect(note?.outcome == .refused && note?.check == .content)
        var statuses: Set<Int> = []
        for _ in 0..<70 { statuses.insert(try await stripe(stage, ["line": "sub"], signature: "forged")) }
        #expect(statuses == [400, 429])
    }

    @Test("Answers of Google Play that cannot be used do not block the address of the store")
    func unusableAnswers() async throws {
        let lookup = PlainLookup()
        let stage = try await EvidenceStage(.verified) {
            ($0.googlePlay, $0.push, $0.lookup) = (PlainStoreVerifier(), PlainPush(), lookup)
        }
        lookup.answer("{}")
        for _ in 0..<70 { #expect(try await play(stage, ["token": "t"], token: "google") == 400) }
        #expect(try await play(stage, [:], token: "google") == 200)
    }

    @Test("A subscription that Google Play does not know is answered, so that it is not sent again")
    func unknownSubscription() async throws {
        let stage = try await EvidenceStage(.verified) {
            ($0.googlePlay, $0.push, $0.lookup) = (PlainStoreVerifier(), PlainPush(), EmptyLookup())
        }
        #expect(try await play(stage, ["token": "gone"], token: "google") == 200)
        #expect(try await play(stage, ["token": "other"], token: "google") == 503)
        #expect(stage.notes.all.map(\.outcome) == [.ignored])
        #expect(stage.notes.all.first?.reason == "Google Play does not know the subscription")
    }
}
