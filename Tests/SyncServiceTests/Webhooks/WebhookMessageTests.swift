import Entitlements
import HTTPTypes
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Messages of webhooks")
struct WebhookMessageTests {
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    private func endpoint(_ members: String, secrets: String = #"["\#(secret)"]"#) throws -> WebhookEndpoint {
        let json = #"[{"name":"crm","secrets":\#(secrets),\#(members)}]"#
        return try #require(try WebhookEndpoint.list(json: Array(json.utf8)).first)
    }

    @Test("A signature is that of the example in the reference libraries of Standard Webhooks")
    func vector() throws {
        let message = WebhookMessage(id: "msg_p5jXN8AQM9LWM0D4loKWxJek", body: Array(#"{"test": 2432232314}"#.utf8))
        let request = message.request(
            to: try endpoint(#""url":"https://crm.example.com/hooks?key=1""#), at: 1_614_265_330_999)
        #expect(request.path == "/hooks?key=1" && request.authority == "crm.example.com" && request.method == .post)
        let names = ["webhook-id", "webhook-timestamp", "webhook-signature", "content-type"]
        let values = try names.map { name in request.headerFields[try #require(HTTPField.Name(name))] }
        #expect(
            values == [
                "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
                "application/json",
            ])
    }

    @Test("While secrets are rotated, there is a signature for each")
    func rotation() throws {
        let next = "whsec_" + Base64.standard.encode((0..<32).map { UInt8($0) })
        let message = WebhookMessage(id: "evt_1", body: Array("{}".utf8))
        func signatures(_ secrets: String) throws -> String? {
            let endpoint = try endpoint(#""url":"https://crm.example.com""#, secrets: secrets)
            return message.request(to: endpoint, at: 0).headerFields[try #require(HTTPField.Name("webhook-signature"))]
        }
        let (old, new) = (try signatures(#"["\#(Self.secret)"]"#), try signatures(#"["\#(next)"]"#))
        #expect(try signatures(#"["\#(next)","\#(Self.secret)"]"#) == "\(new ?? "") \(old ?? "")")
    }

    @Test("The id of an event has its number, and differs if the projection begins again")
    func id() {
        let event = StoredEvent(number: 12, account: "ann", kind: "account.created", at: 1_000, body: "{}")
        #expect(event.webhookID.hasPrefix("evt_12_") && !event.webhookID.contains("."))
        #expect(StoredEvent.number(event.webhookID) == 12 && StoredEvent.number("12") == 12)
        #expect(StoredEvent.number("evt_x") == nil && StoredEvent.number("") == nil)
        var again = event
        again.at = 2_000
        #expect(again.webhookID != event.webhookID)
    }

    @Test("Only the status of an answer counts")
    func results() {
        #expect(DeliveryResult(TransportAnswer(HTTPResponse(status: 204))) == .delivered)
        let gone = DeliveryResult(TransportAnswer(HTTPResponse(status: 410)))
        #expect(gone == .refused("the answer was 410, which asks for no further attempts"))
        let moved = DeliveryResult(TransportAnswer(HTTPResponse(status: 302)))
        #expect(moved == .failed("the answer was 302; redirects are not followed", retryAfter: nil))
        let busy = HTTPResponse(status: 503, headerFields: [.retryAfter: "120"])
        #expect(DeliveryResult(TransportAnswer(busy)) == .failed("the answer was 503", retryAfter: 120_000))
    }

    @Test(
        "A wrong file is refused with the place, and without a secret",
        arguments: [
            (#"{}"#, "an array is expected"), (#"[{"name":"CRM"}]"#, "[0].name: a name must be 1 to 64 of"),
            (#"[{"name":"a"}]"#, "[0].url: this is missing"),
            (#"[{"name":"a","url":"http://x.example/"}]"#, "[0].url: a URL must begin with https://"),
            (#"[{"name":"a","url":"https://me:pw@x.example/"}]"#, "[0].url: a URL of the form"),
            (#"[{"name":"a","url":"ftp://x.example/"}]"#, "[0].url: a URL of the form"),
            (#"[{"name":"a","url":"https://x.example/#a"}]"#, "[0].url: a URL of the form"),
            (#"[{"name":"a","url":"https://x.example","secrets":[]}]"#, "[0].secrets: 1 to 8 secrets"),
            (#"[{"name":"a","url":"https://x.example","secrets":["whsec_c2VjcmV0"]}]"#, "[0].secrets[0]: a secret"),
            (#"[{"name":"a","url":"https://x.example","secrets":["plain-secret"]}]"#, "[0].secrets[0]: a secret"),
            (
                #"[{"name":"a","url":"https://x.example","secrets":["\#(secret)"],"events":["sale"]}]"#,
                "[0].events[0]: there is no event \"sale\""
            ),
            (#"[{"name":"a","urls":1}]"#, "[0].urls: unknown member"),
            (
                #"[{"name":"a","url":"https://x.example","secrets":["\#(secret)"]},"#
                    + #"{"name":"a","url":"https://y.example","secrets":["\#(secret)"]}]"#,
                "[1]: there is another webhook named a"
            ),
        ])
    func wrongFile(json: String, reason: String) {
        let error = #expect(throws: InputError.self) { try WebhookEndpoint.list(json: Array(json.utf8)) }
        let text = error.map { "\($0)" } ?? ""
        #expect(text.hasPrefix(reason), "\(text)")
        #expect(!text.contains("pw@") && !text.contains("plain-secret") && !text.contains("MfKQ"), "\(text)")
    }

    @Test("An endpoint states the addresses to which requests go")
    func networks() throws {
        #expect(try endpoint(#""url":"https://x.example""#).network == .publicOnly)
        #expect(try endpoint(#""url":"https://x.example","allowPrivateAddresses":true"#).network == .any)
        #expect(try endpoint(#""url":"http://[::1]:80/a","allowPrivateAddresses":true"#).network == .privateOnly)
    }
}
