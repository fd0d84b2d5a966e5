import Foundation
import LoadTesting
import Synchronization
import TestSupport
import Testing

/// Attacks on real servers. They run one after the other, so that they do not influence each other's measurements.
@Suite("Attacks", .serialized)
enum Attacks {}

/// A real server under attack, and a bystander account whose reads are measured meanwhile.
final class AttackStage: Sendable {
    /// An account and its token.
    struct Account: Sendable {
        var token: String
        /// The prefix of its keys.
        var prefix: String

        var fields: [String] { ["Authorization: Bearer \(token)"] }
    }

    /// The measurements of an attack.
    struct Figures {
        /// The bystander's reads before and during the attack.
        var calm = Reads()
        var attacked = Reads()
        /// The peak increase of resident memory during the attack, in bytes.
        var growth = 0
        /// True if every readiness check succeeded.
        var wasReady = true
        /// The number of attack operations.
        var attackCount = 0
        /// The duration of the attack.
        var elapsed = Duration.zero
    }

    /// The results of reads that were scheduled at fixed times.
    struct Reads {
        var due = 0.0
        var answered = 0
        var latencies = LatencyHistogram()
        var troubles = 0

        /// The fraction of the scheduled reads that were answered before the end.
        var share: Double { due > 0 ? Double(answered) / due : 0 }

        func milliseconds(_ fraction: Double) -> Double { Double(latencies.percentile(fraction) ?? 0) / 1e6 }

        mutating func add(_ report: LoadReport, _ rate: Double) {
            due += rate * report.seconds
            answered += report.answeredInTime
            for kind in report.kinds { latencies.add(kind.latencies) }
            troubles += report.unexpected.values.reduce(0, +) + report.troubles.values.reduce(0, +)
        }
    }

    /// The server gave an unexpected answer.
    struct Unexpected: Error {
        var description: String
    }

    /// The progress of an attack.
    private final class Progress: Sendable {
        private let state = Mutex((count: 0, mustEnd: false, hasEnded: false))

        /// Records the number of operations. Returns `false` if the attack must end.
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
    let bystander: Account

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

    /// Creates the account `name`.
    static func signUp(_ name: String, _ server: ServerProcess) throws -> Account {
        let body = #"{"name":"\#(name)","password":"correct horse"}"#
        let answer = try ask(
            server.port, "POST", "/v1/accounts", fields: ["Content-Type: application/json"], body: body)
        let members = try JSONSerialization.jsonObject(with: Data(answer?.body ?? [])) as? [String: Any]
        guard let token = members?["access_token"] as? String, let life = members?["incarnation"] as? String else {
            throw Unexpected(description: "no account: \(answer as Any)")
        }
        return Account(token: token, prefix: "accounts/\(name)/\(life)/")
    }

    /// Measures and prints the bystander's reads before and during `attack`. Checks that all of them were answered,
    /// that the server stayed ready and grew by at most `growth` bytes, and that its descriptors were closed. On a
    /// machine without other load, at least `share` of them must have been answered in time.
    ///
    /// Reads are scheduled at fixed times, at half the rate that the idle server reaches, and at most 1,000 a second. A
    /// short stall of the machine can thus be made up; a server that starves the bystander cannot. The attack runs at
    /// the lowest priority, since a real attacker would not use the server's processors.
    ///
    /// - Parameters:
    ///   - seconds: the duration of the attack in the long form, unless it ends earlier; one second in the short form;
    ///     at most ``Patience/limit`` more if it has done fewer than `least` operations.
    ///   - least: the minimum number of attack operations. With fewer the test would prove nothing.
    ///   - attack: runs on a thread of its own and returns the number of its operations. It passes that number to
    ///     `isWanted` repeatedly, and ends when the result is `false` or earlier.
    func measure(
        _ name: String, seconds: Double = 4, growth: Int, share: Double = 0.9, least: Int,
        _ attack: @escaping @Sendable (_ isWanted: @Sendable (Int) -> Bool) throws -> Int
    ) async throws -> Figures {
        var figures = Figures()
        let descriptors = try descriptorCount()
        let seconds = Soak.isLong ? seconds : min(seconds, 1)
        let most = try await reads(nil, seconds: min(seconds, 1))
        let rate = min(1_000, max(20, most.rate / 2))
        figures.calm.add(try await reads(rate, seconds: seconds / 2), rate)
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
            let limit = Duration.seconds(seconds) + (progress.count >= least ? .zero : Patience.limit)
            isEnough = figures.elapsed >= limit
        } while !isEnough && !progress.hasEnded
        progress.stop()
        figures.attackCount = try await attacking
        figures.growth = max(figures.growth, try residentBytes() - memory)
        print("attack \(name): \(Self.text(figures, rate: rate))")
        #expect(figures.attackCount >= least, "\(name)")
        #expect(figures.wasReady)
        expectFigure(figures.attacked.share >= share, "\(name)")
        #expect(figures.attacked.troubles == 0, "\(name)")
        #expect(figures.growth <= growth, "\(name)")
        #expect(try descriptorsReturn(to: descriptors), "\(name)")
        return figures
    }

    private static func text(_ figures: Figures, rate: Double) -> String {
        let (calm, attacked) = (figures.calm, figures.attacked)
        let number: (Double) -> String = { String(format: "%.1f", $0) }
        return "of \(Int(rate)) bystander reads a second \(number(attacked.share * 100)) % were answered, "
            + "without it \(number(calm.share * 100)) %; median \(number(attacked.milliseconds(0.5))) ms, 99 % "
            + "\(number(attacked.milliseconds(0.99))) ms, without it \(number(calm.milliseconds(0.5))) and "
            + "\(number(calm.milliseconds(0.99))) ms; resident memory +\(figures.growth / 1_024) KiB; "
            + "\(figures.attackCount) times in \(figures.elapsed)"
    }

    /// Performs the bystander's reads over two connections, at `rate` reads a second, or as fast as possible if `nil`.
    private func reads(_ rate: Double?, seconds: Double) async throws -> LoadReport {
        let target = LoadTarget(host: "127.0.0.1", port: server.port)
        let read = RequestBytes(
            "GET", "/v1/kv/\(bystander.prefix)note", at: target, credential: LoadCredential(token: bystander.token))
        let works = (0..<2).map { _ in RepeatedRequests([read], expecting: 200...200) }
        var plan = LoadPlan(kinds: ["read"], works: works, seconds: seconds, rate: rate)
        plan.patience = Double(Patience.seconds)
        return try await LoadRun.run(plan, at: target)
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

    /// Waits until the server has about `count` open descriptors.
    func descriptorsReturn(to count: Int) throws -> Bool {
        try comesTrue {
            _ = try ask(server.port, "GET", "/healthz")
            return try descriptorCount() <= count + 4
        }
    }

    /// Waits until the metric `name` is at least `count`.
    func reaches(_ name: String, _ count: Double) throws -> Bool {
        try comesTrue { try figure(name) >= count }
    }

    /// The value of a metric of `/metrics`.
    func figure(_ name: String) throws -> Double {
        let text = try ask(server.port, "GET", "/metrics")?.text ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line?.split(separator: " ").last.flatMap { Double($0) } ?? 0
    }
}
