import Foundation

/// Executables that were built beside the running tests, which depend on them.
public enum BuiltProgram {
    /// The path of the executable `name`.
    public static func path(of name: String) -> String {
        let tests = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? tests.path
        return URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent(name).path
    }
}

/// How often a test kills processes: `KILL_ROUNDS` of the environment, for a soak, else 100.
public var killRounds: Int { max(1, askedKillRounds ?? 100) }

/// Whether somebody asked for a number of rounds, and so for all of them, however long they take.
public var isKillSoak: Bool { askedKillRounds != nil }

private var askedKillRounds: Int? { ProcessInfo.processInfo.environment["KILL_ROUNDS"].flatMap { Int($0) } }
