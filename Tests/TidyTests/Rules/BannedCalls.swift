/// A construct that the compiler allows and this code base bans.
struct BannedCall: Sendable {
    /// The name in a report.
    let name: String
    /// The recommended replacement.
    let instead: String
    /// Files that may use the construct. A trailing slash names a whole folder.
    var exempt: [String] = []
    /// Returns true if the construct starts at `index` of `tokens`.
    let isAt: @Sendable (_ index: Int, _ tokens: [Token]) -> Bool

    /// The uses of `banned` constructs in `files`.
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
    /// Constructs that code in a product must not use.
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
                // The simulation starts processes and messages in flight here. The server starts request tasks here,
                // and its listener waits for all of them.
                exempt: [
                    "Sources/SyncSimulation/Execution/Scheduler.swift",
                    "Sources/SyncServer/Requests/RequestTasks.swift",
                ], isAt: startsTask),
            BannedCall(
                name: "DispatchQueue", instead: "use a task group, or a Mutex",
                // The single thread that blocks in SQLite.
                exempt: ["Backends/SQLite/SerialQueue.swift"], isAt: sequence(["DispatchQueue"])),
            BannedCall(
                name: "fatalError", instead: "throw, or state a precondition", isAt: freeFunction("fatalError")),
            BannedCall(
                name: "@unchecked Sendable", instead: "use a Mutex and let the compiler check",
                // A simulation run uses a single thread, which the compiler cannot verify.
                exempt: ["Sources/SyncSimulation/"],
                isAt: sequence(["@", "unchecked"])),
            BannedCall(name: "as!", instead: "use as? and handle the other case", isAt: sequence(["as!"])),
            BannedCall(
                name: "print", instead: "return a value or report an event",
                exempt: ["Sources/syncd/", "Sources/syncsim/"],
                isAt: freeFunction("print", "debugPrint")),
        ]

    /// Constructs that neither products nor tests may use. A test that waits for wall-clock time is slow, and fails on
    /// a slow machine.
    static let everywhere: [BannedCall] = [
        BannedCall(name: "try!", instead: "throw", isAt: sequence(["try!"])),
        BannedCall(
            name: "sleeping", instead: "wait for what happens, or use the timer of HostServices",
            isAt: {
                sequence(["Thread", ".", "sleep"])($0, $1) || member("sleep", ofTaskAt: $0, in: $1)
                    || freeFunction("sleep", "usleep", "nanosleep")($0, $1)
            }),
    ]

    /// Constructs that tests must not use. Tests run concurrently in one process and start child processes.
    static let inTests: [BannedCall] =
        everywhere + [
            BannedCall(
                name: "waitUntilExit", instead: "use ProcessEnd, which has a timeout",
                exempt: ["Tests/TestSupport/ProcessEnd.swift"], isAt: sequence(["waitUntilExit"])),
            BannedCall(
                name: "Pipe()", instead: "use Pipe.closedOnExec(), so that no child process inherits it",
                exempt: ["Tests/TestSupport/Pipe+ClosedOnExec.swift"], isAt: sequence(["Pipe", "(", ")"])),
        ]

    private static let hostFile = "Sources/SyncCore/Contract/HostServices+System.swift"

    /// Matches any of `patterns`. Each pattern is a sequence of tokens.
    private static func sequence(_ patterns: [String]...) -> @Sendable (Int, [Token]) -> Bool {
        { index, tokens in
            patterns.contains { pattern in
                index + pattern.count <= tokens.count
                    && pattern.indices.allSatisfy { tokens[index + $0].text == pattern[$0] }
            }
        }
    }

    /// Matches a call of a global function in `names`, with or without its module name, but no method of that name.
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

    /// Matches the start of an unstructured task: `Task {`, `Task<A, B>(`, `Task.detached`, …
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

    /// The index after the generic arguments at `index`, or `index` itself if there are none.
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

/// Marks of unfinished work, in code or in comments.
enum Leftovers {
    // Concatenated so that this file does not report itself.
    private static let marks = ["TO" + "DO", "FIX" + "ME"]

    static func violations(inText text: String, at path: String) -> [Violation] {
        text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().flatMap { index, line in
            let words = line.split { !$0.isLetter }
            return marks.filter { mark in words.contains { $0 == mark } }.map { mark in
                Violation(path: path, line: index + 1, message: "\(mark): finish it, or describe what is missing")
            }
        }
    }
}
