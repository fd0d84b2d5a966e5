import HTTPTypes
import JWTKit
import NIOPosix
public import SyncProtocol
import SyncService
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Another service whose tokens are believed, so that an app with its own log-in needs no second one.
public struct ExternalIssuer: Sendable {
    /// Where its public keys are.
    public enum KeySource: Sendable {
        /// A file of this machine.
        case file(String)
        /// An address, asked through a transport.
        case url(String, any HTTPTransport)
    }

    /// Its name, as `iss` has it, byte for byte.
    public var name: String
    /// For whom its tokens must be: one of `aud`, byte for byte.
    public var audience: String
    /// Its public keys: a JSON Web Key Set (RFC 7517).
    public var keys: KeySource

    /// An issuer of the given parts.
    public init(name: String, audience: String, keys: KeySource) {
        (self.name, self.audience, self.keys) = (name, audience, keys)
    }
}

/// Verifies the tokens of one issuer. Its keys are kept for ten minutes, after which those that it has withdrawn count
/// nothing any more, and asked for again when a token names another one; at most once a minute, or a stranger could
/// have it asked all the time. While it is away its last keys count, for a day at most.
final class IssuerVerifier: Sendable {
    private static let pause = Duration.seconds(60)
    /// How old keys may be before they are asked for again.
    private static let freshness = Duration.seconds(600)
    /// How old keys may be that cannot be asked for.
    private static let endurance = Duration.seconds(86_400)
    private static let keySetByteCount = 1 << 20
    private static let timeout = Duration.seconds(10)

    private struct State {
        var keys: KeySet?
        /// When they came.
        var keysAt: ContinuousClock.Instant?
        var isLoading = false
        /// When they were asked for last.
        var askedAt: ContinuousClock.Instant?
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    let issuer: ExternalIssuer
    private let onError: @Sendable (String) -> Void
    private let instant: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())

    /// - Parameters:
    ///   - instant: measures how old keys are, and the pause between two loads.
    ///   - onError: is told in one line when they cannot be loaded.
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
        guard let id = token.header.kid else { throw TokenRefusal("it names no key") }
        if key(id, noOlderThan: Self.freshness) == nil { await reload() }
        guard let key = key(id, noOlderThan: Self.endurance) else {
            throw TokenRefusal("it names a key that its issuer does not have")
        }
        guard token.header.alg == key.name else {
            throw TokenRefusal("it is signed by another algorithm than its key's")
        }
        guard (try? key.verify(token.signature, signs: token.signedBytes)) == true else {
            throw TokenRefusal("its signature is wrong")
        }
        let claims = try token.claims(Claims.self)
        guard claims.iss == issuer.name else { throw TokenRefusal("it is of another issuer") }
        guard claims.aud.names.contains(issuer.audience) else { throw TokenRefusal("it is for somebody else") }
        guard !claims.sub.isEmpty else { throw TokenRefusal("it is about nobody") }
        try TokenDates.check(
            expiresAt: claims.exp.seconds, issuedAt: claims.iat?.seconds, notBefore: claims.nbf?.seconds, now: now)
        return .external(
            issuer: issuer.name, subject: claims.sub, issuedAt: claims.iat?.seconds, expiresAt: claims.exp.seconds)
    }

    /// The key called `id`, of keys that came at most `age` ago.
    private func key(_ id: String, noOlderThan age: Duration) -> (any JWTAlgorithm)? {
        let now = instant()
        return state.withLock { state in
            guard let keysAt = state.keysAt, now - keysAt <= age else { return nil }
            return state.keys?[id]
        }
    }

    /// Loads the keys, unless that was tried a moment ago. Whoever comes while it is done waits for it.
    func reload() async {
        let now = instant()
        let (isMine, mustWait) = state.withLock { state in
            if state.isLoading { return (false, true) }
            if let last = state.askedAt, now - last < Self.pause { return (false, false) }
            (state.isLoading, state.askedAt) = (true, now)
            return (true, false)
        }
        if mustWait { await withCheckedContinuation { enqueue($0) } }
        guard isMine else { return }
        var loaded: KeySet?
        do {
            loaded = try await KeySet(json: try await document())
        } catch {
            onError("the keys of \(issuer.name) cannot be loaded: \(error)")
        }
        // Keys that could not be loaded leave the former ones as they are.
        let waiting = state.withLock { state in
            if let loaded { (state.keys, state.keysAt) = (loaded, now) }
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
                guard data.count <= Self.keySetByteCount else { throw KeySetError("\(path) is too long for a key set") }
                return Array(data)
            }
        case .url(let address, let transport):
            guard let request = FetchRequest.get(address) else { throw KeySetError("\(address) is no address") }
            let answer = try await transport.send(
                request, body: [], timeout: Self.timeout, maximumByteCount: Self.keySetByteCount)
            guard answer.response.status == .ok else {
                throw KeySetError("\(address) answered \(answer.response.status.code)")
            }
            return answer.body
        }
    }
}
