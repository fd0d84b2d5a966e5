/// An error in an input document such as a catalogue or a history, with its place.
public struct InputError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The place of the error: a path such as `products[3].duration`, or `line 4, column 7` for a syntax error. Empty
    /// if the error concerns the whole document.
    public let path: String
    /// The error at this place and the expected value.
    public let reason: String

    /// Creates an error at `path`.
    package init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }

    /// The place and the reason, on one line.
    public var description: String { path.isEmpty ? reason : "\(path): \(reason)" }
}
