#if os(macOS) || os(Linux)
public import SyncCore

extension CrashTrial {
    /// Lets processes write into one store, kills them at random moments, and looks what is there; again and again.
    ///
    /// After each round the store is opened again. Every change that was acknowledged must be there, byte for byte; of
    /// each task the one change that was under way may be; nothing else may. The counter has all acknowledged steps.
    /// The store must take a new write at once. Every 100 rounds, and in the end, all entries of all rounds are read.
    ///
    /// - Parameters:
    ///   - rounds: 1 or more.
    ///   - seed: decides what is written and the moments of the kills.
    ///   - processes: how many write at once; one where the store is not shared between processes.
    ///   - tasks: how many tasks write in each process, 1 to 64.
    ///   - limit: no further round begins after so long; `nil` for no limit.
    ///   - host: the timer of the moments and of `limit`.
    ///   - command: how to start a child that calls ``writer(_:errand:)`` with the errand it is given.
    ///   - reopen: opens the store in this process.
    ///   - afterRound: looks at the store's files, or checks it in a way of its own.
    /// - Returns: what was found. A child that ends by itself, or that is silent for a minute, is a failure.
    /// - Throws: what `command`, `reopen` and `afterRound` throw.
    public static func run(
        rounds: Int, seed: UInt64, processes: Int = 2, tasks: Int = 3, limit: Duration? = nil,
        host: HostServices = .system, command: @Sendable (_ errand: String) async throws -> Command,
        reopen: @Sendable () async throws -> any KeyValueBackend,
        afterRound: (@Sendable (_ round: Int) async throws -> Void)? = nil
    ) async throws -> CrashReport {
        precondition(rounds >= 1 && processes >= 1 && (1...64).contains(tasks), "at least one of each")
        let watch = Stopwatch(host.timer)
        var audit = CrashAudit(seed: seed)
        var generator = SeededGenerator(seed: seed)
        let isShared = try await reopen().capabilities.sharedBetweenProcesses
        for round in 0..<rounds {
            if let limit, watch.elapsed > limit, round > 0 { break }
            let errands = (0..<(isShared ? processes : 1)).map {
                CrashErrand(seed: seed, round: round, process: $0, taskCount: tasks)
            }
            var commands: [Command] = []
            for errand in errands { commands.append(try await command(errand.text)) }
            // The first is killed while it makes the store, unless there is no other.
            let isEarly = round == 0 && rounds > 1
            let told = try await killed(commands, atOnce: isEarly, host: host, using: &generator)
            let backend = try await reopen()
            let isLast = round == rounds - 1 || (limit.map { watch.elapsed > $0 } ?? false)
            let isThorough = isLast || round % 100 == 99
            guard await audit.settle(round, zip(errands, told).map { ($0, $1) }, backend, readsAll: isThorough) else {
                break
            }
            try await afterRound?(round)
        }
        return audit.report
    }

    /// Starts the children, lets them write for a while, kills one after the other; answers what each has told.
    ///
    /// - Parameter atOnce: whether they are killed as soon as they have begun, whatever they have done by then.
    private static func killed(
        _ commands: [Command], atOnce: Bool, host: HostServices, using generator: inout SeededGenerator
    ) async throws -> [[String]] {
        var children: [ChildProcess] = []
        for command in commands { children.append(try ChildProcess(command.executable, command.arguments)) }
        var lines = commands.map { _ in [String]() }
        // Some rounds wait for all of them; in the others the last may die while it opens the store.
        let waitsForAll = Bool.random(using: &generator)
        for index in children.indices {
            let count = !atOnce && (index == 0 || waitsForAll) ? Int.random(in: 1...6, using: &generator) : 0
            for _ in 0...count {
                let hearing = children[index].hear()
                guard case .line(let line) = hearing else {
                    lines[index].append(hearing == .silence ? "! it said nothing for a minute" : "! it ended by itself")
                    break
                }
                if line != CrashErrand.greeting { lines[index].append(line) }
                if line.hasPrefix("!") { break }
            }
        }
        for (index, child) in children.enumerated() {
            try await host.sleep(for: .microseconds(Int.random(in: 0...1_500, using: &generator)))
            let status = child.killAndWait()
            // A process of the child's own may hold the pipe open; what the child has said is there at once.
            while case .line(let line) = child.hear(within: .seconds(2)) { lines[index].append(line) }
            if status != -9 { lines[index].append("! it ended by itself with \(status)") }
        }
        return lines
    }
}

/// Measures with a clock of which only the kind of its durations is known.
private struct Stopwatch {
    private let measure: () -> Duration

    var elapsed: Duration { measure() }

    init(_ clock: some Clock<Duration>) {
        let begin = clock.now
        measure = { begin.duration(to: clock.now) }
    }
}
#endif
