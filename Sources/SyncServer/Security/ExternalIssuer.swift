import Entitlements
import HTTPTypes
import NIOPosix
import SyncCore
package import SyncProtocol
package import SyncService
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Another service whose tokens the server accepts, for apps that have their own log-in.
package struct ExternalIssuer: Sendable {
    /// The source of its public keys.
    package enum KeySource: Sendable {
        /// A file on this machine.
        case file(String)
        /// A URL, fetched through a transport.
        case url(String, any HTTPTransport)
    }

    /// The issuer's name. A token's `iss` must equal it byte for byte.
    package var name: String
    /// The required audience. One member of a token's `aud` must equal it byte for byte.
    package var audience: String
    /// The issuer's public keys: a JSON Web Key Set (RFC 7517).
    package var keys: KeySource

    /// Creates an issuer.
    package init(name: String, audience: String, keys: KeySource) {
        (self.name, self.audience, self.keys) = (name, audience, keys)
    }
}

/// Verifies the tokens of one issuer.
///
/// The issuer's keys are cached for ten minutes, so a withdrawn key is rejected after that time. A token that names an
/// unknown key causes a reload earlier, but at most once a minute: otherwise a client could make the server fetch keys
/// all the time. While the issuer is unreachable, its last keys stay valid for at most a day.
package final class IssuerVerifier: TokenIssuer {
    /// The minimum time between two loads.
    private static let pause = Duration.seconds(60)
    /// The age at which keys are reloaded.
    private static let freshness = Duration.seconds(600)
    /// The maximum age of keys while the issuer is unreachable.
    private static let maximumAge = Duration.seconds(86_400)
    private static let keySetByteCount = 1 << 20
    private static let timeout = Duration.seconds(10)

    private struct State {
        var keys: KeySet?
        /// The time at which `keys` were loaded.
        var loadedAt: ContinuousClock.Instant?
        var isLoading = false
        /// The time of the last attempt to load keys.
        var attemptedAt: ContinuousClock.Instant?
    }

    private let issuer: ExternalIssuer
    private let onError: @Sendable (String) -> Void
    private let instant: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())
    private let waiting = WaitList<Void, Void>()

    /// - Parameters:
    ///   - instant: the clock that measures the age of keys and the time between two loads.
    ///   - onError: called with a one-line message when keys cannot be loaded.
    package init(
        _ issuer: ExternalIssuer, instant: @escaping @Sendable () -> ContinuousClock.Instant = { ContinuousClock.now },
        onError: @escaping @Sendable (String) -> Void
    ) {
        (self.issuer, self.instant, self.onError) = (issuer, instant, onError)
    }

    /// The issuer's name.
    package var name: String { issuer.name }

    /// Verifies a token. See `TokenIssuer`.
    package func verify(_ token: WebToken, now: Int64) async throws(TokenRefusal) -> VerifiedToken {
        guard let id = token.key else { throw TokenRefusal("it does not name a key") }
        if key(id, noOlderThan: Self.freshness) == nil { await reload() }
        guard let key = key(id, noOlderThan: Self.maximumAge) else {
            throw TokenRefusal("its issuer does not have the key that it names")
        }
        guard token.algorithm == key.algorithm else { throw TokenRefusal("its algorithm is not that of its key") }
        guard key.isValid(token.signature, token.signedBytes) else { throw TokenRefusal("its signature is wrong") }
        let (name, audiences, subject) = try token.claims { claims throws(InputError) in
            let audience = try claims.required("aud")
            let names =
                if case .string(let name) = audience.value { [name] } else {
                    try audience.array().map { (name) throws(InputError) in try name.string() }
                }
            return (try claims.required("iss").string(), names, try claims.required("sub").string())
        }
        let (expiresAt, issuedAt, notBefore) = try token.claims { claims throws(InputError) in
            (try claims.required("exp").seconds(), try claims["iat"]?.seconds(), try claims["nbf"]?.seconds())
        }
        guard name == issuer.name else { throw TokenRefusal("it is from another issuer") }
        guard audiences.contains(issuer.audience) else { throw TokenRefusal("its audience is another service") }
        guard !subject.isEmpty else { throw TokenRefusal("its subject is empty") }
        try WebToken.checkDates(expiresAt: expiresAt, notBefore: issuedAt, notBefore, now: now)
        return .external(issuer: name, subject: subject, issuedAt: issuedAt, expiresAt: expiresAt)
    }

    /// The key named `id`; `nil` if it is unknown or the keys were loaded more than `age` ago.
    private func key(_ id: String, noOlderThan age: Duration) -> KeySet.Key? {
        let now = instant()
        return state.withLock { state in
            guard let loadedAt = state.loadedAt, now - loadedAt <= age else { return nil }
            return state.keys?[id]
        }
    }

    /// Loads the keys, unless the last attempt was less than a minute ago. Concurrent callers wait for the same load.
    func reload() async {
        let now = instant()
        let (mustLoad, waiter) = state.withLock { state -> (Bool, WaitList<Void, Void>.Waiter?) in
            if state.isLoading { return (false, waiting.add()) }
            if let last = state.attemptedAt, now - last < Self.pause { return (false, nil) }
            (state.isLoading, state.attemptedAt) = (true, now)
            return (true, nil)
        }
        await waiter?.value()
        guard mustLoad else { return }
        var loaded: KeySet?
        do {
            loaded = try KeySet(json: try await document())
        } catch {
            onError("the keys of \(issuer.name) cannot be loaded: \(error)")
        }
        // A failed load keeps the previous keys.
        state.withLock { state in
            if let loaded { (state.keys, state.loadedAt) = (loaded, now) }
            state.isLoading = false
            waiting.resumeAll(returning: ())
        }
    }

    private func document() async throws -> [UInt8] {
        switch issuer.keys {
        case .file(let path):
            return try await NIOThreadPool.singleton.runIfActive {
                let data = try Data(contentsOf: URL(filePath: path))
                guard data.count <= Self.keySetByteCount else {
                    throw KeySetError("\(path): a key set must have at most 1 MiB")
                }
                return Array(data)
            }
        case .url(let address, let transport):
            guard let request = FetchRequest.get(address) else { throw KeySetError("\(address) is not an HTTP URL") }
            let answer = try await transport.send(
                request, body: [], timeout: Self.timeout, maximumByteCount: Self.keySetByteCount)
            guard answer.response.status == .ok else {
                throw KeySetError("\(address) answered \(answer.response.status.code)")
            }
            return answer.body
        }
    }
}
