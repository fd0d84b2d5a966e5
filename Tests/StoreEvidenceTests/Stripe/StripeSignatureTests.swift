import Entitlements
import StoreEvidence
import Testing

@Suite("Signatures of Stripe")
struct StripeSignatureTests {
    private let body = StripeStage.event("checkout.session.completed", StripeStage.checkout())

    private func verify(_ signature: String, by verifier: StripeVerifier = StripeStage.verifier) throws -> Int {
        try verifier.event(Array(body.utf8), signature: signature, now: StripeStage.now).facts.count
    }

    @Test("A header that was signed at most five minutes ago is accepted", arguments: [-300, -1, 0, 1, 300])
    func recent(_ delay: Int64) throws {
        #expect(try verify(StripeStage.signature(body, time: StripeStage.seconds + delay)) == 1)
    }

    @Test("A header that was signed more than five minutes ago is refused, and one of the future for now")
    func tooOldOrNew() {
        let old = StripeStage.signature(body, time: StripeStage.seconds - 301)
        StripeStage.expectRefusal(.signedDate, because: "more than 5 minutes before", body, old)
        let new = StripeStage.signature(body, time: StripeStage.seconds + 301)
        StripeStage.expectRefusal(.signedDate, because: "set its clock", isTransient: true, body, new)
    }

    @Test("An event that is created in the future is refused for now")
    func createdLater() {
        let body = StripeStage.event("checkout.session.completed", after: 301, StripeStage.checkout())
        StripeStage.expectRefusal(.signedDate, because: "created", isTransient: true, body)
    }

    @Test("A time that is missing, repeated, or not written as Stripe does is refused")
    func times() {
        let code = StripeStage.code(body)
        StripeStage.expectRefusal(.header, because: "one time t, not 0", body, "v1=\(code)")
        let time = "t=\(StripeStage.seconds)"
        StripeStage.expectRefusal(.header, because: "one time t, not 2", body, "\(time),\(time),v1=\(code)")
        for text in ["", "-1", "+1780000000", "01780000000", "1780000000.0", "9e9", "99999999999999999999"] {
            StripeStage.expectRefusal(
                .signedDate, because: "seconds since 1970, not \"\(text)\"", body, "t=\(text),v1=\(code)")
        }
    }

    @Test("A signature of the scheme v0 alone is refused")
    func onlyV0() {
        let code = StripeStage.code(body)
        StripeStage.expectRefusal(
            .header, because: "1 to 16 signatures v1, not 0", body, "t=\(StripeStage.seconds),v0=\(code)")
    }

    @Test("Any of several v1 signatures may match, and other schemes are ignored")
    func several() throws {
        let time = "t=\(StripeStage.seconds)"
        let (good, bad) = (StripeStage.code(body), StripeStage.code(body, secret: "whsec_other"))
        #expect(try verify("\(time),v1=\(bad),v1=\(good),v0=\(bad)") == 1)
        #expect(try verify("v1=\(good),v2=x,\(time)") == 1)
        StripeStage.expectRefusal(.signature, because: "no v1 signature matches", body, "\(time),v1=\(bad),v0=\(good)")
        let many = String(repeating: ",v1=\(bad)", count: 16)
        StripeStage.expectRefusal(.header, because: "not 17", body, "\(time),v1=\(good)\(many)")
    }

    @Test("A code that is not 64 hexadecimal digits is refused")
    func codes() {
        let code = StripeStage.code(body)
        for text in ["", String(code.dropLast()), code + "0", "g" + code.dropFirst(), "é" + code.dropFirst(2)] {
            StripeStage.expectRefusal(
                .header, because: "64 hexadecimal digits", body, "t=\(StripeStage.seconds),v1=\(text)")
        }
        StripeStage.expectRefusal(.header, because: "must be t=TIME,v1=HEX", body, "")
        let long = String(repeating: ",v9=x", count: 1_000)
        StripeStage.expectRefusal(.header, because: "more than 4096 bytes", body, StripeStage.signature(body) + long)
    }

    @Test("During a rotation both secrets are accepted, and afterwards only the new one")
    func rotation() throws {
        #expect(try verify(StripeStage.signature(body, secret: "whsec_old")) == 1)
        let rotated = StripeVerifier(secrets: [StripeStage.secret])
        #expect(try verify(StripeStage.signature(body), by: rotated) == 1)
        let old = StripeStage.signature(body, secret: "whsec_old")
        StripeStage.expectRefusal(.signature, because: "endpoint's secret", body, old, by: rotated)
    }

    @Test("The secret counts with its prefix")
    func prefix() {
        StripeStage.expectRefusal(.signature, body, StripeStage.signature(body, secret: "test"))
    }

    @Test("Without a secret every event is refused, also one that an empty secret signed")
    func withoutSecret() {
        for secrets in [[], [""]] {
            StripeStage.expectRefusal(
                .signature, because: "no secret is configured", body, StripeStage.signature(body, secret: " "),
                by: StripeVerifier(secrets: secrets))
        }
    }

    @Test("A body that was serialised again is refused")
    func changed() {
        let signature = StripeStage.signature(body)
        StripeStage.expectRefusal(.signature, body.replacing(",", with: ", "), signature)
        StripeStage.expectRefusal(.signature, body + "\n", signature)
        StripeStage.expectRefusal(.signature, body.replacing("\"owl\"", with: "\"gold\""), signature)
    }

    @Test("An event that is larger than its limit is refused before its signature is checked")
    func oversize() throws {
        let room = EvidenceLimits.notification - body.utf8.count
        let full = String(repeating: " ", count: room) + body
        #expect(try StripeStage.verify(full).facts.count == 1)
        StripeStage.expectRefusal(.size, because: "65537 bytes", " " + full, "")
    }
}
