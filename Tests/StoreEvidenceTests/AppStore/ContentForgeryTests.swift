import Entitlements
import EvidenceTestSupport
import Testing

@testable import StoreEvidence

@Suite("Signed data with a wrong date, of another kind, app or environment is refused")
struct ContentForgeryTests {
    private let foundry: AppStoreFoundry

    init() throws { foundry = try AppStoreFoundry.valid.get() }

    private func expectRefusal(
        _ check: EvidenceError.Check, _ text: String, isTransient: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation, _ fields: SignedFields
    ) throws {
        try AppStoreStage.expectRefusal(
            check, text, fields: fields, isTransient: isTransient, sourceLocation: sourceLocation
        ) { _ in }
    }

    @Test("A missing signedDate, in all kinds of signed data")
    func signedDateMissing() throws {
        try expectRefusal(.signedDate, "no signedDate", ["signedDate": nil])
        try expectRefusal(.signedDate, "no signedDate", ["signedDate": .json("null")])
        AppStoreStage.expectRefusal(.signedDate, "no signedDate") {
            try AppStoreStage.renewal(foundry.renewal(["signedDate": nil]))
        }
        AppStoreStage.expectRefusal(.signedDate, "no signedDate") {
            try AppStoreStage.notification(foundry.notification("TEST", fields: ["signedDate": nil]))
        }
    }

    @Test(
        "A signedDate that is negative, after the year 9999, or no date",
        arguments: [
            "-1", "-1748779200000", "253402300800000", "9223372036854775807", "9223372036854775808", "1e300", "1e999",
            "-0.5", "\"\"", "\"soon\"", "\"-1\"", "true", "[]", "{}", "99999999999999999999999999999",
        ])
    func signedDateOutOfRange(_ json: String) throws {
        try expectRefusal(.signedDate, "", ["signedDate": .json(json)])
    }

    @Test("A signedDate ahead of the clock is refused for now, and accepted within 5 minutes")
    func signedDateAhead() throws {
        let limit = AppStoreStage.now + 300_000
        let jws = try foundry.transaction(["signedDate": .number(limit + 1)])
        AppStoreStage.expectRefusal(.signedDate, "after", isTransient: true) { try AppStoreStage.transaction(jws) }
        #expect(try AppStoreStage.transaction(jws, now: AppStoreStage.now + 1).facts.count == 2)
        #expect(try AppStoreStage.transaction(foundry.transaction(["signedDate": .number(limit)])).facts.count == 2)
        try expectRefusal(.signedDate, "after", isTransient: true, ["signedDate": .date(.latest)])
    }

    @Test("The date is refused before any certificate is read")
    func signedDateBeforeCertificates() throws {
        try AppStoreStage.expectRefusal(.signedDate, "1970 to 9999", fields: ["signedDate": -1]) { text in
            text.certificates = [[], [], []]
        }
    }

    @Test("A signedDate of 1970, before all certificates")
    func signedDateZero() throws { try expectRefusal(.certificates, "not valid at 1970", ["signedDate": 0]) }

    @Test("Another app")
    func app() throws {
        let names = ["com.example.wrong", "com.exampl", "COM.EXAMPLE", "com.example ", "com.example\u{0}", "*"]
        for name in names { try expectRefusal(.app, "not one of the configured", ["bundleId": .text(name)]) }
        try expectRefusal(.content, "bundleId", ["bundleId": nil])
        try expectRefusal(.content, "bundleId", ["bundleId": ""])
        try expectRefusal(.content, "bundleId", ["bundleId": .json("[\"com.example\"]")])
    }

    @Test("Another environment")
    func environment() throws {
        try expectRefusal(.environment, "xcode", ["environment": "Xcode"])
        try expectRefusal(.environment, "xcode", ["environment": "LocalTesting"])
        for name in ["sandbox", "PRODUCTION", "Staging"] {
            try expectRefusal(.environment, "unknown", ["environment": .text(name)])
        }
        try expectRefusal(.content, "environment", ["environment": nil])
        let (sandbox, production) = (
            try foundry.transaction(), try foundry.transaction(["environment": "Production"])
        )
        let now = Timestamp(milliseconds: AppStoreStage.now)
        AppStoreStage.expectRefusal(.environment, "sandbox") {
            try AppStoreStage.verifier(environments: [.production]).transaction(sandbox, now: now)
        }
        AppStoreStage.expectRefusal(.environment, "production") {
            try AppStoreStage.verifier(environments: [.sandbox]).transaction(production, now: now)
        }
        AppStoreStage.expectRefusal(.environment, "sandbox") {
            try AppStoreStage.verifier(environments: [.production]).renewal(foundry.renewal(), now: now)
        }
    }

    @Test("A renewal info or notification that is sent as a transaction")
    func asTransaction() throws {
        let renewal = try foundry.renewal()
        AppStoreStage.expectRefusal(.kind, "not a transaction") { try AppStoreStage.transaction(renewal) }
        let notification = try foundry.notification("DID_RENEW", transaction: [:])
        AppStoreStage.expectRefusal(.kind, "not a transaction") { try AppStoreStage.transaction(notification) }
        // All members of a transaction, and one that only the other kind has.
        try expectRefusal(.kind, "not a transaction", ["autoRenewStatus": 1])
        try expectRefusal(.kind, "not a transaction", ["notificationType": "DID_RENEW"])
    }

    @Test("A transaction or notification that is sent as a renewal info")
    func asRenewal() throws {
        let texts = [
            try foundry.transaction(), try foundry.notification("DID_RENEW", renewal: [:]),
            try foundry.renewal(["transactionId": "1"]), try foundry.renewal(["notificationType": "DID_RENEW"]),
            try foundry.renewal(["autoRenewStatus": nil]),
        ]
        for jws in texts {
            AppStoreStage.expectRefusal(.kind, "not a renewal info") { try AppStoreStage.renewal(jws) }
        }
    }

    @Test("A transaction or renewal info that is sent as a notification, and one within the other's member")
    func asNotification() throws {
        let (transaction, renewal) = (try foundry.transaction(), try foundry.renewal())
        for jws in [transaction, renewal] {
            AppStoreStage.expectRefusal(.kind, "not a notification") { try AppStoreStage.notification(jws) }
        }
        let exchanged: [SignedFields] = [
            ["signedTransactionInfo": .text(renewal)], ["signedRenewalInfo": .text(transaction)],
        ]
        for data in exchanged {
            let jws = try foundry.notification("DID_CHANGE_RENEWAL_STATUS", data: data)
            AppStoreStage.expectRefusal(.kind, "this is not a") { try AppStoreStage.notification(jws) }
        }
    }

    @Test("A body of a request without a signed payload")
    func requestBody() throws {
        let bodies = [
            "", "{}", "[]", "{\"signedPayload\":\"\"}", "{\"signedPayload\":null}", "{\"unified_receipt\":{}}",
        ]
        for body in bodies {
            AppStoreStage.expectRefusal(.format, "") {
                try AppStoreStage.verifier().notification(
                    Array(body.utf8), now: Timestamp(milliseconds: AppStoreStage.now))
            }
        }
        let payload = try foundry.notification("TEST")
        let repeated = "{\"signedPayload\":\"\(payload)\",\"signedPayload\":\"\(payload)\"}"
        AppStoreStage.expectRefusal(.format, "JSON") {
            try AppStoreStage.verifier().notification(
                Array(repeated.utf8), now: Timestamp(milliseconds: AppStoreStage.now))
        }
    }

    @Test("A notification of another app, or of another of Apple's app ids in production")
    func notificationApp() throws {
        let other = try foundry.notification("TEST", data: ["bundleId": "com.example.wrong"])
        AppStoreStage.expectRefusal(.app, "com.example.wrong") { try AppStoreStage.notification(other) }
        let signed = #expect(throws: EvidenceError.self) { try AppStoreStage.notification(other) }
        #expect(signed?.isAuthenticated == true)
        let cut = #expect(throws: EvidenceError.self) { try AppStoreStage.notification(String(other.dropLast(4))) }
        #expect(cut?.isAuthenticated == false)
        for id: SignedField? in [4321, nil] {
            let jws = try foundry.notification("TEST", data: ["environment": "Production", "appAppleId": id])
            AppStoreStage.expectRefusal(.app, "not 1234") { try AppStoreStage.notification(jws) }
        }
        let valid = try foundry.notification("TEST", data: ["environment": "Production"])
        #expect(try AppStoreStage.notification(valid).facts == [])
        AppStoreStage.expectRefusal(.app, "must be configured") {
            try AppStoreStage.verifier(appAppleID: nil).notification(
                signedPayload: valid, now: Timestamp(milliseconds: AppStoreStage.now))
        }
        // The sandbox has no such id.
        let sandbox = try foundry.notification("TEST", data: ["appAppleId": nil])
        #expect(try AppStoreStage.notification(sandbox).facts == [])
    }

    @Test("A notification of production names the id of its own app, if there are several")
    func severalApps() throws {
        let verifier = AppStoreVerifier(
            bundleIDs: ["com.example", "com.example.second", "com.example.third"],
            appAppleIDs: ["com.example": 1234, "com.example.second": 5678],
            roots: try EvidenceRoots(pem: foundry.roots))
        func verify(_ bundle: String, _ id: Int64) throws -> VerifiedEvidence {
            let data: SignedFields = [
                "bundleId": .text(bundle), "environment": "Production", "appAppleId": .number(id),
            ]
            return try verifier.notification(
                signedPayload: foundry.notification("TEST", data: data),
                now: Timestamp(milliseconds: AppStoreStage.now))
        }
        for (bundle, id): (String, Int64) in [("com.example", 1234), ("com.example.second", 5678)] {
            #expect(try verify(bundle, id).event == "TEST")
        }
        AppStoreStage.expectRefusal(.app, "of com.example.second is for Apple's app id 1234, not 5678") {
            try verify("com.example.second", 1234)
        }
        AppStoreStage.expectRefusal(.app, "Apple's id of the app com.example.third must be configured") {
            try verify("com.example.third", 1234)
        }
    }

    @Test("A transaction of another app within a notification")
    func innerApp() throws {
        let jws = try foundry.notification("DID_RENEW", transaction: ["bundleId": "com.example.wrong"])
        AppStoreStage.expectRefusal(.app, "another app") { try AppStoreStage.notification(jws) }
        // Both apps are configured, but they differ.
        let verifier = AppStoreVerifier(
            bundleIDs: ["com.example", "com.example.wrong"], roots: try EvidenceRoots(pem: foundry.roots))
        AppStoreStage.expectRefusal(.app, "another app") {
            try verifier.notification(signedPayload: jws, now: Timestamp(milliseconds: AppStoreStage.now))
        }
    }

    @Test("A transaction or renewal info of another environment within a notification")
    func innerEnvironment() throws {
        let transaction = try foundry.notification(
            "DID_CHANGE_RENEWAL_STATUS", transaction: ["environment": "Production"])
        let renewal = try foundry.notification("DID_CHANGE_RENEWAL_STATUS", renewal: ["environment": "Production"])
        for jws in [transaction, renewal] {
            AppStoreStage.expectRefusal(.environment, "another environment") { try AppStoreStage.notification(jws) }
        }
    }

    @Test("A renewal info of another subscription within a notification")
    func innerLine() throws {
        let jws = try foundry.notification(
            "DID_RENEW", transaction: [:], renewal: ["originalTransactionId": "2000000000000002"])
        AppStoreStage.expectRefusal(.content, "another subscription") { try AppStoreStage.notification(jws) }
    }

    @Test("A forged transaction or renewal info within a notification that is signed well")
    func innerForgery() throws {
        let other = try AppStoreFoundry()
        for data: SignedFields in [
            ["signedTransactionInfo": .text(try other.transaction())],
            ["signedRenewalInfo": .text(try other.renewal())],
        ] {
            let jws = try foundry.notification("DID_CHANGE_RENEWAL_STATUS", data: data)
            AppStoreStage.expectRefusal(.certificates, "pinned root") { try AppStoreStage.notification(jws) }
        }
        let outer = try other.notification("DID_RENEW", transaction: [:])
        AppStoreStage.expectRefusal(.certificates, "pinned root") { try AppStoreStage.notification(outer) }
    }

    @Test("Missing and invalid fields of a transaction")
    func transactionFields() throws {
        try expectRefusal(.kind, "no transactionId", ["transactionId": nil])
        for name in ["productId", "purchaseDate", "expiresDate"] {
            var fields: SignedFields = [:]
            fields[name] = nil
            try expectRefusal(.content, name, fields)
        }
        try expectRefusal(.content, "quantity", ["quantity": 0])
        try expectRefusal(.content, "quantity", ["quantity": 10_001])
        try expectRefusal(.content, "transactionId", ["transactionId": "a\u{0}b"])
        try expectRefusal(.content, "productId", ["productId": .text(String(repeating: "x", count: 5_000))])
        try expectRefusal(.content, "revocationDate", ["revocationDate": "soon"])
        try expectRefusal(.content, "1970 to 9999", ["expiresDate": .json("253402300800000")])
    }
}
