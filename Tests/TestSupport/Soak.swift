import Foundation

/// How much is done of what could be done for ever. `make soak` asks for more by the environment.
public enum Soak {
    /// How often a test kills processes: `KILL_ROUNDS`, else 100.
    public static var killRounds: Int { asked("KILL_ROUNDS") ?? 100 }
    /// Whether somebody asked for a number of rounds, and so for all of them, however long they take.
    public static var isKilling: Bool { asked("KILL_ROUNDS") != nil }
    /// For how many seconds two processes write into one store: `SHARED_SECONDS`, else 2.
    public static var sharedSeconds: Int { asked("SHARED_SECONDS") ?? 2 }
    /// Whether somebody asked for a number of seconds, on a machine that has nothing else to do.
    public static var isSharing: Bool { asked("SHARED_SECONDS") != nil }
    /// How many keys are copied from files to SQLite and back: `COPIED_KEYS`, else 250.
    public static var copiedKeyCount: Int { asked("COPIED_KEYS") ?? 250 }
    /// How many wrong passwords are tried at a server: `GUESSES`, else 10,000.
    public static var guessCount: Int { asked("GUESSES") ?? 10_000 }

    private static func asked(_ variable: String) -> Int? {
        guard let text = ProcessInfo.processInfo.environment[variable] else { return nil }
        guard let number = Int(text), number >= 1 else {
            preconditionFailure("\(variable) is \"\(text)\": give a number from 1 on, or none")
        }
        return number
    }
}
