/// An error in an input document such as a catalogue or a history, with its place.
public struct InputError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The place of the error: a path such as `products[3].duration`, or `line 4, column 7` for a syntax error. Empty
    /// if the error concerns the whole document.
    public let path: String
    /// The error at this place and the expected value.
    public let reason: String

    /// The line and the column of a syntax error, from 1; `nil` for other errors.
    package let (line, column): (Int?, Int?)

    /// Creates an error at `path`.
    package init(path: String, reason: String) {
        (self.path, self.reason, line, column) = (path, reason, nil, nil)
    }

    /// Creates a syntax error.
    init(line: Int, column: Int, reason: String) {
        (path, self.reason) = ("line \(line), column \(column)", reason)
        (self.line, self.column) = (line, column)
    }

    /// The place and the reason, on one line.
    public var description: String { path.isEmpty ? reason : "\(path): \(reason)" }
}
