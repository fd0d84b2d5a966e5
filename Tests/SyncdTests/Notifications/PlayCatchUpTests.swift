import CryptoExtras
import Foundation
import TestSupport
import Testing

@Suite("syncd notifications catch-up with Google Play, and the look-up of the server")
struct PlayCatchUpTests {
    @Test("Subscriptions are looked up, the account of the token owns them, and a second run changes nothing")
    func lookup() async throws {
        let stage = try NotificationStage()
        let play = try FakePlay([
            "token.alice": FakePlay.subscription(
                "GPA.1-1", expiry: "2030-01-01T00:00:00Z", token: stage.token, product: Owls.night),
            "token.unowned": FakePlay.subscription(
                "GPA.2-2", expiry: "2030-01-01T00:00:00Z", token: nil, product: Owls.night),
            "token.pending": FakePlay.subscription(
                "GPA.3-3", expiry: "2030-01-01T00:00:00Z", token: nil, state: "SUBSCRIPTION_STATE_PENDING"),
            "token.broken": "{}",
        ])
        let api = try play.start()
        let tokens = ["token.alice", "token.unowned", "token.pending", "token.broken", "token.gone"]
        let report = """
            received: 5
            recorded: 1
            parked: 1
            ignored: 1
            unknown to the store: 1
            refused: 1
              content: 1, the first because subscriptionState
            """
        let outcome = try stage.catchUp(api, of: play, tokens: tokens)
        #expect(outcome.exitCode == 0 && outcome.output.hasPrefix(report), "\(outcome)")
        #expect(api.requests.filter { $0.path == "/token" }.count == 1)
        #expect(try stage.hasAccess(to: "night-owl"))
        let listed = try stage.list(" --json")
        #expect(listed.output.contains(#""transactionID": "GPA.2-2/\#(Owls.night)""#), "\(listed)")
        let before = try await stage.versions()
        #expect(try stage.catchUp(api, of: play, tokens: tokens).exitCode == 0)
        #expect(try await stage.versions() == before)
        play.set(
            FakePlay.subscription(
                "GPA.1-1", expiry: "2026-11-02T00:00:00Z", token: stage.token, state: "SUBSCRIPTION_STATE_EXPIRED",
                product: Owls.night), for: "token.alice")
        #expect(try stage.catchUp(api, of: play, tokens: ["token.alice"]).output.contains("recorded: 1"))
        #expect(try await stage.versions() != before)
    }

    @Test("A one-time product is looked up by the same list, and acknowledged by a repetition after a failure")
    func product() async throws {
        let stage = try NotificationStage()
        let play = try FakePlay([:])
        play.set(
            product: """
                {"kind":"androidpublisher#productPurchaseV2","orderId":"GPA.7-7",\
                "purchaseStateContext":{"purchaseState":"PURCHASED"},"purchaseCompletionTime":"2026-11-01T00:00:00Z",\
                "obfuscatedExternalAccountId":"\(stage.token)","acknowledgementState":"ACKNOWLEDGEMENT_STATE_PENDING",\
                "productLineItem":[{"productId":"\(Owls.night)","productOfferDetails":{"quantity":1}}]}
                """, for: "token.night")
        play.refuse(true)
        let api = try play.start()
        let failed = try stage.catchUp(api, of: play, tokens: ["token.night"])
        let reason = "a purchase of \(Owls.night) cannot be acknowledged: the Play Developer API answered 409"
        #expect(
            failed.output
                == "received: 1\nrecorded: 1\nparked: 0\nignored: 0\n"
                + "not acknowledged: 1, the first because \(reason)\nrefused: 0\n", "\(failed)")
        #expect(failed.exitCode == 1)
        #expect(
            failed.error.hasPrefix(
                "syncd: 1 of the recorded purchases could not be acknowledged, and Google refunds what is not "
                    + "acknowledged within three days; correct the cause, and repeat the command: \(reason)"))
        #expect(try stage.hasAccess(to: "night-owl"))
        let before = try await stage.versions()
        play.refuse(false)
        let outcome = try stage.catchUp(api, of: play, tokens: ["token.night"])
        #expect(outcome.exitCode == 0 && outcome.output.hasPrefix("received: 1\nrecorded: 1"), "\(outcome)")
        #expect(try await stage.versions() == before)
        let path = "/androidpublisher/v3/applications/com.example/purchases/products/\(Owls.night)/tokens/token.night"
        #expect(api.requests.filter { $0.path == path + ":acknowledge" }.count == 2)
    }

    @Test("Refunds of the last 30 days are read without tokens, and a second run changes nothing")
    func refunds() async throws {
        let stage = try NotificationStage()
        let days: Int64 = 86_400_000
        let play = try FakePlay(
            [
                "token.alice": FakePlay.subscription(
                    "GPA.1-1", expiry: "2030-01-01T00:00:00Z", token: stage.token, product: Owls.night)
            ],
            refunds: [
                ("GPA.0-0", stage.now - 40 * days), ("GPA.9-9", stage.now - 2 * days), ("GPA.1-1", stage.now - days),
            ])
        let api = try play.start()
        #expect(try stage.catchUp(api, of: play, tokens: ["token.alice"]).output.contains("recorded: 2\nparked: 1"))
        #expect(try !stage.hasAccess(to: "night-owl"))
        let before = try await stage.versions()
        let again = try stage.catchUp(api, of: play, tokens: nil, days: 45)
        #expect(again.exitCode == 0 && again.output.contains("received: 2\nrecorded: 1\nparked: 1"), "\(again)")
        let notice = "syncd: Google Play lists the refunds of the last 30 days only, so earlier ones are not read\n"
        #expect(again.error == notice)
        #expect(try await stage.versions() == before)
    }

    @Test("A service account that Google rejects ends the command, and nothing is recorded")
    func rejected() async throws {
        let stage = try NotificationStage()
        let (play, other) = (try FakePlay([:]), try FakePlay([:]))
        let api = try play.start()
        let before = try await stage.versions()
        let outcome = try stage.catchUp(api, of: other, tokens: ["token"])
        #expect(outcome.exitCode == 1)
        #expect(outcome.error.hasPrefix("syncd: Google rejects the service account \(FakePlay.account)"), "\(outcome)")
        #expect(try await stage.versions() == before)
    }

    @Test("A server starts with a service account, and refuses a file that is none")
    func serve() throws {
        let play = try FakePlay([:])
        let api = try play.start()
        let options = ["--play-package", FakePlay.package, "--play-key", "play.key", "--play-service-account"]
        func prepare(_ sandbox: Sandbox) throws {
            try sandbox.write(play.key.publicKey.derRepresentation.base64EncodedString(), to: "play.key")
            try sandbox.write(try play.keyFile(api), to: "account.json")
            try sandbox.write("{}", to: "wrong.json")
            for name in ["account.json", "wrong.json"] {
                try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: sandbox.path(name))
            }
        }
        let sandbox = try Sandbox()
        try prepare(sandbox)
        let server = try ServerProcess(
            store: "memory:",
            options: options.map { $0 == "play.key" ? sandbox.path($0) : $0 } + [sandbox.path("account.json")])
        #expect(server.stop() == 0)
        let refused = try sandbox.run(["serve", "--store", "memory:"] + options + ["wrong.json"])
        #expect(refused.exitCode == 2)
        #expect(
            refused.error.hasPrefix(
                "syncd: --play-service-account: wrong.json: the service account must be the JSON key file"))
    }
}
