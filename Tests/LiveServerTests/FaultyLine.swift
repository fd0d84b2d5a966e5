import Foundation
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport

/// A proxy of HTTP/1.1 between clients and a server on this machine that does whatever a bad line or a bad proxy does,
/// drawn by a seed.
final class FaultyLine: Sendable {
    /// What becomes of an exchange.
    enum Fault: String, CaseIterable {
        /// The connection is closed before the server hears of it.
        case requestLost
        /// The connection is reset when half of the request has come.
        case requestCut
        /// The server is asked, and the connection closed without an answer.
        case answerLost
        /// The server is asked, and the connection reset in the middle of the answer.
        case answerCut
        /// The server is asked, and nothing is ever said.
        case silence
        /// The server is asked twice, and the second answer is handed out.
        case requestTwice
        /// The answer comes twice.
        case answerTwice
        /// The last answer of the connection comes once more, before this one.
        case answerOfAnother
        /// The proxy says by itself, in its own words, that it cannot.
        case failure
        /// The server is asked, and the proxy says that it could not.
        case falseFailure
        /// The answer's clock is years away.
        case wrongClock
    }

    private struct State {
        var generator: SeededGenerator
        var isFaulty = false
        /// What comes next, so that everything comes.
        var deck: [Fault] = []
        var counts: [Fault: Int] = [:]
    }

    /// Where clients connect.
    var url: String { "http://\(server.authority)" }
    /// Whether anything goes wrong. Nothing does at first.
    var isFaulty: Bool {
        get { state.value.withLock { $0.isFaulty } }
        set { state.value.withLock { $0.isFaulty = newValue } }
    }
    /// How often each fault happened.
    var counts: [Fault: Int] { state.value.withLock { $0.counts } }

    /// How many connections of clients there are.
    var openConnectionCount: Int { server.openConnectionCount }

    private final class Shared: Sendable {
        let value: Mutex<State>
        init(_ state: State) { value = Mutex(state) }
    }

    private let state: Shared
    private let server: RawServer

    /// A line to the server that listens on `port`.
    init(to port: Int, seed: UInt64) throws {
        let state = Shared(State(generator: SeededGenerator(seed: seed)))
        self.state = state
        server = try RawServer { client, _ in
            guard let server = RawConnection.connect(to: UInt16(port)) else { return }
            defer { server.close() }
            var last: [UInt8]?
            while let request = client.readMessage() {
                let fault = Self.draw(state, hasAnswered: last != nil)
                guard let answer = Self.carry(request, client, server, fault, last) else { return }
                last = answer
            }
        }
    }

    private static func draw(_ state: Shared, hasAnswered: Bool) -> Fault? {
        state.value.withLock { state in
            guard state.isFaulty, Bool.random(using: &state.generator) else { return nil }
            if state.deck.isEmpty {
                // Silence costs as long as a client waits.
                state.deck = (Fault.allCases + Fault.allCases.filter { $0 != .silence })
                    .shuffled(using: &state.generator)
            }
            let next = state.deck.firstIndex { $0 != .answerOfAnother || hasAnswered }
            guard let next else { return nil }
            let fault = state.deck.remove(at: next)
            state.counts[fault, default: 0] += 1
            return fault
        }
    }

    /// Carries one exchange; `nil` when the connection is over.
    private static func carry(
        _ request: [UInt8], _ client: RawConnection, _ server: RawConnection, _ fault: Fault?, _ last: [UInt8]?
    ) -> [UInt8]? {
        switch fault {
        case .requestLost: return nil
        case .requestCut:
            server.write(Array(request[..<(request.count / 2)]))
            client.reset()
            return nil
        case .failure:
            client.answer("<h1>Bad gateway</h1>", fields: "Retry-After: 0\r\n", status: "502 Bad Gateway")
            return nil
        default: break
        }
        server.write(request)
        guard var answer = server.readMessage() else { return nil }
        switch fault {
        case .answerLost: return nil
        case .answerCut:
            client.write(Array(answer[..<(answer.count / 2)]))
            client.reset()
            return nil
        case .silence:
            client.waitForEnd()
            return nil
        case .falseFailure:
            client.answer("", status: "503 Service Unavailable")
            return nil
        case .requestTwice:
            server.write(request)
            guard let second = server.readMessage() else { return nil }
            answer = second
        case .answerTwice: client.write(answer)
        case .answerOfAnother: if let last { client.write(last) }
        case .wrongClock: answer = withWrongClock(answer)
        default: break
        }
        client.write(answer)
        return answer
    }

    /// The answer, by a clock that is three years late.
    private static func withWrongClock(_ answer: [UInt8]) -> [UInt8] {
        guard let field = answer.firstRange(of: Array("EntitlementSync-Time: ".utf8)) else { return answer }
        let digits = answer[field.upperBound...].prefix { $0 != UInt8(ascii: "\r") }
        guard let time = Int64(String(decoding: digits, as: UTF8.self)) else { return answer }
        let wrong = Array(String(time - 3 * 366 * 86_400_000).utf8)
        return Array(answer[..<digits.startIndex]) + wrong + answer[digits.endIndex...]
    }
}
