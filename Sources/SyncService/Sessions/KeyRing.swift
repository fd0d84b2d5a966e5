import SyncCore
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The keys that sign tokens, stored in `server/keys` and shared by all servers over one store. Every 30 days, the
/// first server that needs a new key creates it; the previous key still verifies the tokens that it signed.
final class KeyRing: Sendable {
    /// The time for which a key signs, in milliseconds.
    static let period: Int64 = 30 * 86_400_000

    private struct Ring: Codable, Hashable, Sendable {
        struct Key: Codable, Hashable, Sendable {
            var id: String
            var key: Data
            var created: Int64
        }
        /// The keys, the newest one last.
        var keys: [Key]
        /// The secret from which refresh tokens are derived.
        var secret: Data
    }

    private let records: RecordStore
    private let cryptography: any ServiceCryptography
    private let host: HostServices
    private let cache = Mutex<Ring?>(nil)

    init(_ store: any KeyValueBackend, _ cryptography: any ServiceCryptography, host: HostServices) {
        (records, self.cryptography, self.host) = (RecordStore(backend: store), cryptography, host)
    }

    private static func key() throws(BackendError) -> EntryKey { try EntryKey(KeyScope.serverPrefix + "keys") }

    /// Loads the keys, and creates a new one if there is none or the newest is too old.
    func load() async throws(BackendError) {
        let now = host.now()
        let ring = try await records.update(try Self.key()) { (known: Ring?) throws(BackendError) in
            var ring = known ?? Ring(keys: [], secret: Data(cryptography.randomBytes(32)))
            if let newest = ring.keys.last, Self.signs(newest, now) { return ring }
            let id = Hexadecimal.text(cryptography.randomBytes(8))
            ring.keys.append(Ring.Key(id: id, key: Data(cryptography.makeSigningKey()), created: now))
            // Tokens are valid for minutes, so the last two keys suffice.
            ring.keys.removeFirst(max(0, ring.keys.count - 2))
            return ring
        }
        cache.withLock { $0 = ring }
    }

    /// The current signing key.
    func signingKey() async throws(BackendError) -> SigningKey {
        let now = host.now()
        let newest = cache.withLock { $0?.keys.last }
        if newest.map({ Self.signs($0, now) }) != true { try await load() }
        guard let key = cache.withLock({ $0?.keys.last }) else {
            throw BackendError(.damaged, message: "there is no key to sign tokens with")
        }
        return SigningKey(id: key.id, bytes: Array(key.key))
    }

    private static func signs(_ key: Ring.Key, _ now: Int64) -> Bool {
        now - key.created < period && key.created - now <= ClockRollbackGuard.tolerance
    }

    /// All keys that may have signed a token that is still valid.
    var keys: [SigningKey] {
        cache.withLock { ring in (ring?.keys ?? []).map { SigningKey(id: $0.id, bytes: Array($0.key)) } }
    }

    /// The secret from which refresh tokens are derived.
    var secret: [UInt8] { cache.withLock { Array($0?.secret ?? Data()) } }
}
