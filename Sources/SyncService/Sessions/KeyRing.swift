import Crypto
import Entitlements
import SyncCore
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The keys that sign tokens, stored in `server/keys` and shared by all servers over one store. Every 30 days, the
/// first server that needs a new key creates it; the previous key still verifies the tokens that it signed.
///
/// Cached keys expire by the rule of ``FeedFreshness``, so a key that was removed from the store is refused by all
/// servers within ``FeedFreshness/trust``.
///
/// A server whose clock is wrong changes no keys, and a key from the future, which such a server made before it was
/// found out, is removed. Otherwise the keys of the other servers would be pushed out.
final class KeyRing: Sendable {
    /// The time for which a key signs, in milliseconds.
    static let period: Int64 = 30 * 86_400_000

    struct Ring: Codable, Hashable, Sendable {
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
    private let host: HostServices
    private let freshness: FeedFreshness
    private let isClockWrong: @Sendable () -> Bool

    private struct Cache {
        var ring: Ring?
        var keys: [SigningKey] = []
        /// The time at which the load of `ring` began, as ``FeedFreshness/now``.
        var loaded = Duration.zero
        /// The number of changes of the stored keys that were seen, and the number before the load of `ring`.
        var (changeCount, loadedCount) = (0, 0)
    }

    private let cache = Mutex(Cache())

    init(
        _ store: any KeyValueBackend, host: HostServices, freshness: FeedFreshness,
        isClockWrong: @escaping @Sendable () -> Bool
    ) {
        records = RecordStore(backend: store)
        (self.host, self.freshness, self.isClockWrong) = (host, freshness, isClockWrong)
    }

    private static let name = KeyScope.serverPrefix + "keys"

    private static func key() throws(BackendError) -> EntryKey { try EntryKey(name) }

    /// Returns `true` if the keys are stored under `key`.
    static func isStored(under key: EntryKey) -> Bool { key.text == name }

    /// Records that the stored keys have changed.
    func invalidate() { cache.withLock { $0.changeCount += 1 } }

    /// Loads the keys unless the cached ones are believed. While the changes cannot be followed, that is one read in
    /// ``FeedFreshness/trust``.
    func refresh() async throws(BackendError) {
        let isBelieved = cache.withLock { cache in
            guard cache.ring != nil, cache.changeCount == cache.loadedCount else { return false }
            return freshness.isFresh || freshness.now - cache.loaded <= FeedFreshness.trust
        }
        if !isBelieved { try await load() }
    }

    /// Loads the keys, and creates a new one if there is none or the newest is too old.
    func load() async throws(BackendError) {
        let (now, start, count) = (host.now(), freshness.now, cache.withLock { $0.changeCount })
        let ring = try await records.update(try Self.key()) { (known: Ring?) throws(BackendError) in
            var ring = known ?? Ring(keys: [], secret: Data(host.randomBytes(32)))
            if !ring.keys.isEmpty, isClockWrong() { return ring }
            ring.keys.removeAll { Self.isFromTheFuture($0, now) }
            if let newest = ring.keys.last, Self.signs(newest, now) { return ring }
            add(to: &ring, now: now)
            return ring
        }
        // Reading a key costs as much as a signature.
        let keys = try (ring?.keys ?? []).map { (stored) throws(BackendError) in
            guard let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: stored.key) else {
                throw BackendError(
                    .damaged, operation: .read, key: try Self.key(), message: "the key \(stored.id) cannot be read")
            }
            return SigningKey(id: stored.id, key: key)
        }
        cache.withLock { cache in
            // A load that began later may have finished earlier.
            guard cache.ring == nil || start >= cache.loaded else { return }
            (cache.ring, cache.keys, cache.loaded, cache.loadedCount) = (ring, keys, start, count)
        }
    }

    /// The stored keys, the newest one last; empty if there are none. Changes nothing.
    func stored() async throws(BackendError) -> [Ring.Key] {
        try await records.read(try Self.key(), as: Ring.self)?.value.keys ?? []
    }

    /// Adds a new key, if there are keys. See ``ServerKeys/rotate(removesFormer:)``.
    func rotate(removesFormer: Bool) async throws(BackendError) {
        let now = host.now()
        _ = try await records.update(try Self.key()) { (known: Ring?) throws(BackendError) -> Ring? in
            guard var ring = known else { return nil }
            if removesFormer { ring.keys = [] }
            add(to: &ring, now: now)
            return ring
        }
    }

    private func add(to ring: inout Ring, now: Int64) {
        let id = Hexadecimal.text(host.randomBytes(8))
        ring.keys.append(Ring.Key(id: id, key: Data(host.randomBytes(32)), created: now))
        // Tokens are valid for minutes, so the last two keys suffice.
        ring.keys.removeFirst(max(0, ring.keys.count - 2))
    }

    /// The current signing key.
    func signingKey() async throws(BackendError) -> SigningKey { try await grantKey().key }

    /// The current signing key, for a grant.
    func grantKey() async throws(BackendError) -> GrantKey {
        try await refresh()
        let now = host.now()
        let newest = cache.withLock { $0.ring?.keys.last }
        if newest.map({ Self.signs($0, now) }) != true { try await load() }
        let current = cache.withLock { cache in
            cache.ring?.keys.last.flatMap { newest in cache.keys.last.map { GrantKey($0, created: newest.created) } }
        }
        guard let current else { throw BackendError(.damaged, message: "there is no key to sign tokens with") }
        return current
    }

    private static func signs(_ key: Ring.Key, _ now: Int64) -> Bool {
        now - key.created < period && !isFromTheFuture(key, now)
    }

    /// Returns `true` if a server whose clock was ahead has made the key.
    ///
    /// The latest time in the store, by which a server notices that its own clock was set back, may be two statements
    /// old. Such a server must not remove the newest key.
    private static func isFromTheFuture(_ key: Ring.Key, _ now: Int64) -> Bool {
        key.created - now > ClockRollbackGuard.tolerance + 2 * Int64(ClockRollbackGuard.period / .milliseconds(1))
    }

    /// All keys that may have signed a token that is still valid.
    var keys: [SigningKey] { cache.withLock { $0.keys } }

    /// Returns `true` if the cached keys contain one of this name.
    func contains(_ id: String) -> Bool { keys.contains { $0.id == id } }

    /// The secret from which refresh tokens are derived.
    var secret: [UInt8] { cache.withLock { Array($0.ring?.secret ?? Data()) } }
}
