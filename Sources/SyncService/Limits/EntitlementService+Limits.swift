import EntitlementSync
package import HTTPTypes
import SyncCore
import SyncProtocol

extension EntitlementService {
    /// The longest body that is received from an unknown sender, in bytes.
    package static let unauthenticatedBodyByteCount = 1 << 16

    /// The answer to a request whose body is longer than ``unauthenticatedBodyByteCount`` and must not be received: the
    /// sender is unknown or writes too often, or the path accepts no long body. `nil` if the body may be received. The
    /// server calls this method before it receives the body.
    package func refusal(ofLongBodyAfter head: HTTPRequest, peer: String) async -> ServiceAnswer? {
        var answer: ServiceAnswer
        do throws(WireTarget.Failure) {
            let place = try WireTarget(head).place
            let isExpected =
                switch place {
                case .key: head.method == .put
                case .batch, .transactions: head.method == .post
                default: false
                }
            if isExpected {
                do {
                    let caller = try await identify(head, peer: peer)
                    if case .account(let account) = caller, let name = account.account.name {
                        try limiter.checkWrites(account: name, now: host.now())
                    }
                    return nil
                } catch {
                    answer = ServiceAnswer(failure(error), route: place.route)
                }
            } else {
                let most = Self.unauthenticatedBodyByteCount
                answer = ServiceAnswer(
                    .refusal(.contentTooLarge, "the body must have at most \(most) bytes here"), route: place.route)
            }
        } catch {
            answer = ServiceAnswer(.refusal(.notFound, "there is nothing at this path"), route: "none")
        }
        onRefusal(.body)
        note(head, in: &answer.response.headerFields)
        return answer
    }

    /// Counts a request of an address. Returns the answer if the address must wait.
    func countAddress(of head: HTTPRequest, peer: String) -> ServiceAnswer? {
        do throws(RequestError) { try limiter.admit(peer, now: host.now()) } catch {
            var answer = ServiceAnswer(error.answer, route: "limited")
            note(head, in: &answer.response.headerFields)
            return answer
        }
        return nil
    }

    /// Identifies the sender of a request. A request without a valid token counts against its address.
    func identify(_ head: HTTPRequest, peer: String) async throws -> Caller {
        do throws(AuthenticationFailure) {
            return try await authenticator.caller(head.headerFields.value(of: .authorization))
        } catch {
            if case .store = error { throw error }
            try limiter.admit(stranger: peer, .other, now: host.now())
            throw error
        }
    }

    /// Counts a request that needs no token.
    func admitUnauthenticated(_ place: WireTarget.Place, peer: String) throws(RequestError) {
        let kind: RequestLimiter.UnauthenticatedKind =
            switch place {
            case .accounts: .signUp
            case .sessions: .logIn
            default: .other
            }
        try limiter.admit(stranger: peer, kind, now: host.now())
    }

    /// Counts a request of `caller` and takes a place among the account's running requests.
    func enter(_ caller: Caller, _ request: ServiceRequest) throws(RequestError) -> Budget.Ticket? {
        guard case .account(let caller) = caller, let name = caller.account.name else { return nil }
        return try limiter.enter(
            account: name, isRead: request.head.method == .get, byteCount: request.body.count, now: host.now())
    }

    /// Returns `true` if a request may change the usage of the caller's account. Reads and requests for the ledger do
    /// not.
    func isCounted(_ place: WireTarget.Place, _ method: HTTPRequest.Method, _ caller: Caller) -> Bool {
        guard usage.isLimited, method != .get, case .account(let caller) = caller else { return false }
        return switch place {
        case .key(let key): caller.scope.isCounted(key)
        case .batch: true
        default: false
        }
    }
}
