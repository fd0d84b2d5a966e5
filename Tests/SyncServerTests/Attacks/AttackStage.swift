import Foundation
import LoadTesting
import Synchronization
import TestSupport
import Testing

/// Attacks on real servers, one after the other, so that none is taken for the effect of another.
@Suite("Attacks", .serialized)
enum Attacks {}

/// A real server that is attacked, and somebody who only wants his document meanwhile.
final class AttackStage: Sendable {
    /// An account and its token.
    struct Person: Sendable {
        var token: String
        /// What its keys begin with.
        var prefix: String

        var fields: [String] { ["Authorization: Bearer \(token)"] }
    }

    /// What was seen of the server.
    struct Figures {
        /// Of the bystander's reads, without the attack and under it.
        var calm = Reads()
        var attacked = Reads()
        /// The largest resident memory under the attack beyond that before it, in bytes.
        var growth = 0
        /// Whether the server was ready each time that it was asked.
        var wasReady = true
        /// How much the attack did.
        var attackCount = 0
        /// How long it was under attack.
        var elapsed = Duration.zero
    }

    /// Reads that were due at fixed instants, and how they were answered.
    struct Reads {
        var due = 0.0
        var answered = 0
        var latencies = LatencyHistogram()
        var troubles = 0

        /// How many of those due were answered before the end.
        var share: Double { due > 0 ? Double(answered) / due : 0 }

        func milliseconds(_ fraction: Double) -> Double { Double(latencies.percentile(fraction) ?? 0) / 1e6 }

        mutating func add(_ report: LoadReport, _ rate: Double) {
            due += rate * report.seconds
            answered += report.answeredInTime
            for kind in report.kinds { latencies.add(kind.latencies) }
            troubles += report.unexpected.values.reduce(0, +) + report.troubles.values.reduce(0, +)
        }
    }

    /// The server answered what no server answers.
    struct Unexpected: Error {
        var description: String
    }

    /// How far an attack is.
    private final class Progress: Sendable {
        private let state = Mutex((count: 0, mustEnd: false, hasEnded: false))

        /// Notes that so much is done; whether more is wanted.
        func isWanted(after count: Int) -> Bool {
            state.withLock { state in
                state.count = count
                return !state.mustEnd
            }
        }

        func end() { state.withLock { $0.hasEnded = true } }
        func stop() { state.withLock { $0.mustEnd = true } }
        var count: Int { state.withLock { $0.count } }
        var hasEnded: Bool { state.withLock { $0.hasEnded } }
    }

    let server: ServerProcess
    let bystander: Person

    init(store: String = "memory:", _ limits: [String] = [], options: [String] = []) throws {
        server = try ServerProcess(
            store: store,
            options: (["account-reads=none"] + limits).flatMap { ["--limit", $0] } + ["--log-level", "error"] + options)
        bystander = try Self.signUp("bystander", server)
        let written = try ask(
            server.port, "PUT", "/v1/kv/\(bystander.prefix)note?if=any", fields: bystander.fields,
            body: String(repeating: "x", count: 300))
        guard written?.status == 200 else { throw Unexpected(description: "\(written as Any)") }
    }

    /// Makes the account `name`.
    static func signUp(_ name: String, _ server: ServerProcess) throws -> Person {
        let body = #"{"name":"\#(name)","password":"correct horse"}"#
        let answer = try ask(
            server.port, "POST", "/v1/accounts", fields: ["Content-Type: application/json"], body: body)
        let members = try JSONSerialization.jsonObject(with: Data(answer?.body ?? [])) as? [String: Any]
        guard let token = members?["access_token"] as? String, let life = members?["incarnation"] as? String else {
            throw Unexpected(description: "no account: \(answer as Any)")
        }
        return Person(token: token, prefix: "accounts/\(name)/\(life)/")
    }

    /// Measures the bystander before and under `attack`, prints it, and checks that he had `share` of the reads that he
    /// asked for, that the server is ready, that it has not grown by more than `growth` bytes, and that its descriptors
    /// come back.
    ///
    /// He asks at fixed instants, half as often as he could if he was alone, and 1,000 times a second at most: where
    /// the machine gives less to this test for a while he can make up for it, where the server gives less to him he
    /// cannot. The attacker, who in earnest has a machine of his own, has what the others leave of the processors.
    ///
    /// - Parameters:
    ///   - seconds: how long the attack is looked at, where it does not end before and has done enough; a minute more
    ///     at most.
    ///   - least: how much the attack does, at least: one that got nowhere harms nobody.
    ///   - attack: is called on a thread of its own; asks whether it shall go on by saying how much it has done, ends
    ///     when that is enough, or before, and says how much it did.
    func endure(
        _ name: String, seconds: Double = 4, growth: Int, share: Double = 0.9, least: Int,
        _ attack: @escaping @Sendable (_ isWanted: @Sendable (Int) -> Bool) throws -> Int
    ) async throws -> Figures {
        var figures = Figures()
        let descriptors = try descriptorCount()
        let most = try await reads(nil, seconds: 1)
        let rate = min(1_000, max(20, most.rate / 2))
        figures.calm.add(try await reads(rate, seconds: 2), rate)
        let memory = try residentBytes()
        let progress = Progress()
        async let attacking = LocalListener.blocking {
            defer { progress.end() }
            setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 19)
            return try attack { progress.isWanted(after: $0) }
        }
        let start = ContinuousClock.now
        var isEnough = false
        repeat {
            figures.attacked.add(try await reads(rate, seconds: 1), rate)
            figures.growth = max(figures.growth, try residentBytes() - memory)
            figures.wasReady = try figures.wasReady && ask(server.port, "GET", "/readyz")?.status == 200
            figures.elapsed = ContinuousClock.now - start
            isEnough = figures.elapsed >= .seconds(progress.count >= least ? seconds : seconds + 60)
        } while !isEnough && !progress.hasEnded
        progress.stop()
        figures.attackCount = try await attacking
        figures.growth = max(figures.growth, try residentBytes() - memory)
        print("attack \(name): \(Self.text(figures, rate: rate))")
        #expect(figures.attackCount >= least, "\(name)")
        #expect(figures.wasReady)
        #expect(figures.attacked.share >= share, "\(name)")
        #expect(figures.attacked.troubles == 0, "\(name)")
        #expect(figures.growth <= growth, "\(name)")
        #expect(try descriptorsReturn(to: descriptors), "\(name)")
        return figures
    }

    private static func text(_ figures: Figures, rate: Double) -> String {
        let (calm, attacked) = (figures.calm, figures.attacked)
        let number: (Double) -> String = { String(format: "%.1f", $0) }
        return "of \(Int(rate)) reads a second that a bystander asks for he has \(number(attacked.share * 100)) %, "
            + "without it \(number(calm.share * 100)) %; median \(number(attacked.milliseconds(0.5))) ms, 99 % "
            + "\(number(attacked.milliseconds(0.99))) ms, without it \(number(calm.milliseconds(0.5))) and "
            + "\(number(calm.milliseconds(0.99))) ms; resident memory +\(figures.growth / 1_024) KiB; "
            + "\(figures.attackCount) times in \(figures.elapsed)"
    }

    /// The bystander's reads, `rate` in a second or as many as he gets, over two connections of his own.
    private func reads(_ rate: Double?, seconds: Double) async throws -> LoadReport {
        let target = LoadTarget(host: "127.0.0.1", port: server.port)
        let read = RequestBytes(
            "GET", "/v1/kv/\(bystander.prefix)note", at: target, credential: LoadCredential(token: bystander.token))
        let works = (0..<2).map { _ in RepeatedRequests([read], expecting: 200...200) }
        return try await LoadRun.run(
            LoadPlan(kinds: ["read"], works: works, seconds: seconds, rate: rate), at: target)
    }

    /// The server's resident memory, in bytes.
    func residentBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/\(server.processID)/status", encoding: .utf8)
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return (line?.split(separator: " ").compactMap { Int($0) }.first ?? 0) * 1_024
    }

    func descriptorCount() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/\(server.processID)/fd").count
    }

    /// Asks until the server has about as many descriptors as it had, for half a minute at most.
    func descriptorsReturn(to count: Int) throws -> Bool {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end {
            if try descriptorCount() <= count + 4 { return true }
            _ = try ask(server.port, "GET", "/healthz")
        }
        return false
    }

    /// Asks until `name` of `/metrics` is `count` or more, for half a minute at most.
    func reaches(_ name: String, _ count: Double) throws -> Bool {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end {
            if try figure(name) >= count { return true }
        }
        return false
    }

    /// A figure of `/metrics`.
    func figure(_ name: String) throws -> Double {
        let text = try ask(server.port, "GET", "/metrics")?.text ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line?.split(separator: " ").last.flatMap { Double($0) } ?? 0
    }
}
