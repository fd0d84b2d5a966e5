import Crypto
import Entitlements
import Foundation

/// A root key: the private key (Ed25519) that signs statements about the keys of servers.
///
/// The file has PKCS #8 in PEM form (RFC 8410), which `openssl pkey` reads too.
struct RootKeyFile {
    /// The DER before the 32 bytes of the key (RFC 8410, section 10.3).
    private static let prefix: [UInt8] = [
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
    ]
    private static let (opening, closing) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----")

    /// The private key.
    let key: Curve25519.Signing.PrivateKey

    /// The public key that apps pin: 32 bytes in base64url.
    var publicText: String { Base64.url.encode(key.publicKey.rawRepresentation) }

    /// Reads the key in the file at `path`.
    static func read(_ path: String) throws -> RootKeyFile {
        let lines = try readText(path).split(whereSeparator: \.isWhitespace.self).joined(separator: " ")
        guard lines.hasPrefix(opening), lines.hasSuffix(closing),
            let der = Base64.standard.decode(
                lines.dropFirst(opening.count).dropLast(closing.count).filter { $0 != " " }.utf8),
            der.starts(with: prefix), der.count == prefix.count + 32,
            let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: der.dropFirst(prefix.count))
        else {
            throw Failure(
                .usage,
                "\(path.singleLine) holds no Ed25519 key in PEM form: create one with syncd keys root --create")
        }
        return RootKeyFile(key: key)
    }

    /// Creates a key in a new file that only its owner can read.
    static func create(_ path: String) throws -> RootKeyFile {
        let key = Curve25519.Signing.PrivateKey()
        let base64 = Base64.standard.encode(prefix + Array(key.rawRepresentation))
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            guard errno != EEXIST else {
                throw Failure(
                    .refused, "\(path.singleLine) exists, and a root key is never overwritten: choose another name")
            }
            throw Failure(.failed, "\(path.singleLine): cannot be created: \(String(cString: strerror(errno)))")
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try file.write(contentsOf: Data("\(opening)\n\(base64)\n\(closing)\n".utf8))
            try file.synchronize()
        } catch {
            // Half a key must not look like one.
            unlink(path)
            throw Failure(.failed, "\(path.singleLine): cannot be written: \(systemReason(of: error))")
        }
        return RootKeyFile(key: key)
    }
}
