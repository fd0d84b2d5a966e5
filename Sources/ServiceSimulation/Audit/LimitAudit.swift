import Entitlements
import HTTPTypes
import SyncService
import SyncSimulation

/// Checks that the limits of accounts hold from outside: with N servers, N times the stated limit.
///
/// A server that starts has full buckets, so each start adds a burst. The oracle is silent in scenarios that move
/// clocks, because rates follow the wall clock. Single-threaded.
final class LimitAudit {
    /// Requests that a server has admitted.
    private struct Admissions {
        /// The arrivals in virtual microseconds, in ascending order.
        var arrivals: [Int64] = []

        mutating func add(_ arrival: Int64) {
            let index = arrivals.lastIndex { $0 <= arrival }.map { $0 + 1 } ?? 0
            arrivals.insert(arrival, at: index)
        }
    }

    private struct Guesser: Hashable {
        var lane: Int
        var name: String
    }

    private unowned let world: ServiceWorld
    private let movesClocks: Bool
    private var starts: [Int64] = []
    private var writes: [String: Admissions] = [:]
    private var guesses: [Guesser: Admissions] = [:]
    /// The keys beside the ledger that were written, by account.
    private var keys: [String: Set<String>] = [:]

    /// The wrong secrets of one address for one account in five minutes. See Docs/Security.md.
    private static let guessLimit = 10
    private static let guessPeriod: Int64 = 300_000_000

    init(world: ServiceWorld) {
        self.world = world
        movesClocks = world.movesClocks
    }

    private var now: Int64 { world.scheduler.now }

    func didStartServer() { starts.append(now) }

    /// The number of full buckets that the servers had since `time`.
    private func bucketCount(since time: Int64) -> Int {
        world.machines.count + starts.count { $0 > time }
    }

    func didAnswer(_ delivery: Delivery, from holder: TokenHolder?, lane: Int, _ status: Int, _ body: JSON?) {
        if status == 400, body?["error"]?.string == "invalid_grant", let name = delivery.text("username") {
            didGuess(Guesser(lane: lane, name: ServiceAudit.folded(name)), delivery.arrival)
        }
        guard let limits = world.scenario.limits, let holder else { return }
        // A server that fails may not have counted the request.
        if delivery.method != .get, status != 401, status < 500 {
            if status == 429 { world.reach(.accountLimited) } else { didWrite(holder.name, delivery.arrival, limits) }
        }
        guard let key = delivery.key, key.contains("/notes/") else { return }
        switch delivery.method {
        case .delete: keys[holder.incarnation]?.remove(key)
        case .put where (200..<300).contains(status):
            keys[holder.incarnation, default: []].insert(key)
            let count = keys[holder.incarnation]?.count ?? 0
            if count > limits.keys * world.machines.count {
                world.report(.limits, "\(holder.name) has \(count) keys, more than \(limits.keys) at each server")
            }
        case .put where status == 507 || status == 413: world.reach(.quotaReached)
        default: break
        }
    }

    private func didWrite(_ name: String, _ arrival: Int64, _ limits: AccountLimits) {
        writes[name, default: Admissions()].add(arrival)
        guard !movesClocks, let arrivals = writes[name]?.arrivals else { return }
        for (index, start) in arrivals.enumerated().reversed() {
            let count = arrivals.count - index
            let refilled = Double(now - start) / 1_000_000 * limits.writesPerSecond * Double(world.machines.count)
            guard count > bucketCount(since: start) * limits.writeBurst + Int(refilled) + world.machines.count else {
                continue
            }
            return world.report(.limits, "\(count) requests of \(name) were admitted within \(now - start) µs")
        }
    }

    private func didGuess(_ guesser: Guesser, _ arrival: Int64) {
        guesses[guesser, default: Admissions()].add(arrival)
        let count = guesses[guesser]?.arrivals.count { $0 > now - Self.guessPeriod } ?? 0
        // A count starts again five minutes after its first guess, so that the window may see two of them.
        let most = 2 * Self.guessLimit * bucketCount(since: now - Self.guessPeriod)
        guard !movesClocks, count > most else { return }
        world.report(.limits, "\(count) wrong secrets for \(guesser.name) were checked within five minutes")
    }
}
