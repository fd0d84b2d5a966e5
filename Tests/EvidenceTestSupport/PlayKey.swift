import Crypto
import CryptoExtras
import Foundation

/// A key with which Google Play signs the purchases of an app.
package struct PlayKey: Sendable {
    /// A key that is made once for each process.
    package static let shared = Result { try PlayKey() }

    private let key: _RSA.Signing.PrivateKey

    /// Makes a key.
    package init() throws { key = try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    /// The public key as the Play Console shows it.
    package var publicKey: String { key.publicKey.derRepresentation.base64EncodedString() }

    /// The signature of the data of a purchase, in base64.
    package func signature(of data: String) throws -> String {
        try key.signature(for: Insecure.SHA1.hash(data: Data(data.utf8)), padding: .insecurePKCS1v1_5)
            .rawRepresentation.base64EncodedString()
    }
}
