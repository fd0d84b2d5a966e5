#if os(macOS) || os(Linux)
public import SyncCore

extension CrashTrial {
    /// Repeatedly lets processes write to one store, kills them at random moments, and checks the store.
    ///
    /// After each round the store is opened again. Every acknowledged change must be present, byte for byte. For each
    /// task the one unacknowledged change may be present; any other change is a failure. The counter must include all
    /// acknowledged increments. The store must accept a new write immediately. Every 100 rounds, and at the end, all
    /// entries of all rounds are read.
    ///
    /// - Parameters:
    ///   - rounds: The number of rounds, 1 or more.
    ///   - seed: The seed for the written values and the moments of the kills.
    ///   - processes: The number of processes that write at once; reduced to one for a store that processes cannot
    ///     share.
    ///   - tasks: The number of writing tasks in each process, 1 to 64.
    ///   - limit: The time after which no further round starts; `nil` for no limit.
    ///   - host: The timer for the moments of the kills and for `limit`.
    ///   - command: Returns the command line of a child that calls ``writer(_:assignment:)`` with the given assignment.
    ///   - reopen: Opens the store in this process.
    ///   - afterRound: An additional check, for example of the files of the store.
    /// - Returns: The findings. A child that exits on its own, or that writes no output for a minute, is a failure.
    /// - Throws: The errors of `command`, `reopen` and `afterRound`.
    public static func run(
        rounds: Int, seed: UInt64, processes: Int = 2, tasks: Int = 3, limit: Duration? = nil,
        host: HostServices = .system, command: @Sendable (_ assignment: String) async throws -> Command,
        reopen: @Sendable () async throws -> any KeyValueBackend,
        afterRound: (@Sendable (_ round: Int) async throws -> Void)? = nil
    ) async throws -> CrashReport {
        precondition(
            rounds >= 1 && processes >= 1 && (1...64).contains(tasks),
            "rounds and processes must be 1 or more, tasks 1 to 64")
        let elapsed = host.stopwatch()
        var audit = CrashAudit(seed: seed)
        var generator = SeededGenerator(seed: seed)
        let isShared = try await reopen().capabilities.sharedBetweenProcesses
        for round in 0..<rounds {
            if let limit, elapsed() > limit, round > 0 { break }
            let assignments = (0..<(isShared ? processes : 1)).map {
                CrashAssignment(seed: seed, round: round, process: $0, taskCount: tasks)
            }
            var commands: [Command] = []
            for assignment in assignments { commands.append(try await command(assignment.text)) }
            // In the first round the processes are killed while the store is created, unless it is the only round.
            let isEarly = round == 0 && rounds > 1
            let reported = try await killed(commands, atOnce: isEarly, host: host, using: &generator)
            let backend = try await reopen()
            let isLast = round == rounds - 1 || (limit.map { elapsed() > $0 } ?? false)
            let isThorough = isLast || round % 100 == 99
            guard await audit.settle(round, zip(assignments, reported).map { ($0, $1) }, backend, readsAll: isThorough)
            else {
                break
            }
            try await afterRound?(round)
        }
        return audit.report
    }

    /// Starts the children, lets them write for a while, and kills them one after another. Returns the lines of each.
    ///
    /// - Parameter atOnce: True to kill the children as soon as they have started.
    private static func killed(
        _ commands: [Command], atOnce: Bool, host: HostServices, using generator: inout SeededGenerator
    ) async throws -> [[String]] {
        var children: [ChildProcess] = []
        for command in commands { children.append(try ChildProcess(command.executable, command.arguments)) }
        var lines = commands.map { _ in [String]() }
        // Some rounds wait for every child; in the others the last one may be killed while it opens the store.
        let waitsForAll = Bool.random(using: &generator)
        for index in children.indices {
            let count = !atOnce && (index == 0 || waitsForAll) ? Int.random(in: 1...6, using: &generator) : 0
            for _ in 0...count {
                let hearing = children[index].hear()
                guard case .line(let line) = hearing else {
                    lines[index].append(hearing == .silence ? "! no output for a minute" : "! it exited on its own")
                    break
                }
                if line != CrashAssignment.greeting { lines[index].append(line) }
                if line.hasPrefix("!") { break }
            }
        }
        for (index, child) in children.enumerated() {
            try await host.sleep(for: .microseconds(Int.random(in: 0...1_500, using: &generator)))
            let status = child.killAndWait()
            // A grandchild may hold the pipe open, so do not wait for its end; the child's own lines are available
            // already.
            while case .line(let line) = child.hear(within: .seconds(2)) { lines[index].append(line) }
            if status != -9 { lines[index].append("! it exited on its own with \(status)") }
        }
        return lines
    }
}
#endif
