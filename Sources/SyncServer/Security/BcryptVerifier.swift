import SyncService

#if canImport(CCrypt)
import CCrypt
#endif

extension BcryptHash {
    /// True if this system can verify such hashes. Only Linux has libcrypt with bcrypt.
    static var isSupported: Bool {
        #if canImport(CCrypt)
        true
        #else
        false
        #endif
    }

    /// Returns `true` if the hash is that of `password`. Takes the time that the cost demands, also for a wrong one.
    ///
    /// bcrypt reads 72 bytes of a password. A password with a zero byte, at which bcrypt would end, is never right.
    ///
    /// - Throws: ``CryptographyError`` if libcrypt fails or is missing.
    func matches(_ password: [UInt8]) throws(CryptographyError) -> Bool {
        #if canImport(CCrypt)
        var phrase = Array(password.prefix(Self.passwordByteCount)) + [0]
        defer { phrase.withUnsafeMutableBytes { ccrypt_wipe($0.baseAddress, $0.count) } }
        // The systems that write $2a$ and $2y$ compute what OpenBSD calls $2b$. libcrypt treats $2a$ differently for
        // passwords that an old bug of its own affected.
        let setting = "$2b$\(cost < 10 ? "0" : "")\(cost)$\(salt)"
        var result = [CChar](repeating: 0, count: 64)
        let code = phrase.withUnsafeBytes { bytes in
            ccrypt_hash(bytes.baseAddress?.assumingMemoryBound(to: CChar.self), setting, &result, result.count)
        }
        guard code == 0 else { throw CryptographyError("libcrypt cannot compute a bcrypt hash (error \(code))") }
        let hash = result.prefix { $0 != 0 }.map(UInt8.init(bitPattern:))
        let isEqual = Array(hash.suffix(digest.utf8.count)).isEqual(toSecret: Array(digest.utf8))
        return isEqual && !password.contains(0)
        #else
        throw CryptographyError(
            "bcrypt hashes can be verified on Linux only; run this server there, or give the user a recovery code",
            isPermanent: true)
        #endif
    }
}
