import HTTPTypes
import JWTKit
import NIOPosix
package import SyncProtocol
import SyncService
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
final class IssuerVerifier: Sendable {
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
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    let issuer: ExternalIssuer
    private let onError: @Sendable (String) -> Void
    private let instant: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())

    /// - Parameters:
    ///   - instant: the clock that measures the age of keys and the time between two loads.
    ///   - onError: called with a one-line message when keys cannot be loaded.
    init(
        _ issuer: ExternalIssuer, instant: @escaping @Sendable () -> ContinuousClock.Instant,
        onError: @escaping @Sendable (String) -> Void
    ) {
        (self.issuer, self.instant, self.onError) = (issuer, instant, onError)
    }

    private struct Claims: Decodable {
        var iss: String
        var aud: Audience
        var sub: String
        var exp: NumericDate
        var iat: NumericDate?
        var nbf: NumericDate?
    }

    func verify(_ token: WebToken, now: Int64) async throws(TokenRefusal) -> VerifiedToken {
        guard let id = token.header.kid else { throw TokenRefusal("it does not name a key") }
        if key(id, noOlderThan: Self.freshness) == nil { await reload() }
        guard let key = key(id, noOlderThan: Self.maximumAge) else {
            throw TokenRefusal("its issuer does not have the key that it names")
        }
        guard token.header.alg == key.name else {
            throw TokenRefusal("its algorithm is not that of its key")
        }
        guard (try? key.verify(token.signature, signs: token.signedBytes)) == true else {
            throw TokenRefusal("its signature is wrong")
        }
        let claims = try token.claims(Claims.self)
        guard claims.iss == issuer.name else { throw TokenRefusal("it is from another issuer") }
        guard claims.aud.names.contains(issuer.audience) else { throw TokenRefusal("its audience is another service") }
        guard !claims.sub.isEmpty else { throw TokenRefusal("its subject is empty") }
        try TokenDates.check(
            expiresAt: claims.exp.seconds, issuedAt: claims.iat?.seconds, notBefore: claims.nbf?.seconds, now: now)
        return .external(
            issuer: issuer.name, subject: claims.sub, issuedAt: claims.iat?.seconds, expiresAt: claims.exp.seconds)
    }

    /// The key named `id`; `nil` if it is unknown or the keys were loaded more than `age` ago.
    private func key(_ id: String, noOlderThan age: Duration) -> (any JWTAlgorithm)? {
        let now = instant()
        return state.withLock { state in
            guard let loadedAt = state.loadedAt, now - loadedAt <= age else { return nil }
            return state.keys?[id]
        }
    }

    /// Loads the keys, unless the last attempt was less than a minute ago. Concurrent callers wait for the same load.
    func reload() async {
        let now = instant()
        let (mustLoad, mustWait) = state.withLock { state in
            if state.isLoading { return (false, true) }
            if let last = state.attemptedAt, now - last < Self.pause { return (false, false) }
            (state.isLoading, state.attemptedAt) = (true, now)
            return (true, false)
        }
        if mustWait { await withCheckedContinuation { enqueue($0) } }
        guard mustLoad else { return }
        var loaded: KeySet?
        do {
            loaded = try await KeySet(json: try await document())
        } catch {
            onError("the keys of \(issuer.name) cannot be loaded: \(error)")
        }
        // A failed load keeps the previous keys.
        let waiting = state.withLock { state in
            if let loaded { (state.keys, state.loadedAt) = (loaded, now) }
            state.isLoading = false
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    private func enqueue(_ continuation: CheckedContinuation<Void, Never>) {
        let isDone = state.withLock { state in
            if state.isLoading { state.waiting.append(continuation) }
            return !state.isLoading
        }
        if isDone { continuation.resume() }
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
