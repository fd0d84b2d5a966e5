/// The servers that derive rows from the store.
package struct ProjectionSetup: Codable, Hashable, Sendable {
    /// The server that does not; `nil` for none.
    package var idleServer: Int?

    /// A projection by all servers.
    package init() {}
}
