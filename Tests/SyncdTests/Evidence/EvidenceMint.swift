import Crypto
import CryptoExtras
import EvidenceTestSupport
import Foundation

/// Evidence for the tutorial app, as stores sign it, and the files that verify it.
struct EvidenceMint {
    static let bundle = "com.example"
    static let package = "com.example.owl"

    let sandbox: Sandbox
    private static let playKey = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    /// Writes the root certificates to `roots.pem` and the key of Google Play to `play.key`.
    init(_ sandbox: Sandbox) throws {
        self.sandbox = sandbox
        let roots = try AppStoreFoundry.valid.get().roots + Array("\n".utf8) + ReceiptAuthority.valid.get().roots
        try sandbox.write(roots, to: "roots.pem")
        try sandbox.write(
            try Self.playKey.get().publicKey.derRepresentation.base64EncodedString() + "\n", to: "play.key")
    }

    /// Writes a transaction of a product that is owned for good.
    func writeTransaction(
        _ name: String, _ id: String, product: String = Owls.night, environment: String = "Production",
        _ fields: SignedFields = [:], _ change: (inout SignedText) -> Void = { _ in }
    ) throws {
        let sale: SignedFields = [
            "transactionId": .text(id), "productId": .text(product), "environment": .text(environment),
            "type": "Non-Consumable", "expiresDate": nil, "subscriptionGroupIdentifier": nil,
        ]
        try sandbox.write(
            try AppStoreFoundry.valid.get().transaction(sale.replacing(with: fields), change) + "\n", to: name)
    }

    func writeReceipt(_ name: String, _ purchases: [MintedPurchase], environment: String = "Production") throws {
        let receipt = MintedReceipt(purchases) { receipt in
            receipt.bundleID = Self.bundle
            receipt.environment = environment
        }
        try sandbox.write(try receipt.bytes(by: try ReceiptAuthority.valid.get()), to: name)
    }

    func writePlayPurchase(_ name: String, state: Int = 0, package: String = package) throws {
        let data =
            #"{"orderId":"GPA.1-2","packageName":"\#(package)","productId":"\#(Owls.night)","#
            + #""purchaseTime":1779999000000,"purchaseState":\#(state),"purchaseToken":"token"}"#
        let signature = try Self.playKey.get().signature(
            for: Insecure.SHA1.hash(data: Data(data.utf8)), padding: .insecurePKCS1v1_5
        ).rawRepresentation.base64EncodedString()
        let object = try JSONSerialization.data(withJSONObject: ["data": data, "signature": signature])
        try sandbox.write(Array(object), to: name)
    }
}
