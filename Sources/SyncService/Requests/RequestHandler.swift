package import HTTPTypes
package import SyncCore

/// Answers the requests of one wire: the service, the socket of a device, or a façade.
package protocol RequestHandler: Sendable {
    /// Returns `true` if this handler answers requests for `target`, a path with its query.
    func answers(_ target: String) -> Bool
    /// The response to `request`.
    func respond(to request: ServiceRequest) async -> ServiceResponse
    /// The response to a read that needs no suspension; `nil` for any other request.
    ///
    /// - Parameters:
    ///   - peer: The client's address.
    ///   - longest: The longest body to respond with, in bytes.
    func fastRead(_ request: HTTPRequest, peer: String, longest: Int) -> ServiceResponse?
    /// The refusal of a long body, before it is received; `nil` if the caller may send it.
    func refusal(ofLongBodyAfter head: HTTPRequest, peer: String) async -> ServiceResponse?
    /// Adds the header fields that every response of this wire has.
    func addFields(to fields: inout HTTPFields, for request: HTTPRequest)
    /// Checks that requests can be answered.
    func checkReadiness() async throws(BackendError)
    /// The time since the changes of the store were followed.
    var feedAge: Duration { get }
    /// The progress of the projection; `nil` without one.
    var projection: Projector.Progress? { get }
    /// The figures about webhooks; empty without them.
    var webhookProgress: [WebhookSender.Progress] { get }
    /// Returns `true` if a request has a valid token of the operator.
    func isOperator(_ head: HTTPRequest, peer: String) async -> Bool
}

extension RequestHandler {
    /// Answers paths under `/v1`.
    package func answers(_ target: String) -> Bool { target.utf8.starts(with: "/v1/".utf8) }
    /// Answers no request without suspending.
    package func fastRead(_ request: HTTPRequest, peer: String, longest: Int) -> ServiceResponse? { nil }
    /// Admits every long body.
    package func refusal(ofLongBodyAfter head: HTTPRequest, peer: String) async -> ServiceResponse? { nil }
    /// Adds nothing.
    package func addFields(to fields: inout HTTPFields, for request: HTTPRequest) {}
    /// Is always ready.
    package func checkReadiness() async throws(BackendError) {}
    /// Zero, for a wire that follows no changes.
    package var feedAge: Duration { .zero }
    /// No projection.
    package var projection: Projector.Progress? { nil }
    /// No webhooks.
    package var webhookProgress: [WebhookSender.Progress] { [] }
    /// No token is known.
    package func isOperator(_ head: HTTPRequest, peer: String) async -> Bool { false }
}
