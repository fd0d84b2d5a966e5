import Foundation

/// The extent of tests that could run for any time.
///
/// `make test` runs the short form. `make nightly` sets `LONG` for the long form, and `make soak` sets single extents.
public enum Soak {
    /// True if `LONG` is set.
    public static let isLong = asked("LONG") != nil
    /// True if `FIGURES` is set, which implies a machine without other load, so that bounds on times hold.
    public static var checksFigures: Bool { asked("FIGURES") != nil }
    /// The number of rounds in which a test kills processes: `KILL_ROUNDS`, or 10, in the long form 200.
    public static var killRounds: Int { asked("KILL_ROUNDS") ?? (isLong ? 200 : 10) }
    /// True if all rounds of killing must run, however long they take.
    public static var isKilling: Bool { isLong || asked("KILL_ROUNDS") != nil }
    /// The number of rounds in which a test kills `syncd serve`.
    public static var serverRounds: Int { isLong ? 30 : 4 }
    /// The number of operators' acts at a server that is killed: `ACTS`, or 200, in the long form 10,000.
    public static var actCount: Int { asked("ACTS") ?? (isLong ? 10_000 : 200) }
    /// The number of rounds in which a test kills a database server.
    public static var serverKillRounds: Int { isLong ? 100 : 2 }
    /// The number of seconds for which two processes write to one store: `SHARED_SECONDS`, or 1.
    public static var sharedSeconds: Int { asked("SHARED_SECONDS") ?? 1 }
    /// True if `SHARED_SECONDS` is set, which implies a machine without other load.
    public static var isSharing: Bool { asked("SHARED_SECONDS") != nil }
    /// The number of keys that are copied from files to SQLite and back: `COPIED_KEYS`, or 250.
    public static var copiedKeyCount: Int { asked("COPIED_KEYS") ?? 250 }
    /// The number of wrong passwords that are tried at a server.
    public static var guessCount: Int { isLong ? 10_000 : 1_000 }
    /// The number of mutants of each document of evidence.
    public static var mutantCount: Int { isLong ? 1_000_000 : 2_000 }
    /// The number of random accounts whose facts are read one by one.
    public static var advancedAccountCount: Int { isLong ? 100_000 : 500 }
    /// The number of users that are imported from Parse, of which a tenth logs in.
    public static var importedUserCount: Int { isLong ? 10_000 : 100 }

    /// The number of random cases of a property: `count` in the long form, otherwise a tenth, but at least `least`.
    public static func caseCount(_ count: Int, least: Int) -> Int {
        isLong ? count : min(count, max(least, count / 10))
    }

    private static func asked(_ variable: String) -> Int? {
        guard let text = ProcessInfo.processInfo.environment[variable] else { return nil }
        guard let number = Int(text), number >= 1 else {
            preconditionFailure("\(variable) must be a number from 1 up or unset, not \"\(text)\"")
        }
        return number
    }
}
