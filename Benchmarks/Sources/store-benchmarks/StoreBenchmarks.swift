import BenchmarkSupport

/// Times the stores against the minimal system and library calls, in alternation, in one process and on one disk.
@main
struct StoreBenchmarks {
    static let valueByteCount = 300

    static func main() async {
        var arguments = Arguments(usage: "store-benchmarks [--short] [--json] [--keys COUNT]")
        let (isShort, isJSON) = (arguments.flag("--short"), arguments.flag("--json"))
        let keyCount = arguments.number("--keys", in: 1_000...100_000_000) ?? (isShort ? 2_000 : 1_000_000)
        arguments.end()
        requireRelease(unless: isShort)
        let folder = temporaryFolder()
        defer { removeFolder(folder) }
        let stopwatch = Stopwatch(isShort: isShort)
        let report = await StoreReport(
            small: SQLiteRows(folder: folder).measure(with: stopwatch)
                + FileRows(folder: folder).measure(with: stopwatch)
                + RecordRows(folder: folder).measure(with: stopwatch),
            large: LargeStore(folder: folder, count: keyCount).measure())
        print(isJSON ? report.json : report.text)
    }
}
