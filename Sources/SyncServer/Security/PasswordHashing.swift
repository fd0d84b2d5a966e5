import Crypto
import CryptoExtras
import NIOPosix
import Entitlements
package import SyncService

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Hashes passwords with scrypt (RFC 7914), and verifies imported hashes by bcrypt.
///
/// A hash is the text `$scrypt$ln=17,r=8,p=1$SALT$HASH`, with salt and hash in base64 without padding. Computing it
/// needs `128 · r · 2^ln` bytes and keeps a core busy, so it runs on one of a fixed number of threads. The queue for
/// these threads is limited in total and per address, and serves the addresses in turn.
package final class PasswordHashing: PasswordHasher {
    /// The cost parameters of a hash.
    package struct Cost: Hashable, Sendable {
        /// The base-2 logarithm of the number of rounds: 4 to 20.
        package var logarithm = 17
        /// The size of a block, in units of 128 bytes: 1 to 32.
        package var blockSize = 8
        /// The number of repetitions: 1 to 16.
        package var parallelism = 1

        /// Creates the parameters that OWASP recommends: N = 2^17, r = 8, p = 1, which needs 128 MiB per hash.
        package init() {}

        /// Creates the recommended parameters with 2^`logarithm` rounds.
        package init(logarithm: Int) { self.logarithm = logarithm }

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

    private static let hashByteCount = 32
    /// The maximum length of a password. The service already rejects longer ones.
    private static let passwordByteCount = 4_096

    private let cost: Cost
    private let threads: NIOThreadPool
    private let queue: PasswordQueue

    /// Creates a hasher and starts its threads.
    ///
    /// - Parameters:
    ///   - cost: the cost of new hashes. Existing hashes are verified with their own cost.
    ///   - threadCount: the number of hashes computed at once, each with its own memory; `nil` for the number of cores.
    ///   - queueLength: the maximum number of waiting hashes. The limit for one address is a quarter of it; loopback
    ///     addresses have no limit of their own.
    package init(cost: Cost = Cost(), threadCount: Int? = nil, queueLength: Int = 64) {
        self.cost = cost
        let count = max(1, threadCount ?? ProcessInfo.processInfo.activeProcessorCount)
        queue = PasswordQueue(slots: count, length: queueLength, share: max(1, queueLength / 4))
        threads = NIOThreadPool(numberOfThreads: count)
        threads.start()
    }

    deinit { threads.shutdownGracefully { _ in } }

    /// Hashes `password` with a new random salt.
    ///
    /// - Parameter peer: the client's address.
    /// - Throws: `CryptographyError` if too many hashes are already waiting.
    package func hash(_ password: [UInt8], peer: String) async throws(CryptographyError) -> String {
        let salt = SymmetricKey(size: .bits128).withUnsafeBytes { Array($0) }
        let hash = try await derive(password, salt, Self.hashByteCount, cost, peer)
        return "$scrypt$\(cost.text)$\(Base64.unpadded.encode(salt))$\(Base64.unpadded.encode(hash))"
    }

    /// Verifies `password` against the hash `text`, by scrypt or bcrypt. A wrong password takes as long as a right one.
    ///
    /// - Parameter peer: the client's address.
    /// - Returns: `true` if the password is correct.
    /// - Throws: `CryptographyError` if `text` is not a valid hash, or if too many hashes are already waiting.
    package func verify(_ password: [UInt8], _ text: String, peer: String) async throws(CryptographyError) -> Bool {
        if BcryptHash.isMarked(text) {
            let hash: BcryptHash
            do throws(BcryptHash.Objection) { hash = try BcryptHash(text) } catch {
                throw CryptographyError("a stored hash: \(error)", isPermanent: true)
            }
            return try await run(peer) { () throws(CryptographyError) in try hash.matches(password) }.get()
        }
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0].isEmpty, parts[1] == "scrypt", let cost = Cost(parts[2]),
            let salt = Base64.unpadded.decode(parts[3].utf8), (8...64).contains(salt.count),
            let expected = Base64.unpadded.decode(parts[4].utf8), (16...64).contains(expected.count)
        else {
            throw CryptographyError(
                "a stored password hash is damaged or in a format that this server does not support")
        }
        let hash = try await derive(password, salt, expected.count, cost, peer)
        return hash.isEqual(toSecret: expected)
    }

    private func derive(
        _ password: [UInt8], _ salt: [UInt8], _ byteCount: Int, _ cost: Cost, _ peer: String
    ) async throws(CryptographyError) -> [UInt8] {
        guard password.count <= Self.passwordByteCount else {
            throw CryptographyError("the password must have at most \(Self.passwordByteCount) bytes")
        }
        let result = try await run(peer) { () throws(any Error) in
            // BoringSSL requires a non-null pointer even for an empty password. `Data` provides one.
            try KDF.Scrypt.deriveKey(
                from: Data(password), salt: Data(salt), outputByteCount: byteCount, rounds: 1 << cost.logarithm,
                blockSize: cost.blockSize, parallelism: cost.parallelism, maxMemory: cost.byteCount * 2 + (1 << 20)
            ).withUnsafeBytes { Array($0) }
        }
        do { return try result.get() } catch {
            throw CryptographyError("cannot compute a password hash, possibly because memory is short: \(error)")
        }
    }

    /// Runs `work` on one of the threads.
    ///
    /// - Throws: `CryptographyError` if too many hashes are already waiting.
    private func run<Value: Sendable, Failure: Error>(
        _ peer: String, _ work: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(CryptographyError) -> Result<Value, Failure> {
        let address = ClientAddress(peer)?.network
        let ticket: Budget.Ticket
        do throws(Budget.Shortage) { ticket = try await queue.enter(address) } catch {
            throw CryptographyError("too many passwords are waiting to be hashed (limit: \(error)); try again later")
        }
        defer { queue.leave(ticket) }
        do {
            return try await threads.runIfActive {
                do throws(Failure) { return .success(try work()) } catch { return .failure(error) }
            }
        } catch {
            throw CryptographyError("the threads for passwords have stopped: \(error)")
        }
    }
}
