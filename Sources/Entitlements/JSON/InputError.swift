/// A document that somebody wrote (a catalogue, a history) is wrong, and where.
public struct InputError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Where: `products[3].duration`; `line 4, column 7` for text that is no JSON; empty for the whole.
    public let path: String
    /// What is wrong there and what is expected.
    public let reason: String

    /// An error at `path`.
    public init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }

    /// One line: the place and the reason.
    public var description: String { path.isEmpty ? reason : "\(path): \(reason)" }
}
