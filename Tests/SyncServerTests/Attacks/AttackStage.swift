import Foundation
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
        /// Reads a second of the bystander: without the attack, and under it.
        var calm = 0.0
        var attacked = 0.0
        /// The best quarter of a second of those under it: the others may have gone to other programs of the machine.
        var best = 0.0
        /// The largest resident memory under the attack beyond that before it, in bytes.
        var growth = 0
        /// Whether the server was ready each time that it was asked.
        var wasReady = true

        var share: Double { attacked / max(calm, 1) }
        var bestShare: Double { best / max(calm, 1) }
    }

    /// The server answered what no server answers.
    struct Unexpected: Error {
        var description: String
    }

    private final class Flag: Sendable {
        private let value = Mutex(false)
        var isSet: Bool { value.withLock { $0 } }
        func set() { value.withLock { $0 = true } }
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

    /// Measures the bystander before, under and after `attack`, prints it, and checks that the server is ready, that it
    /// has not grown by more than `growth` bytes, and that its descriptors come back.
    ///
    /// - Parameters:
    ///   - seconds: how long the attack is looked at, where it does not end before.
    ///   - attack: is called on a thread of its own; ends when it is told to, or before.
    func endure(
        _ name: String, seconds: Double = 2, growth: Int, share: Double = 0.5,
        _ attack: @escaping @Sendable (_ shouldEnd: @Sendable () -> Bool) throws -> Void
    ) async throws -> Figures {
        var figures = Figures()
        let descriptors = try descriptorCount()
        let before = try rate(seconds: 1)
        let memory = try residentBytes()
        let (isOver, hasEnded) = (Flag(), Flag())
        async let attacking: Void = LocalListener.blocking {
            defer { hasEnded.set() }
            try attack { isOver.isSet }
        }
        var rates: [Double] = []
        let end = ContinuousClock.now + .seconds(seconds)
        repeat {
            rates.append(try rate(seconds: 0.25))
            figures.growth = max(figures.growth, try residentBytes() - memory)
            figures.wasReady = try figures.wasReady && ask(server.port, "GET", "/readyz")?.status == 200
        } while ContinuousClock.now < end && !hasEnded.isSet
        isOver.set()
        try await attacking
        let after = try rate(seconds: 1)
        // Whatever else the machine does must not be taken for the attack's effect, nor hide it.
        figures.calm = min(before, after)
        figures.attacked = rates.reduce(0, +) / Double(rates.count)
        figures.best = rates.max() ?? 0
        figures.growth = max(figures.growth, try residentBytes() - memory)
        let (kept, grown) = (Int(figures.share * 100), figures.growth / 1_024)
        print(
            "attack \(name): a bystander's reads \(Int(figures.calm))/s before and after, "
                + "\(Int(figures.attacked))/s meanwhile (\(kept) %), resident memory +\(grown) KiB")
        #expect(figures.wasReady)
        #expect(figures.bestShare >= share, "\(name)")
        #expect(figures.growth <= growth, "\(name)")
        #expect(try descriptorsReturn(to: descriptors), "\(name)")
        return figures
    }

    /// How many reads of his document a second the bystander gets over one connection.
    func rate(seconds: Double) throws -> Double {
        let connection = try RawConnection(port: server.port)
        let asked = request("GET", "/v1/kv/\(bystander.prefix)note", fields: bystander.fields)
        // All answers are as long as the first one.
        connection.send(asked)
        let length = try #require(connection.receive()).count
        let start = ContinuousClock.now
        var count = 0
        while ContinuousClock.now - start < .seconds(seconds) {
            connection.send(asked)
            var missing = length
            while missing > 0 {
                let more = try #require(connection.receive())
                try #require(!more.isEmpty, "after \(count) answers: \(server.log)")
                missing -= more.count
            }
            count += 1
        }
        return Double(count) / ((ContinuousClock.now - start) / .seconds(1))
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
