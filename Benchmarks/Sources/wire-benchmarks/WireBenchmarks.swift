import BenchmarkSupport

/// Times devices against a real server, each beside libcurl with the same requests.
@main
struct WireBenchmarks {
    static func main() async {
        var arguments = Arguments(usage: "wire-benchmarks [--short] [--json] [--rounds COUNT] [--syncd PROGRAM]")
        let (isShort, isJSON) = (arguments.flag("--short"), arguments.flag("--json"))
        let rounds = arguments.number("--rounds", in: 1...10_000) ?? (isShort ? 1 : 51)
        let syncd = arguments.text("--syncd") ?? repositoryPath + "/.build/release/syncd"
        arguments.end()
        requireRelease(unless: isShort)
        let folder = temporaryFolder()
        defer { removeFolder(folder) }
        let stopwatch = WireStopwatch(rounds: rounds, turn: isShort ? 2 : 20)
        var wires: [WireMeasurement] = []
        for isSecure in [false, true] {
            wires.append(
                await WireRows(program: syncd, folder: folder, isSecure: isSecure).measure(with: stopwatch))
        }
        let report = WireReport(wires: wires)
        print(isJSON ? report.json : report.text)
    }

    /// The folder of the package, four levels above this file.
    private static var repositoryPath: String {
        #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(4).joined(separator: "/")
    }
}
