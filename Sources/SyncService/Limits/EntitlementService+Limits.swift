import EntitlementSync
package import HTTPTypes
import SyncCore
import SyncProtocol

extension EntitlementService {
    /// The longest body that is received from an unknown sender, in bytes.
    package static let unauthenticatedBodyByteCount = 1 << 16

    /// The response to a request whose body is longer than ``unauthenticatedBodyByteCount`` and must not be received:
    /// the sender is unknown or writes too often, or the path accepts no long body. `nil` if the body may be received.
    /// The server calls this method before it receives the body.
    package func refusal(ofLongBodyAfter head: HTTPRequest, peer: String) async -> ServiceResponse? {
        let target = try? RequestTarget(head)
        var response: ServiceResponse
        if let target, target.resource.handler(of: head.method)?.takesLongBody == true {
            do {
                let caller = try await identify(head, peer: peer)
                if case .account(let account) = caller, let name = account.account.name {
                    try limiter.checkWrites(account: name, now: host.now())
                }
                return nil
            } catch {
                response = failure(error)
            }
        } else {
            let most = Self.unauthenticatedBodyByteCount
            response =
                target == nil
                ? RequestError.nothingHere.response
                : .refusal(.contentTooLarge, "the body must have at most \(most) bytes here")
        }
        response.route = target?.resource.path ?? "none"
        onRefusal(.body)
        addFields(to: &response.head.headerFields, for: head)
        return response
    }

    /// Returns `true` if a request has a valid token of the operator.
    package func isOperator(_ head: HTTPRequest, peer: String) async -> Bool {
        if head.headerFields.contains(.authorization), case .operator? = try? await identify(head, peer: peer) {
            true
        } else {
            false
        }
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
}
