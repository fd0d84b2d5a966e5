import Foundation

/// The extent of tests that could run for any time. `make soak` and `make nightly` raise it through
/// environment variables.
public enum Soak {
    /// The number of rounds in which a test kills processes: `KILL_ROUNDS`, or 100.
    public static var killRounds: Int { asked("KILL_ROUNDS") ?? 100 }
    /// True if `KILL_ROUNDS` is set, so that all rounds run, however long they take.
    public static var isKilling: Bool { asked("KILL_ROUNDS") != nil }
    /// The number of seconds for which two processes write to one store: `SHARED_SECONDS`, or 2.
    public static var sharedSeconds: Int { asked("SHARED_SECONDS") ?? 2 }
    /// True if `SHARED_SECONDS` is set, which implies a machine without other load.
    public static var isSharing: Bool { asked("SHARED_SECONDS") != nil }
    /// True if `FIGURES` is set, which implies a machine without other load, so that bounds on times hold.
    public static var checksFigures: Bool { asked("FIGURES") != nil }
    /// The number of keys that are copied from files to SQLite and back: `COPIED_KEYS`, or 250.
    public static var copiedKeyCount: Int { asked("COPIED_KEYS") ?? 250 }
    /// The number of wrong passwords that are tried at a server: `GUESSES`, or 10,000.
    public static var guessCount: Int { asked("GUESSES") ?? 10_000 }

    private static func asked(_ variable: String) -> Int? {
        guard let text = ProcessInfo.processInfo.environment[variable] else { return nil }
        guard let number = Int(text), number >= 1 else {
            preconditionFailure("\(variable) must be a number from 1 up or unset, not \"\(text)\"")
        }
        return number
    }
}
