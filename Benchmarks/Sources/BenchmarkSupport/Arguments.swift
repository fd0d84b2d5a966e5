/// The command line of a benchmark program: flags (`--json`), options (`--rounds 3`) and other arguments.
///
/// A wrong command line ends the process with exit code 2.
package struct Arguments {
    private let usage: String
    private var remaining: [String]

    /// - Parameter usage: the text that ``end()`` and an incomplete option show.
    package init(usage: String) {
        self.usage = usage
        remaining = Array(CommandLine.arguments.dropFirst())
    }

    /// Takes a flag and returns whether it is there.
    package mutating func flag(_ name: String) -> Bool {
        guard let place = remaining.firstIndex(of: name) else { return false }
        remaining.remove(at: place)
        return true
    }

    /// Takes an option and returns its value.
    package mutating func text(_ name: String) -> String? {
        guard let place = remaining.firstIndex(of: name) else { return nil }
        guard place + 1 < remaining.count else { exitWithFailure("\(name) needs a value; usage: \(usage)", code: 2) }
        defer { remaining.removeSubrange(place...(place + 1)) }
        return remaining[place + 1]
    }

    /// Takes an option whose value is a number in `range`.
    package mutating func number(_ name: String, in range: ClosedRange<Int>) -> Int? {
        guard let text = text(name) else { return nil }
        guard let value = Int(text), range.contains(value) else {
            exitWithFailure("\(name) must be \(range.lowerBound) to \(range.upperBound), not \(text)", code: 2)
        }
        return value
    }

    /// Takes the first argument that is neither a flag nor an option; call it after all of those.
    package mutating func positional() -> String? {
        guard let first = remaining.first, !first.hasPrefix("--") else { return nil }
        return remaining.removeFirst()
    }

    /// Rejects arguments that were not taken.
    package func end() {
        guard let first = remaining.first else { return }
        exitWithFailure("\(first) is unknown; usage: \(usage)", code: 2)
    }
}
