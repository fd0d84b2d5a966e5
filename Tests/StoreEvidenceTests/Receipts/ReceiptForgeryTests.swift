import Entitlements
import EvidenceTestSupport
import Testing

@testable import StoreEvidence

@Suite("Forged receipts are refused")
struct ReceiptForgeryTests {
    private static let owl = MintedPurchase("1", "owl", at: "2025-05-01T00:00:00Z")

    private func bytes(_ change: (inout MintedReceipt) -> Void = { _ in }) throws -> [UInt8] {
        try MintedReceipt([Self.owl], change).bytes(by: ReceiptAuthority.valid.get())
    }

    @Test("without a signer and with two signers", arguments: [0, 2])
    func signers(count: Int) {
        ReceiptStage.expectRefusal(.header, "exactly one signer, not \(count)") {
            try ReceiptStage.verify(bytes { $0.signerCount = count })
        }
    }

    @Test("with a changed byte in the content")
    func changedByte() throws {
        var bytes = try bytes()
        let place = try #require(bytes.firstRange(of: Array("owl".utf8)))
        let last = try #require(bytes.ranges(of: Array("owl".utf8)).last)
        #expect(place.lowerBound < last.lowerBound)
        bytes[last.lowerBound] ^= 1
        ReceiptStage.expectRefusal(.signature, "does not match") { try ReceiptStage.verify(bytes) }
    }

    @Test("with an empty signature")
    func strippedSignature() {
        ReceiptStage.expectRefusal(.signature, "does not match") {
            try ReceiptStage.verify(bytes { $0.isStripped = true })
        }
    }

    @Test("with signed attributes")
    func signedAttributes() {
        ReceiptStage.expectRefusal(.header, "signed attributes") {
            try ReceiptStage.verify(bytes { $0.signedAttributes = DERBytes.context(0, []) })
        }
    }

    @Test("with an indefinite length")
    func indefiniteLength() throws {
        let bytes = try bytes()
        let header = 2 + Int(bytes[1] & 0x7F)
        ReceiptStage.expectRefusal(.format, "indefinite length") {
            try ReceiptStage.verify([0x30, 0x80] + bytes[header...] + [0, 0])
        }
    }

    @Test("with a byte after the end")
    func trailingByte() throws {
        let bytes = try bytes() + [0]
        ReceiptStage.expectRefusal(.format, "unexpected bytes after the end of the receipt: 1") {
            try ReceiptStage.verify(bytes)
        }
    }

    @Test("cut off at any length")
    func truncated() throws {
        let bytes = try bytes()
        for length in stride(from: 0, to: bytes.count, by: 7) {
            ReceiptStage.expectRefusal(.format, length == 0 ? "empty" : "cut off") {
                try ReceiptStage.verify(Array(bytes[..<length]))
            }
        }
    }

    @Test("with a length that is not minimal")
    func longLength() throws {
        let bytes = try bytes()
        #expect(bytes[1] == 0x82)
        ReceiptStage.expectRefusal(.format, "not valid DER") {
            try ReceiptStage.verify([0x30, 0x83, 0] + bytes[2...])
        }
    }

    @Test("with a purchase or a value that is not DER")
    func innerEncoding() throws {
        ReceiptStage.expectRefusal(.format, "purchase 1 has an indefinite length") {
            try ReceiptStage.verify(bytes { $0.extra = [(17, [0x31, 0x80, 0, 0])] })
        }
        ReceiptStage.expectRefusal(.format, "unexpected bytes after the end of attribute 21 of the receipt: 1") {
            try ReceiptStage.verify(bytes { $0.extra = [(21, DERBytes.ascii("2025-06-01T12:00:00Z") + [0])] })
        }
    }

    @Test("with a repeated bundle identifier, creation date or unknown attribute", arguments: [2, 12, 3])
    func repeatedAttribute(type: Int) {
        ReceiptStage.expectRefusal(.format, "attribute \(type) of the receipt is repeated") {
            try ReceiptStage.verify(bytes { $0.extra = [(type, DERBytes.ascii("2025-06-01T12:00:00Z"))] })
        }
    }

    @Test("with a repeated attribute in a purchase", arguments: [1701, 1702, 1703, 1704, 1708])
    func repeatedPurchaseAttribute(type: Int) {
        ReceiptStage.expectRefusal(.format, "attribute \(type) of purchase 1 is repeated") {
            try ReceiptStage.verify(bytes { $0.purchases[0].extra = [(type, DERBytes.utf8("2"))] })
        }
    }

    @Test("without a creation date")
    func noDate() {
        ReceiptStage.expectRefusal(.signedDate, "no creation date") {
            try ReceiptStage.verify(bytes { $0.created = nil })
        }
        ReceiptStage.expectRefusal(.signedDate, "no creation date") {
            try ReceiptStage.verify(bytes { $0.created = "" })
        }
    }

    @Test(
        "with a creation date before 1970, after 9999, or that is no date",
        arguments: ["1969-12-31T23:59:59Z", "10000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "yesterday"])
    func invalidDate(text: String) {
        let reason = text.hasPrefix("1969") ? "before 1970" : "is not a date"
        ReceiptStage.expectRefusal(.signedDate, reason) { try ReceiptStage.verify(bytes { $0.created = text }) }
    }

    @Test("created more than five minutes ahead of the clock, for now only")
    func future() throws {
        let bytes = try bytes { $0.created = "2025-06-01T12:05:00.001Z" }
        let reason = "creation date 2025-06-01T12:05:00.001Z is after 2025-06-01T12:00:00"
        ReceiptStage.expectRefusal(.signedDate, reason, isTransient: true) {
            try ReceiptStage.verify(bytes, now: "2025-06-01T12:00:00Z")
        }
        #expect(try ReceiptStage.verify(bytes, now: "2025-06-01T12:00:00.001Z").facts.count == 1)
    }

    @Test("of another device")
    func device() throws {
        let bytes = try bytes()
        #expect(try ReceiptStage.verify(bytes, deviceID: Array(repeating: 7, count: 16)).facts.count == 1)
        ReceiptStage.expectRefusal(.device, "another device") {
            try ReceiptStage.verify(bytes, deviceID: Array(repeating: 8, count: 16))
        }
    }

    @Test("signed with SHA-1 after 24 January 2025")
    func lateSHA1() throws {
        let early = try bytes {
            $0.digest = .sha1
            $0.created = "2025-01-24T23:59:59Z"
        }
        #expect(try ReceiptStage.verify(early).facts.count == 1)
        let late = try bytes {
            $0.digest = .sha1
            $0.created = "2025-01-25T00:00:00Z"
        }
        ReceiptStage.expectRefusal(.header, "SHA-1") { try ReceiptStage.verify(late) }
    }

    @Test("with certificates signed with SHA-1 after 24 January 2025")
    func lateSHA1Certificate() throws {
        let authority = try ReceiptAuthority(.init { $0.usesSHA1 = true })
        ReceiptStage.expectRefusal(.header, "SHA-1") {
            try ReceiptStage.verify(MintedReceipt([Self.owl]), by: authority)
        }
        let early = MintedReceipt([Self.owl]) { $0.created = "2024-06-01T00:00:00Z" }
        #expect(try ReceiptStage.verify(early, by: authority).facts.count == 1)
    }

    @Test("signed with MD5")
    func md5() {
        ReceiptStage.expectRefusal(.header, "SHA-256 or SHA-1") {
            try ReceiptStage.verify(
                bytes {
                    $0.digest = .md5
                    $0.created = "2015-06-01T12:00:00Z"
                })
        }
    }

    @Test("of another app")
    func app() {
        ReceiptStage.expectRefusal(.app, "\"com.example.other\"") {
            try ReceiptStage.verify(bytes { $0.bundleID = "com.example.other" })
        }
        ReceiptStage.expectRefusal(.app, "the receipt names no app (attribute 2)") {
            try ReceiptStage.verify(bytes { $0.bundleID = "" })
        }
    }

    @Test("of Xcode, of an unknown environment, and of none", arguments: ["Xcode", "Production2", nil])
    func environment(name: String?) {
        ReceiptStage.expectRefusal(.environment, name ?? "names no environment (attribute 0)") {
            try ReceiptStage.verify(bytes { $0.environment = name })
        }
    }

    @Test("of the sandbox where only production is accepted")
    func sandbox() throws {
        let bytes = try bytes { $0.environment = "ProductionSandbox" }
        ReceiptStage.expectRefusal(.environment, "ProductionSandbox") {
            try ReceiptStage.verify(bytes, environments: [.production])
        }
    }

    @Test("after their own expiry")
    func expired() {
        ReceiptStage.expectRefusal(.state, "expired at 2025-07-01") {
            try ReceiptStage.verify(bytes { $0.extra = [(21, DERBytes.ascii("2025-07-01T00:00:00Z"))] })
        }
    }

    @Test("after their own expiry by the clock, or by their own creation date")
    func expiredByClock() throws {
        let bytes = try bytes { $0.extra = [(21, DERBytes.ascii("2025-07-01T00:00:00Z"))] }
        let latest = Timestamp.latest.description
        for clock in ["2000-01-01T00:00:00Z", "2025-06-30T23:59:59Z"] {
            #expect(try ReceiptStage.verify(bytes, now: latest, expiryTime: clock).facts.count == 1)
        }
        ReceiptStage.expectRefusal(.state, "expired at 2025-07-01") {
            try ReceiptStage.verify(bytes, now: latest, expiryTime: "2025-07-01T00:00:00Z")
        }
        ReceiptStage.expectRefusal(.state, "expired at 2025-06-01") {
            try ReceiptStage.verify(
                self.bytes { $0.extra = [(21, DERBytes.ascii("2025-06-01T12:00:00Z"))] }, now: latest,
                expiryTime: "2000-01-01T00:00:00Z")
        }
    }

    @Test("with another content type or version")
    func container() {
        ReceiptStage.expectRefusal(.format, "not signedData") {
            try ReceiptStage.verify(
                bytes { $0.contentType = DERBytes.element(6, [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 7, 3]) })
        }
        ReceiptStage.expectRefusal(.format, "must be 1, not 3") { try ReceiptStage.verify(bytes { $0.version = 3 }) }
    }

    @Test("larger than 1 MiB, before they are parsed")
    func oversize() {
        ReceiptStage.expectRefusal(.size, "the receipt has 1048577 bytes, more than 1048576") {
            try ReceiptStage.verify([UInt8](repeating: 0, count: EvidenceLimits.receipt + 1))
        }
    }

    @Test("with more elements than any receipt has")
    func elements() {
        let many = DERBytes.element(0x30, Array(repeating: [5, 0], count: 100_000).flatMap(\.self))
        ReceiptStage.expectRefusal(.size, "more than 65536 elements") { try ReceiptStage.verify(many) }
    }
}
