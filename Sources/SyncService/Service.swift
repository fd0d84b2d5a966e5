public import SyncCore

/// All that a server answers under `/v1`: framework-free, request in and answer out, over any store that can compare
/// and swap.
public final class Service: Sendable {
    let store: any KeyValueBackend
    let configuration: ServiceConfiguration
    let cryptography: any ServiceCryptography
    let host: HostServices
    let onError: @Sendable (BackendError) -> Void

    /// A service over `store`.
    ///
    /// - Parameters:
    ///   - store: where everything is, the accounts too. It must be able to compare and swap.
    ///   - configuration: how it behaves.
    ///   - cryptography: hashes passwords, signs and verifies tokens.
    ///   - host: clock, timer and randomness.
    ///   - onError: is told of every error of the store, whose text a client does not see where it is the server's
    ///     affair.
    /// - Throws: the store's error where it cannot be read or written.
    public init(
        _ store: any KeyValueBackend, configuration: ServiceConfiguration, cryptography: any ServiceCryptography,
        host: HostServices = .system, onError: @escaping @Sendable (BackendError) -> Void
    ) async throws(BackendError) {
        (self.store, self.configuration, self.cryptography) = (store, configuration, cryptography)
        (self.host, self.onError) = (host, onError)
    }

    /// Follows what changes in the store, for streams of events and for tokens that are revoked by another server.
    /// Returns when the task is cancelled; the streams end then.
    public func run() async {}

    /// The answer to `request`. Cancelling its task gives up what has not been written yet.
    public func respond(to request: ServiceRequest) async -> ServiceAnswer {
        let keyValues = KeyValueService(store, now: host.now, limits: configuration.limits, onError: onError)
        return ServiceAnswer(await keyValues.respond(to: request.head, body: request.body), route: "/v1/kv/{key}")
    }

    /// Whether the store answers.
    ///
    /// - Throws: the store's error.
    public func checkReadiness() async throws(BackendError) {
        _ = try await store.read(try EntryKey("server/keys"))
    }
}
