import Foundation
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport

/// An HTTP/1.1 proxy between clients and a local server that injects network and proxy faults, chosen by a seed.
final class FaultyLine: Sendable {
    /// A fault of one exchange.
    enum Fault: String, CaseIterable {
        /// The connection is closed before the request reaches the server.
        case requestLost
        /// Half of the request is forwarded, then the connection is reset.
        case requestCut
        /// The request is forwarded, then the connection is closed without an answer.
        case answerLost
        /// The request is forwarded, then the connection is reset in the middle of the answer.
        case answerCut
        /// The request is forwarded, but its answer is withheld.
        case silence
        /// The request is forwarded twice, and the second answer is returned.
        case requestTwice
        /// The answer is sent twice.
        case answerTwice
        /// The previous answer of the connection is sent again, before this one.
        case mismatchedAnswer
        /// The proxy answers with an error of its own and does not forward the request.
        case failure
        /// The request is forwarded, but the proxy answers with an error of its own.
        case falseFailure
        /// The server time in the answer is three years in the past.
        case wrongClock
    }

    private struct State {
        var generator: SeededGenerator
        var isFaulty = false
        /// The faults to inject next. A shuffled deck ensures that every fault occurs.
        var deck: [Fault] = []
        var counts: [Fault: Int] = [:]
    }

    /// The URL for clients.
    var url: String { "http://\(server.authority)" }
    /// True while faults are injected; initially false.
    var isFaulty: Bool {
        get { state.value.withLock { $0.isFaulty } }
        set { state.value.withLock { $0.isFaulty = newValue } }
    }
    /// The number of times that each fault was injected.
    var counts: [Fault: Int] { state.value.withLock { $0.counts } }

    /// The number of open client connections.
    var openConnectionCount: Int { server.openConnectionCount }

    private final class Shared: Sendable {
        let value: Mutex<State>
        init(_ state: State) { value = Mutex(state) }
    }

    private let state: Shared
    private let server: RawServer

    /// Creates a proxy for the server that listens on `port`.
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
                // Each withheld answer takes a client timeout, so it occurs half as often.
                state.deck = (Fault.allCases + Fault.allCases.filter { $0 != .silence })
                    .shuffled(using: &state.generator)
            }
            let next = state.deck.firstIndex { $0 != .mismatchedAnswer || hasAnswered }
            guard let next else { return nil }
            let fault = state.deck.remove(at: next)
            state.counts[fault, default: 0] += 1
            return fault
        }
    }

    /// Forwards one exchange.
    ///
    /// - Returns: the answer; `nil` if the connection must be closed.
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
        case .mismatchedAnswer: if let last { client.write(last) }
        case .wrongClock: answer = withWrongClock(answer)
        default: break
        }
        client.write(answer)
        return answer
    }

    /// The answer with a server time that is three years in the past.
    private static func withWrongClock(_ answer: [UInt8]) -> [UInt8] {
        guard let field = answer.firstRange(of: Array("EntitlementSync-Time: ".utf8)) else { return answer }
        let digits = answer[field.upperBound...].prefix { $0 != UInt8(ascii: "\r") }
        guard let time = Int64(String(decoding: digits, as: UTF8.self)) else { return answer }
        let wrong = Array(String(time - 3 * 366 * 86_400_000).utf8)
        return Array(answer[..<digits.startIndex]) + wrong + answer[digits.endIndex...]
    }
}
