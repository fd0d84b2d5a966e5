package import SyncCore

/// The keys with which the servers over a store sign tokens and grants, for the operator.
package struct ServerKeys: Sendable {
    /// A key, without its secret.
    package struct Description: Hashable, Sendable {
        /// The name of the key in the header of a token (`kid`).
        package var id: String
        /// The time at which the key was created, in milliseconds since 1970 UTC.
        package var created: Int64
        /// The time until which it signs, in milliseconds since 1970 UTC, unless a newer key replaces it earlier.
        package var signsUntil: Int64
    }

    private let ring: KeyRing

    /// - Parameters:
    ///   - store: The store of the servers.
    ///   - host: The clock, the timer and the source of randomness.
    package init(of store: any KeyValueBackend, host: HostServices = .system) {
        ring = KeyRing(store, host: host, freshness: FeedFreshness(host)) { false }
    }

    /// The keys in the store, the newest one last; empty if no server has used it yet. Changes nothing.
    package func all() async throws(BackendError) -> [Description] {
        try await ring.stored().map {
            Description(id: $0.id, created: $0.created, signsUntil: $0.created + KeyRing.period)
        }
    }

    /// Adds a new key, with which all servers sign from now on. Servers that run notice it by the change of the store.
    ///
    /// - Parameter removesFormer: `true` to remove all former keys, after their theft: access tokens that they signed
    ///   are refused at once, and devices refresh theirs.
    /// - Returns: The keys then; empty if no server has used the store yet, and nothing was changed.
    package func rotate(removesFormer: Bool) async throws(BackendError) -> [Description] {
        try await ring.rotate(removesFormer: removesFormer)
        return try await all()
    }
}
