import BenchmarkSupport
import Entitlements

@main
struct Benchmarks {
    static func main() {
        let arguments = Set(CommandLine.arguments.dropFirst())
        guard arguments.isSubset(of: ["--json"]) else { exitWithFailure("usage: benchmarks [--json]") }
        #if DEBUG
        exitWithFailure("a debug build measures nothing of use, run with -c release")
        #else
        let report = measure()
        print(arguments.contains("--json") ? report.json : report.text)
        #endif
    }

    private static func measure() -> Report {
        let catalogPath = repositoryPath + "/Examples/insomniowl.json"
        let catalog: Catalog
        do { catalog = try Catalog(json: contents(of: catalogPath)) } catch { exitWithFailure("\(error)") }
        var stopwatch = Stopwatch()
        var measurements: [Measurement] = []
        for (size, count) in [(10, 16), (1_000, 16), (100_000, 1)] {
            let workloads = (0..<count).map { Workload(size: size, catalog: catalog, seed: UInt64(size + 2 * $0)) }
            for workload in workloads { workload.check() }
            measurements += Scenarios(workloads: workloads).measure(with: &stopwatch)
        }
        let start = StartToAccess(
            catalog: catalog, catalogPath: catalogPath, programPath: programFolder + "/start-to-access")
        let started = start.measure(with: &stopwatch)
        return Report(
            measurements: measurements, start: started, checksum: stopwatch.checksum,
            pace: SimulationPace().measure())
    }

    /// Where the sources are: four levels above this file.
    private static var repositoryPath: String { #filePath.removingLastComponents(4) }

    /// Where this program and its sibling were built.
    private static var programFolder: String { CommandLine.arguments[0].removingLastComponents(1) }
}

extension String {
    fileprivate func removingLastComponents(_ count: Int) -> String {
        split(separator: "/", omittingEmptySubsequences: false).dropLast(count).joined(separator: "/")
    }
}
