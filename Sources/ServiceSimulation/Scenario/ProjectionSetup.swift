/// The servers that derive rows from the store.
package struct ProjectionSetup: Codable, Hashable, Sendable {
    /// The server that does not; `nil` for none.
    package var idleServer: Int?
    /// True if they deliver the events to a receiver.
    package var deliversEvents = false
    /// The thousandths of requests to the receiver that are lost, and of its answers.
    package var lostDeliveries = 0

    /// A projection by all servers.
    package init() {}
}
