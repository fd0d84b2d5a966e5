import SyncCoreTesting

/// The output of `conformance`.
struct ConformanceOutput: Codable {
    struct Check: Codable {
        var check: String
        /// `passed`, `failed` or `skipped`.
        var result: String
        /// The failure, or the reason for skipping the check; missing if it passed.
        var reason: String?
        var milliseconds: Double
    }

    var store: String
    var retried: Bool
    var sealed: Bool
    var seed: UInt64
    var passed: Int
    var failed: Int
    var skipped: Int
    var checks: [Check]

    init(_ report: ConformanceReport, store: String, wrapping: WrappingOptions) {
        self.store = store
        retried = wrapping.retried
        sealed = wrapping.sealed != nil
        seed = report.seed
        passed = report.passedCount
        failed = report.failures.count
        skipped = report.skipped.count
        checks = report.results.map { result in
            Check(
                check: result.check, result: result.outcome.word,
                reason: result.outcome.reason?.onOneLine,
                milliseconds: (result.duration.inSeconds * 1e6).rounded() / 1e3)
        }
    }

    /// One line for each check (name, result, reason), then a summary.
    var table: String {
        let width = checks.map(\.check.count).max() ?? 0
        let rows = [("check", "result", String?.some("reason"))] + checks.map { ($0.check, $0.result, $0.reason) }
        let lines = rows.map { check, result, reason in
            let words = "\(check.padded(width))  \(result)"
            return reason.map { "\(words.padded(width + 9))  \($0)" } ?? words
        }
        let summary =
            "\(passed) passed, \(failed) failed, \(skipped) skipped, seed \(seed), store \(store)"
            + (retried ? ", retried" : "") + (sealed ? ", sealed" : "")
        return (lines + ["", summary]).joined(separator: "\n") + "\n"
    }
}
