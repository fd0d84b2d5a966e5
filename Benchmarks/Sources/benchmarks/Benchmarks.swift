import BenchmarkSupport
import Entitlements

@main
struct Benchmarks {
    static func main() {
        var arguments = Arguments(usage: "benchmarks [--short] [--json]")
        let (isShort, isJSON) = (arguments.flag("--short"), arguments.flag("--json"))
        arguments.end()
        requireRelease(unless: isShort)
        let report = measure(isShort: isShort)
        print(isJSON ? report.json : report.text)
    }

    private static func measure(isShort: Bool) -> Report {
        let catalogPath = repositoryPath + "/Examples/insomniowl.json"
        let catalog: Catalog
        do { catalog = try Catalog(json: contents(of: catalogPath)) } catch { exitWithFailure("\(error)") }
        var stopwatch = Stopwatch(isShort: isShort)
        var measurements: [Measurement] = []
        for (size, count) in isShort ? [(10, 2), (1_000, 1)] : [(10, 16), (1_000, 16), (100_000, 1)] {
            let workloads = (0..<count).map { Workload(size: size, catalog: catalog, seed: UInt64(size + 2 * $0)) }
            for workload in workloads { workload.check() }
            measurements += Scenarios(workloads: workloads).measure(with: &stopwatch)
        }
        let start = StartToAccess(
            catalog: catalog, catalogPath: catalogPath, programPath: programFolder + "/start-to-access")
        let started = start.measure(with: &stopwatch)
        let kit = KitStartToAccess(
            catalogPath: catalogPath, programFolder: programFolder, purchaseCount: isShort ? 300 : 1_000
        ).measure(with: &stopwatch)
        return Report(
            measurements: measurements, start: started, kit: kit, checksum: stopwatch.checksum,
            pace: SimulationPace(days: isShort ? 7 : 365).measure())
    }

    /// The folder of the package, four levels above this file.
    private static var repositoryPath: String { #filePath.removingLastComponents(4) }

    /// The folder with this program, start-to-access and kit-start-to-access.
    private static var programFolder: String { CommandLine.arguments[0].removingLastComponents(1) }
}

extension String {
    fileprivate func removingLastComponents(_ count: Int) -> String {
        split(separator: "/", omittingEmptySubsequences: false).dropLast(count).joined(separator: "/")
    }
}
