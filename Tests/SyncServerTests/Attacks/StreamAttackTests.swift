import Foundation
import TestSupport
import Testing

extension Attacks {
    @Suite("Streams that do harm", .serialized)
    struct StreamAttackTests {
        private static let addressCount = 40

        private static func watch(_ token: String, from address: String) -> String {
            request(
                "GET", "/v1/changes",
                fields: [
                    "Authorization: Bearer \(token)", "Accept: text/event-stream", "X-Forwarded-For: \(address)",
                ])
        }

        /// How long it takes until a stream begins, and what is told.
        private static func open(_ token: String, over connection: RawConnection) -> (status: Int, elapsed: Duration) {
            let start = ContinuousClock.now
            connection.send(watch(token, from: "203.0.113.7"))
            let status = connection.answer(hasBody: false)?.status ?? 0
            return (status, ContinuousClock.now - start)
        }

        @Test("strangers with made-up tokens, from many addresses, who ask for streams: those who are known get theirs")
        func strangers() throws {
            let stage = try AttackStage(options: ["--trusted-proxy", "127.0.0.1"])
            let newcomer = try AttackStage.signUp("newcomer", stage.server)
            let (most, each) = (2_000, 8)
            let strangers = try (0..<most).map { _ in try RawConnection(port: stage.server.port) }
            let watchers = try (0..<9).map { _ in try RawConnection(port: stage.server.port) }
            #expect(try ask(stage.server.port, "GET", "/healthz")?.status == 200)
            for (number, stranger) in strangers.enumerated() {
                let ask = Self.watch("made.up.\(number)", from: "198.51.100.\(number % Self.addressCount)")
                stranger.send(String(repeating: ask, count: each))
            }
            let opened = watchers.prefix(8).map { Self.open(stage.bystander.token, over: $0) }
            let elapsed = opened.map(\.elapsed).sorted()
            let new = Self.open(newcomer.token, over: watchers[8])
            print(
                "\(most * each) made-up streams: a known account's open within \(elapsed), "
                    + "a new one's after \(new.elapsed)")
            #expect(opened.allSatisfy { $0.status == 200 })
            // The first waits until what all of them have sent was read.
            #expect(elapsed[elapsed.count / 2] < .milliseconds(500))
            #expect(try #require(elapsed.last) < .seconds(10))
            #expect([200, 503].contains(new.status))
            var seen: [Int: Int] = [:]
            for stranger in strangers {
                for _ in 0..<each {
                    guard let status = stranger.answer()?.status else { break }
                    seen[status, default: 0] += 1
                }
            }
            print("told to strangers: \(seen.sorted { $0.key < $1.key })")
            #expect(Set(seen.keys).isSubset(of: [401, 429, 503]))
            #expect((seen[401] ?? 0) >= most)
            withExtendedLifetime(watchers) {}
            #expect(stage.server.stop() == 0)
        }

        @Test("a request for a stream counts once for its address")
        func counting() throws {
            let stage = try AttackStage(["address-requests=0.001/3"], options: ["--trusted-proxy", "127.0.0.1"])
            let statuses = try (0..<5).map { _ in
                let connection = try RawConnection(port: stage.server.port)
                connection.send(Self.watch("made.up", from: "198.51.100.1"))
                return connection.answer()?.status
            }
            #expect(statuses == [401, 401, 401, 429, 429])
            #expect(stage.server.stop() == 0)
        }
    }
}
