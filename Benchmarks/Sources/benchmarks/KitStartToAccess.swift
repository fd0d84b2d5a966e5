import BenchmarkSupport

/// Measures the time from process start to an answer of EntitlementKit's `Shop`, against the same answer without the
/// kit and against processes that do nothing.
struct KitStartToAccess {
    let catalogPath: String
    /// The folder with `kit-start-to-access` and `start-to-access`.
    let programFolder: String
    let purchaseCount: Int

    struct Result {
        /// The whole process, against `/bin/true`.
        var againstTrue: Measurement
        /// The whole process, against the same program that exits at once.
        var againstNothing: Measurement
        /// The whole process, against `start-to-access` with the same ledger.
        var againstEngine: Measurement
        /// The median of the times from `main` to the answer, which the program prints.
        var mainNanoseconds: Double
    }

    func measure(with stopwatch: inout Stopwatch) -> Result {
        let (program, engine) = (programFolder + "/kit-start-to-access", programFolder + "/start-to-access")
        let folder = temporaryFolder()
        defer { removeFolder(folder) }
        let recording = ["record", catalogPath, folder, String(purchaseCount)]
        expect(run(program, recording) == 0, "\(program) records purchases")
        // The address is never contacted.
        let arguments = ["access", catalogPath, folder, "https://purchases.example.com"]
        var times: [Double] = []
        func ask(_: Int) -> UInt64 {
            let (code, text) = output(of: program, arguments)
            guard code == 0, let time = Double(text) else { exitWithFailure("\(program): exit code \(code): \(text)") }
            times.append(time)
            return UInt64(code)
        }
        _ = ask(0)
        times = []
        stopwatch.rounds = 101
        stopwatch.roundNanoseconds = 0
        func compare(_ name: String, with floor: (Int) -> UInt64) -> Measurement {
            stopwatch.measure(name, size: purchaseCount, floor: floor, subject: ask)
        }
        let againstTrue = compare("kit start to access, /bin/true") { _ in UInt64(run("/bin/true", [])) }
        let againstNothing = compare("kit start to access, exit") { _ in UInt64(run(program, ["nothing"])) }
        let againstEngine = compare("kit start to access, engine") { _ in
            // Even the short form records purchases whose periods end years after this instant, in 2027.
            let code = run(engine, [folder + "/ledger", catalogPath, "1800000000000"])
            expect(code == 0, "\(engine) grants access")
            return UInt64(code)
        }
        return Result(
            againstTrue: againstTrue, againstNothing: againstNothing, againstEngine: againstEngine,
            mainNanoseconds: times.median)
    }
}

extension KitStartToAccess.Result {
    var text: String {
        func row(_ name: String, _ measurement: Measurement) -> String {
            "\(name): \(duration(measurement.floor)), ratio \(decimal(measurement.ratio, places: 2))"
        }
        return
            "process start to access answered by the kit, \(againstTrue.size) purchases: "
            + "\(duration(againstTrue.nanoseconds)), \(duration(mainNanoseconds)) of them from main; "
            + row("/bin/true", againstTrue) + "; " + row("the same program exiting at once", againstNothing) + "; "
            + row("start-to-access with the same ledger", againstEngine)
    }

    var measurements: [Measurement] { [againstTrue, againstNothing, againstEngine] }
}
