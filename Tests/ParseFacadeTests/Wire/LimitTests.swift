import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncService
import Testing

@Suite("The limits of callers at the Parse façade")
struct LimitTests {
    /// A limit, and the requests that it counts.
    enum Limit: String, CaseIterable, CustomTestStringConvertible {
        case addressRequests, unauthenticatedRequests, logIns, signUps, accountReads, accountWrites

        var testDescription: String { rawValue }

        /// Sets the limit to three requests at once, and one in ten seconds after that. The others do not apply.
        func set(_ limits: inout CallerLimits) {
            func rate(of limit: Limit) -> Rate? { limit == self ? Rate(perSecond: 0.1, burst: 3) : nil }
            (limits.addressRequests, limits.unauthenticatedRequests) = (
                rate(of: .addressRequests), rate(of: .unauthenticatedRequests)
            )
            (limits.logIns, limits.signUps) = (rate(of: .logIns), rate(of: .signUps))
            (limits.accountReads, limits.accountWrites) = (rate(of: .accountReads), rate(of: .accountWrites))
        }

        /// The request `number` that the limit counts, and the status and the code of its answer below the limit.
        func request(
            _ number: Int, of user: ParseStage.User
        ) -> (method: String, path: String, body: String, token: String?, status: Int, code: Int?) {
            switch self {
            case .addressRequests: ("GET", "/health", "{}", nil, 200, nil)
            case .unauthenticatedRequests: ("PUT", "/users/\(user.id)", #"{"a":1}"#, nil, 400, 206)
            case .logIns: ("POST", "/login", #"{"username":"owl","password":"pw"}"#, nil, 200, nil)
            case .signUps: ("POST", "/users", #"{"username":"bat\#(number)","password":"pw"}"#, nil, 201, nil)
            case .accountReads: ("GET", "/users/me", "{}", user.token, 200, nil)
            case .accountWrites: ("PUT", "/users/\(user.id)", #"{"a":\#(number)}"#, user.token, 200, nil)
            }
        }
    }

    /// The address of the requests that are counted. The user signs up from another one.
    private static let peer = "198.51.100.1"

    @Test("A request beyond a limit is refused with 429, and says how long to wait", arguments: Limit.allCases)
    func limits(_ limit: Limit) async throws {
        let stage = try await ParseStage { limit.set(&$0.callerLimits) }
        let user = await stage.signUp()
        func ask(_ number: Int, peer: String = Self.peer) async -> ParseReply {
            let request = limit.request(number, of: user)
            return await stage.ask(request.method, request.path, request.body, token: request.token, peer: peer)
        }
        func isAnswered(_ reply: ParseReply, _ number: Int) -> Bool {
            let request = limit.request(number, of: user)
            return reply.status == request.status && reply.members["code"] as? Int == request.code
        }
        for number in 1...3 { #expect(isAnswered(await ask(number), number), "\(number)") }
        for number in 4...5 {
            let refused = await ask(number)
            #expect(refused.status == 429 && refused.members["code"] as? Int == 155)
            #expect(refused.fields[.retryAfter] == "10" && refused["error"]?.hasSuffix("wait 10 s") == true)
        }
        stage.clock.advance(seconds: 10)
        #expect(isAnswered(await ask(6), 6))
        #expect(await ask(7).status == 429)
        // Limits of an address count nothing for another address, and limits of an account do.
        let isOfAccount = [.accountReads, .accountWrites].contains(limit)
        #expect(isAnswered(await ask(8, peer: "203.0.113.1"), 8) != isOfAccount)
    }

    @Test("A request for roles with an invented token is refused, and counts as one without a session")
    func inventedToken() async throws {
        let stage = try await ParseStage { Limit.unauthenticatedRequests.set(&$0.callerLimits) }
        for _ in 1...3 {
            #expect(await stage.ask("GET", "/roles", token: "r:0", peer: Self.peer).code == 209)
        }
        #expect(await stage.ask("GET", "/roles", token: "r:0", peer: Self.peer).status == 429)
        #expect(await stage.ask("GET", "/roles", peer: Self.peer).status == 429)
    }

    @Test("The requests of a batch count one by one", arguments: Limit.allCases)
    func batch(_ limit: Limit) async throws {
        let stage = try await ParseStage { limit.set(&$0.callerLimits) }
        let user = await stage.signUp()
        let requests = (1...5).map { number in
            let request = limit.request(number, of: user)
            return #"{"method":"\#(request.method)","path":"/parse\#(request.path)","body":\#(request.body)}"#
        }
        let reply = await stage.ask(
            "POST", "/batch", #"{"requests":[\#(requests.joined(separator: ","))]}"#,
            token: limit.request(1, of: user).token, peer: Self.peer)
        let results = try JSONSerialization.jsonObject(with: Data(reply.body)) as? [[String: [String: Any]]] ?? []
        let below = limit.request(1, of: user).code
        #expect(reply.status == 200)
        #expect(results.map { $0["error"]?["code"] as? Int } == [below, below, below, 155, 155])
    }
}
