import Crypto
import CryptoExtras
import NIOPosix
public import SyncService
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Hashes of passwords by scrypt (RFC 7914), as text: `$scrypt$ln=17,r=8,p=1$SALT$HASH`, salt and hash in base64
/// without padding.
///
/// Each hash needs `128 · r · 2^ln` bytes and keeps a core busy, so they run on a few threads of their own, and no more
/// wait for them than can be served before their senders give up.
public final class PasswordHashing: Sendable {
    /// What a hash costs.
    public struct Cost: Hashable, Sendable {
        /// The logarithm to base 2 of the number of rounds: 4 to 20.
        public var logarithm = 17
        /// The size of a block, in units of 128 bytes: 1 to 32.
        public var blockSize = 8
        /// How often all of it is done: 1 to 16.
        public var parallelism = 1

        /// The parameters that OWASP recommends for scrypt: 2^17 rounds, blocks of 8, once; 128 MiB a hash.
        public init() {}

        /// The same with 2^`logarithm` rounds.
        public init(logarithm: Int) { self.logarithm = logarithm }

        init?(_ text: Substring) {
            var values: [Substring: Int] = [:]
            for part in text.split(separator: ",", omittingEmptySubsequences: false) {
                let halves = part.split(separator: "=", omittingEmptySubsequences: false)
                guard halves.count == 2, let value = Int(halves[1]), values.updateValue(value, forKey: halves[0]) == nil
                else { return nil }
            }
            guard values.count == 3, let logarithm = values["ln"], let blockSize = values["r"],
                let parallelism = values["p"], (4...20).contains(logarithm), (1...32).contains(blockSize),
                (1...16).contains(parallelism)
            else { return nil }
            (self.logarithm, self.blockSize, self.parallelism) = (logarithm, blockSize, parallelism)
        }

        var text: String { "ln=\(logarithm),r=\(blockSize),p=\(parallelism)" }
        var byteCount: Int { (128 * blockSize) << logarithm }
    }

    private static let saltByteCount = 16
    private static let hashByteCount = 32
    /// The longest that is hashed. The service refuses longer passwords before.
    private static let passwordByteCount = 4_096

    private let cost: Cost
    private let threads: NIOThreadPool
    private let queueLength: Int
    private let underway = Mutex(0)

    /// Hashes of `cost`.
    ///
    /// - Parameters:
    ///   - cost: of new hashes; older ones are verified with their own.
    ///   - threadCount: how many are computed at once, at most; each needs its memory. As many as there are cores for
    ///     `nil`.
    ///   - queueLength: how many wait, at most; one more is refused at once.
    public init(cost: Cost = Cost(), threadCount: Int? = nil, queueLength: Int = 64) {
        self.cost = cost
        self.queueLength = queueLength
        threads = NIOThreadPool(numberOfThreads: max(1, threadCount ?? ProcessInfo.processInfo.activeProcessorCount))
        threads.start()
    }

    deinit { threads.shutdownGracefully { _ in } }

    /// A hash of `password` with a salt of its own.
    public func hash(_ password: [UInt8]) async throws(CryptographyError) -> String {
        let salt = SecureBytes.random(Self.saltByteCount)
        let hash = try await derive(password, salt, Self.hashByteCount, cost)
        return "$scrypt$\(cost.text)$\(UnpaddedBase64.text(of: salt))$\(UnpaddedBase64.text(of: hash))"
    }

    /// Whether `text` is a hash of `password`. Takes as long for a wrong one.
    ///
    /// - Throws: `CryptographyError` where `text` is no hash, or too many wait already.
    public func verify(_ password: [UInt8], _ text: String) async throws(CryptographyError) -> Bool {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0].isEmpty, parts[1] == "scrypt", let cost = Cost(parts[2]),
            let salt = UnpaddedBase64.bytes(of: parts[3]), (8...64).contains(salt.count),
            let expected = UnpaddedBase64.bytes(of: parts[4]), (16...64).contains(expected.count)
        else { throw CryptographyError("a stored password hash is none that this server can read") }
        let hash = try await derive(password, salt, expected.count, cost)
        return SecureBytes.areEqual(hash, expected)
    }

    private func derive(
        _ password: [UInt8], _ salt: [UInt8], _ byteCount: Int, _ cost: Cost
    ) async throws(CryptographyError) -> [UInt8] {
        guard password.count <= Self.passwordByteCount else { throw CryptographyError("the password is too long") }
        let limit = threads.numberOfThreads + queueLength
        let isAdmitted = underway.withLock { count in
            guard count < limit else { return false }
            count += 1
            return true
        }
        guard isAdmitted else { throw CryptographyError("too many passwords wait to be hashed; try again later") }
        defer { underway.withLock { $0 -= 1 } }
        do {
            return try await threads.runIfActive {
                // BoringSSL wants the address of an empty password too.
                try KDF.Scrypt.deriveKey(
                    from: Data(password), salt: Data(salt), outputByteCount: byteCount, rounds: 1 << cost.logarithm,
                    blockSize: cost.blockSize, parallelism: cost.parallelism,
                    maxMemory: cost.byteCount * 2 + (1 << 20)
                ).withUnsafeBytes { Array($0) }
            }
        } catch {
            throw CryptographyError("a password hash cannot be computed; is there memory? \(error)")
        }
    }
}
