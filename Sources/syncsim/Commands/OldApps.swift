import ArgumentParser
import Entitlements
import SyncSimulation

struct OldApps: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "old-apps",
        abstract: "Run histories of accounts that old Parse apps use.",
        discussion: """
            Prints the number of histories of each kind that lose paid time or gain time that was not paid: under the \
            rules of the server, and under a server that keeps the later date. Then the seeds that fail under the rules.

            Examples:
              syncsim old-apps --seeds 0..199
              syncsim old-apps --seeds 12 --kind newVersion --trace
            """)

    @Option(help: ArgumentHelp("The first and the last seed, or a single seed.", valueName: "A..B"))
    var seeds: String

    @Option(help: ArgumentHelp("The kind of history, one of \(names); by default all.", valueName: "kind"))
    var kind: String?

    @Flag(help: "Print the events of one history; needs --kind and a single seed.")
    var trace = false

    private static let names = OldAppKind.allCases.map(\.rawValue).joined(separator: ", ")

    func run() throws {
        #if Parse
        try runHistories()
        #else
        throw Failure(
            .usage, "old-apps: this syncsim was built without the Parse trait; build with --traits Parse")
        #endif
    }
}

#if Parse
extension OldApps {
    /// The maximum number of failing seeds that are listed.
    private static let listed = 20

    private func runHistories() throws {
        let (seeds, kinds, table) = (try SeedRange(seeds), try kinds(), try OldAppTable())
        if trace {
            guard kinds.count == 1, seeds.first == seeds.last else {
                throw Failure(.usage, "--trace needs --kind and a single seed")
            }
            let (outcome, lines) = table.outcome(kinds[0], seed: seeds.first, isRecording: true)
            try writeOutput((lines + ["\(outcome)"]).joined(separator: "\n") + "\n")
            if kinds[0].mustHold, !outcome.isEven { throw ExitCode.failure }
            return
        }
        Interruption.watch()
        let rows = kinds.map { table.row($0, seeds: seeds.first...seeds.last) { Interruption.isAsked } }
        try writeOutput(Self.text(rows))
        if rows.contains(where: { !$0.failures.isEmpty }) { throw ExitCode.failure }
        if Interruption.isAsked { throw ExitCode(Interruption.exitCode) }
    }

    private func kinds() throws(Failure) -> [OldAppKind] {
        guard let kind else { return OldAppKind.allCases }
        guard let known = OldAppKind(rawValue: kind) else {
            throw Failure(.usage, "--kind must be one of \(Self.names), not \"\(kind.singleLine)\"")
        }
        return [known]
    }

    /// The table, and the failing seeds.
    private static func text(_ rows: [OldAppTable.Row]) -> String {
        var lines = [line("kind", "histories", "lost", "gained", "later date: lost", "gained")]
        lines += rows.map { row in
            line(
                row.kind.rawValue, "\(row.seeds)", "\(row.rules.lost)", "\(row.rules.gained)",
                "\(row.laterDate.lost)", "\(row.laterDate.gained)")
        }
        let failures = rows.flatMap { row in row.failures.map { "  \($0.seed)  \(row.kind): \($0.outcome)" } }
        if !failures.isEmpty {
            lines.append(failures.count == 1 ? "1 history fails:" : "\(failures.count) histories fail:")
            lines += shortened(failures)
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func line(_ cells: String...) -> String {
        zip(cells, [19, -9, -6, -6, -17, -6]).map { $0.padded($1) }.joined(separator: " ")
    }
}
#endif
