import BenchmarkSupport

/// Times the stores against the bare calls that their work needs, in turns, in one process and on one disk.
@main
struct StoreBenchmarks {
    static let valueByteCount = 300

    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        var largeCount = 1_000_000
        var isJSON = false
        var index = 0
        while index < arguments.count {
            switch arguments[index] {
            case "--json": isJSON = true
            case "--keys" where index + 1 < arguments.count:
                guard let count = Int(arguments[index + 1]), count >= 1_000 else { exitWithFailure(usage) }
                largeCount = count
                index += 1
            default: exitWithFailure(usage)
            }
            index += 1
        }
        #if DEBUG
        exitWithFailure("a debug build measures nothing of use, run with -c release")
        #else
        let folder = temporaryFolder()
        defer { removeFolder(folder) }
        let report = await StoreReport(
            small: SQLiteRows(folder: folder).measure() + FileRows(folder: folder).measure(),
            large: LargeStore(folder: folder, count: largeCount).measure())
        print(isJSON ? report.json : report.text)
        #endif
    }

    private static let usage = "usage: store-benchmarks [--json] [--keys COUNT of 1000 or more]"
}
