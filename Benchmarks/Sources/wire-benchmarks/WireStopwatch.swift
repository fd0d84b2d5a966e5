import BenchmarkSupport

/// The result of one row, in nanoseconds.
struct WireRow {
    let name: String
    let requests: Int
    let median: Double
    let percentile99: Double
    let floorMedian: Double
    let floorPercentile99: Double
    /// The median of the ratios of all rounds. The ratio of a round is that of the medians of its two turns.
    let ratio: Double
}

/// The rows for one kind of connection.
struct WireMeasurement {
    let name: String
    /// The length of the ledger in bytes.
    let byteCount: Int
    let rows: [WireRow]
}

/// Times each execution individually. A round runs every subject once, so that all run under the same conditions.
struct WireStopwatch {
    /// The number of measured rounds. One more round fills caches first.
    let rounds: Int
    /// The number of executions of each subject in a round.
    let turn: Int

    func measure(_ subjects: [Subject]) async throws -> [WireRow] {
        var times = subjects.map { _ in (all: [Double](), floor: [Double](), ratios: [Double]()) }
        for round in 0...rounds {
            for (index, subject) in subjects.enumerated() {
                // Each subject runs right beside its baseline.
                let floor = await time(turn) {
                    for _ in 0..<subject.requests { subject.floor.perform() }
                }
                let all = try await time(turn, subject.body)
                guard round > 0 else { continue }
                times[index].floor += floor
                times[index].all += all
                times[index].ratios.append(all.median / floor.median)
            }
        }
        return zip(subjects, times).map { subject, times in
            WireRow(
                name: subject.name, requests: subject.requests, median: times.all.median,
                percentile99: times.all.percentile99, floorMedian: times.floor.median,
                floorPercentile99: times.floor.percentile99, ratio: times.ratios.median)
        }
    }

    private func time(_ count: Int, _ body: () async throws -> Void) async rethrows -> [Double] {
        let clock = ContinuousClock()
        var times: [Double] = []
        for _ in 0..<count {
            let start = clock.now
            try await body()
            times.append((clock.now - start).nanoseconds)
        }
        return times
    }
}

extension [Double] {
    /// The 99th percentile.
    fileprivate var percentile99: Double { sorted()[count * 99 / 100] }
}
