/// An obstacle to the start of the background process, with its remedy.
package struct AgentError: Error, CustomStringConvertible {
    package enum Kind: Sendable {
        /// Another process keeps the store, or listens on the socket.
        case alreadyRunning
        /// The file or folder is not safe, or belongs to another user.
        case unsafe
        /// The system refused the operation.
        case failed
    }

    package let kind: Kind
    package let description: String

    init(_ kind: Kind, _ description: String) { (self.kind, self.description) = (kind, description) }
}
