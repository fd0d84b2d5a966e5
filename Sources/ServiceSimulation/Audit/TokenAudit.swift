import HTTPTypes
import SyncService
import SyncSimulation

/// Checks that no server refuses a valid access token with 401.
///
/// A token is valid between the dates that it states, by the clock of the server that refuses it, with the documented
/// tolerance, until its session ends or its key is removed. A request that may end sessions, and whose outcome is
/// unknown, counts as one that ended them. Single-threaded.
final class TokenAudit {
    /// A request that may end sessions of a name.
    private struct Ending {
        var name: String
        /// The only session that it ends; `nil` for all.
        var chain: Chain?
        /// The session that sent the request and goes on after it.
        var kept: Chain?
        /// The virtual time of the answer; `.max` while there is none, and after an unknown outcome.
        var end: Int64 = .max

        /// Returns `true` if a request that arrived at `arrival` may find the session ended.
        func mayEnd(_ other: Chain, at arrival: Int64) -> Bool {
            if let chain { return chain === other }
            guard ServiceAudit.folded(other.life.name) == name, other.issued < end else { return false }
            // The session of a password change goes on only once it is renewed, before the answer.
            return end == .max || kept !== other || arrival < end
        }
    }

    /// A rotation of the keys.
    private struct Rotation {
        var removesFormer: Bool
        /// The keys of the tokens that were issued before it began.
        var former: Set<String>
        /// The virtual time at which it succeeded; `.max` if that is unknown.
        var end: Int64 = .max
    }

    /// The largest difference between the clocks of two servers, in seconds. See Docs/Security.md.
    private static let tolerance: Int64 = 300
    /// The time after which a repeated refresh counts as that of a copied token, less what servers take for it. In
    /// microseconds.
    private static let refreshPeriod: Int64 = 30_000_000

    private unowned let world: ServiceWorld
    /// The requests that may have ended sessions, by the numbers of their arrivals.
    private var endings: [Int: Ending] = [:]
    private var rotations: [Rotation] = []
    private var claims: [String: GrantCheck.Claims] = [:]
    /// The arrivals of each refresh token.
    private var refreshes: [String: [Int64]] = [:]

    init(world: ServiceWorld) { self.world = world }

    private var audit: ServiceAudit { world.audit }
    private var now: Int64 { world.scheduler.now }

    // MARK: observations

    func didBeginRotation(removesFormer: Bool) -> Int {
        rotations.append(Rotation(removesFormer: removesFormer, former: Set(claims.values.map(\.keyID))))
        return rotations.endIndex - 1
    }

    func didRotate(_ index: Int) { rotations[index].end = now }

    func didArrive(_ delivery: Delivery) {
        if let token = delivery.text("refresh_token") { refreshes[token, default: []].append(now) }
        let own = audit.chain(of: delivery)
        switch (delivery.method, delivery.path) {
        case (.delete, "/v1/sessions"):
            guard let own else { return }
            let isForAll = delivery.query.contains("everywhere=true")
            endings[delivery.id] = Ending(name: ServiceAudit.folded(own.life.name), chain: isForAll ? nil : own)
        case (.put, "/v1/accounts/self/password"):
            if let own { endings[delivery.id] = Ending(name: ServiceAudit.folded(own.life.name), kept: own) }
        default:
            guard delivery.text("recovery_code") != nil, let name = delivery.text("username") ?? delivery.text("name")
            else { return }
            endings[delivery.id] = Ending(name: ServiceAudit.folded(name))
        }
    }

    /// Called after the audit has seen the answer.
    func didAnswer(_ delivery: Delivery, _ status: Int, _ newToken: String?) {
        if let newToken {
            do { claims[newToken] = try GrantCheck.claims(of: newToken) } catch {
                audit.report(.validity, "\(audit.describe(delivery)) issued an invalid access token: \(error)")
            }
        }
        if status == 401 { checkRefusal(delivery) }
        if (400..<500).contains(status) { endings[delivery.id] = nil }
        if (200..<300).contains(status) { endings[delivery.id]?.end = now }
    }

    // MARK: the check

    private func checkRefusal(_ delivery: Delivery) {
        guard let token = delivery.bearer, let known = audit.accessTokens[token], let claims = claims[token] else {
            return
        }
        let chain = known.chain
        let mayBeEnded = endings.values.contains { $0.mayEnd(chain, at: delivery.arrival) }
        guard chain.ended == nil, chain.life.erasureAsked == nil, !mayBeEnded, !mayBeReplayed(chain),
            isDated(claims, at: delivery), !mayBeRemoved(claims.keyID, requested: known.requested)
        else { return }
        let age = world.scheduler.trueTime / 1_000 - claims.issued
        audit.report(
            .validity,
            "\(audit.describe(delivery)) of \(chain.life.name) was refused with a valid token, \(age) s old")
    }

    /// Returns `true` if the dates of a token are valid by the clock of the server during the whole request.
    private func isDated(_ claims: GrantCheck.Claims, at delivery: Delivery) -> Bool {
        let offset = delivery.clockOffset
        // The dates of a session may differ by hours from a clock that is set back.
        guard delivery.process.machine.clockOffset == offset, abs(offset) <= Self.tolerance * 1_000 else {
            return false
        }
        let latest = world.scheduler.trueTime + offset
        let earliest = world.serverTime(of: delivery)
        return claims.issued <= earliest / 1_000 + Self.tolerance && latest / 1_000 < claims.expires
    }

    /// Returns `true` if a refresh token of the session may have been taken for a copy.
    private func mayBeReplayed(_ chain: Chain) -> Bool {
        refreshes.contains { token, arrivals in
            guard audit.refreshTokens[token] === chain, arrivals.count > 1, let first = arrivals.first,
                let last = arrivals.last
            else { return false }
            let isSuccessorUsed = audit.successors[token].map { refreshes[$0.token] != nil } ?? false
            return isSuccessorUsed || last - first > Self.refreshPeriod || world.movesClocks
        }
    }

    /// Returns `true` if a rotation may have removed the key of a token. The last two keys stay, unless the former ones
    /// are removed at once. A server may sign with a removed key as long as it believes what it remembers.
    private func mayBeRemoved(_ key: String, requested: Int64) -> Bool {
        let later = rotations.filter { rotation in
            let isNew = rotations.count == 1 && !rotation.former.isEmpty && !rotation.former.contains(key)
            return !isNew && (rotation.end == .max || rotation.end + ServiceAudit.staleness >= requested)
        }
        return later.count > 1 || later.contains(where: \.removesFormer)
    }
}
