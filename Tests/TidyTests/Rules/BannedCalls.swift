/// Something that the compiler allows and this code base does not.
struct BannedCall: Sendable {
    /// How it is named in a report.
    let name: String
    /// What to do instead.
    let instead: String
    /// The files, or folders with a slash at the end, that may.
    var exempt: [String] = []
    /// Whether it stands at `index` of `tokens`.
    let isAt: @Sendable (_ index: Int, _ tokens: [Token]) -> Bool

    /// The places in `files` where one of `banned` stands.
    static func violations(of banned: [BannedCall], in files: [SourceFile]) -> [Violation] {
        files.flatMap { file in
            let relevant = banned.filter { ban in !ban.exempt.contains { covers($0, file.path) } }
            return file.tokens.indices.flatMap { index in
                relevant.filter { $0.isAt(index, file.tokens) }.map { ban in
                    Violation(
                        path: file.path, line: file.tokens[index].line, message: "\(ban.name): \(ban.instead)")
                }
            }
        }
    }

    private static func covers(_ exemption: String, _ path: String) -> Bool {
        exemption.hasSuffix("/") ? path.hasPrefix(exemption) : path == exemption
    }
}

extension BannedCall {
    /// What no code that ships may use.
    static let inProduct: [BannedCall] =
        everywhere + [
            BannedCall(
                name: "the wall clock", instead: "take the time from HostServices", exempt: [hostFile],
                isAt: sequence(
                    ["Date", "(", ")"], ["Date", ".", "init", "(", ")"], ["Date", ".", "now"],
                    ["=", ".", "now"], [":", ".", "now"], ["(", ".", "now"], [",", ".", "now"], ["return", ".", "now"],
                    ["timeIntervalSinceNow"], ["clock_gettime", "("], ["gettimeofday", "("])),
            BannedCall(
                name: "system randomness", instead: "take random bits from HostServices", exempt: [hostFile],
                isAt: sequence(["SystemRandomNumberGenerator"])),
            BannedCall(
                name: "UUID()", instead: "make ids from the bits of HostServices",
                isAt: sequence(["UUID", "(", ")"], ["UUID", ".", "init", "(", ")"])),
            BannedCall(
                name: "an unstructured task", instead: "use a task group or async let",
                // Where the simulation starts what lives on its own: processes, and messages under way; and small
                // writes, all of which the listener waits for.
                exempt: [
                    "Sources/SyncSimulation/Execution/Scheduler.swift", "Sources/SyncServer/Requests/RequestTasks.swift",
                ], isAt: startsTask),
            BannedCall(
                name: "DispatchQueue", instead: "use a task group, or a Mutex",
                // The one thread on which SQLite waits for the disk.
                exempt: ["Backends/SQLite/SerialQueue.swift"], isAt: sequence(["DispatchQueue"])),
            BannedCall(
                name: "fatalError", instead: "throw, or state a precondition", isAt: freeFunction("fatalError")),
            BannedCall(
                name: "@unchecked Sendable", instead: "use a Mutex and let the compiler check",
                // A run of the simulation keeps to one thread, which the compiler cannot know.
                exempt: ["Sources/SyncSimulation/"],
                isAt: sequence(["@", "unchecked"])),
            BannedCall(name: "as!", instead: "use as? and handle the other case", isAt: sequence(["as!"])),
            BannedCall(
                name: "print", instead: "return a value or report an event",
                exempt: ["Sources/syncd/", "Sources/syncsim/"],
                isAt: freeFunction("print", "debugPrint")),
        ]

    /// What tests may not use either: a test that waits for the wall clock is slow, or wrong on a slow machine.
    static let everywhere: [BannedCall] = [
        BannedCall(name: "try!", instead: "throw", isAt: sequence(["try!"])),
        BannedCall(
            name: "sleeping", instead: "wait for what happens, or use the timer of HostServices",
            isAt: {
                sequence(["Thread", ".", "sleep"])($0, $1) || member("sleep", ofTaskAt: $0, in: $1)
                    || freeFunction("sleep", "usleep", "nanosleep")($0, $1)
            }),
    ]

    /// What tests may not use beside: many run at once in one process, and start others.
    static let inTests: [BannedCall] =
        everywhere + [
            BannedCall(
                name: "waitUntilExit", instead: "use ProcessEnd, which does not wait for ever",
                exempt: ["Tests/TestSupport/ProcessEnd.swift"], isAt: sequence(["waitUntilExit"])),
            BannedCall(
                name: "Pipe()", instead: "use Pipe.closedOnExec(), which no other process keeps open",
                exempt: ["Tests/TestSupport/Pipe+ClosedOnExec.swift"], isAt: sequence(["Pipe", "(", ")"])),
        ]

    private static let hostFile = "Sources/SyncCore/Contract/HostServices+System.swift"

    /// Matches any of `patterns`, each a run of tokens.
    private static func sequence(_ patterns: [String]...) -> @Sendable (Int, [Token]) -> Bool {
        { index, tokens in
            patterns.contains { pattern in
                index + pattern.count <= tokens.count
                    && pattern.indices.allSatisfy { tokens[index + $0].text == pattern[$0] }
            }
        }
    }

    /// Matches a call of a global function of `names`, bare or behind its module, and no method of that name.
    private static func freeFunction(_ names: String...) -> @Sendable (Int, [Token]) -> Bool {
        { index, tokens in
            guard names.contains(tokens[index].text), index + 1 < tokens.count, tokens[index + 1].text == "(" else {
                return false
            }
            let before = index > 0 ? tokens[index - 1].text : ""
            guard before == "." else { return before != "func" }
            return index > 1 && ImportTable.systemModules.union(["Swift"]).contains(tokens[index - 2].text)
        }
    }

    /// Matches what starts a task nobody waits for: `Task {`, `Task<A, B>(`, `Task.detached`, …
    @Sendable private static func startsTask(_ index: Int, _ tokens: [Token]) -> Bool {
        guard tokens[index].text == "Task" else { return false }
        let before = index > 0 ? tokens[index - 1].text : ""
        let next = afterGenericArguments(index + 1, tokens)
        guard next < tokens.count, before != "extension" else { return false }
        switch tokens[next].text {
        case "(": return true
        // `-> Task<A, B> {` and `var task: Task<A, B> {` begin a body.
        case "{": return next == index + 1 || (before != "->" && before != ":")
        case ".":
            let starters = ["detached", "init", "immediate", "immediateDetached"]
            return starters.contains { member($0, ofTaskAt: index, in: tokens) }
        default: return false
        }
    }

    private static func member(_ name: String, ofTaskAt index: Int, in tokens: [Token]) -> Bool {
        guard tokens[index].text == "Task" else { return false }
        return sequence([".", name])(afterGenericArguments(index + 1, tokens), tokens)
    }

    /// The index after `<…>` at `index`, or `index` itself where there is none.
    private static func afterGenericArguments(_ index: Int, _ tokens: [Token]) -> Int {
        guard index < tokens.count, tokens[index].text == "<" else { return index }
        var depth = 0
        for position in index..<tokens.count {
            if tokens[position].text == "<" { depth += 1 }
            if tokens[position].text == ">" { depth -= 1 }
            if depth == 0 { return position + 1 }
        }
        return index
    }
}

/// Notes that something is unfinished, in code or in comments.
enum Leftovers {
    // Put together from halves, or this file would be the first to be found.
    private static let marks = ["TO" + "DO", "FIX" + "ME"]

    static func violations(inText text: String, at path: String) -> [Violation] {
        text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().flatMap { index, line in
            let words = line.split { !$0.isLetter }
            return marks.filter { mark in words.contains { $0 == mark } }.map { mark in
                Violation(path: path, line: index + 1, message: "\(mark): do it, or say in prose what is missing")
            }
        }
    }
}
