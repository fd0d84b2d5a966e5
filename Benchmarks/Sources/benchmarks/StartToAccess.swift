import BenchmarkSupport
import Entitlements

/// Measures the time from process start to an answer, against a process that does nothing.
struct StartToAccess {
    let catalog: Catalog
    let catalogPath: String
    let programPath: String

    static let purchaseCount = 200

    func measure(with stopwatch: inout Stopwatch) -> Measurement {
        guard isExecutable(programPath) else { exitWithFailure("\(programPath) is missing, build the package first") }
        var generator = FactGenerator(catalog: catalog, seed: 200)
        let ledger = Ledger(generator.purchases(count: Self.purchaseCount).map(\.record))
        let path = temporaryFile(LedgerDocument(ledger: ledger).encoded())
        defer { removeFile(path) }
        let replay = Replay(Facts(account: ledger), catalog: catalog)
        guard let active = replay.timelines["random"]?.periods.last?.start else {
            exitWithFailure("wrong before it was timed: nothing was bought")
        }
        let arguments = [path, catalogPath, String(active.milliseconds)]
        expect(run(programPath, arguments) == 0, "the started process grants access")
        stopwatch.rounds = 101
        stopwatch.roundNanoseconds = 0
        return stopwatch.measure(
            "start to access", size: Self.purchaseCount,
            floor: { _ in UInt64(run("/bin/true", [])) },
            subject: { _ in
                let code = run(programPath, arguments)
                expect(code == 0, "the started process grants access")
                return UInt64(code)
            })
    }
}
