import Foundation
import TestSupport
import Testing

extension Attacks {
    @Suite("Attacks through event streams", .serialized)
    struct StreamAttackTests {
        private static let addressCount = 40

        private static func watch(_ token: String, from address: String) -> String {
            request(
                "GET", "/v1/changes",
                fields: [
                    "Authorization: Bearer \(token)", "Accept: text/event-stream", "X-Forwarded-For: \(address)",
                ])
        }

        /// Opens an event stream. Returns the status and the time until its header arrived.
        private static func open(_ token: String, over connection: RawConnection) -> (status: Int, elapsed: Duration) {
            let start = ContinuousClock.now
            connection.send(watch(token, from: "203.0.113.7"))
            let status = connection.answer(hasBody: false)?.status ?? 0
            return (status, ContinuousClock.now - start)
        }

        @Test("Streams requested with forged tokens from many addresses do not block those of known accounts")
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
                "\(most * each) forged stream requests: streams of a known account open within \(elapsed), "
                    + "that of a new account after \(new.elapsed)")
            #expect(opened.allSatisfy { $0.status == 200 })
            // The first one waits until the requests of all strangers have been read.
            expectFigure(elapsed[elapsed.count / 2] < .milliseconds(500))
            expectFigure(try #require(elapsed.last) < .seconds(10))
            #expect([200, 503].contains(new.status))
            var seen: [Int: Int] = [:]
            for stranger in strangers {
                for _ in 0..<each {
                    guard let status = stranger.answer()?.status else { break }
                    seen[status, default: 0] += 1
                }
            }
            print("answers to strangers: \(seen.sorted { $0.key < $1.key })")
            #expect(Set(seen.keys).isSubset(of: [401, 429, 503]))
            #expect((seen[401] ?? 0) >= most)
            withExtendedLifetime(watchers) {}
            #expect(stage.server.stop() == 0)
        }

        @Test("A stream request counts once towards the address limit")
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
