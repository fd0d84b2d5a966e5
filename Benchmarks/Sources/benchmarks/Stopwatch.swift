/// What one row came to: medians over all rounds.
struct Measurement {
    let name: String
    let size: Int
    /// Nanoseconds of one execution.
    let nanoseconds: Double
    /// Nanoseconds of what it is held against.
    let floor: Double
    /// The median of the rounds' ratios, which a change of the machine's speed between rounds does not touch.
    let ratio: Double
}

/// Times a subject and what it is held against in turns, so that both see the same machine.
struct Stopwatch {
    var rounds = 101
    /// A round repeats its work until it takes about this long, far beyond the clock's resolution.
    var roundNanoseconds = 200_000.0
    /// The sum of all results, so that no work can be left out.
    private(set) var checksum: UInt64 = 0

    /// Times `subject` against `floor`. Both are given the number of the execution, to take inputs in turn by it.
    mutating func measure(
        _ name: String, size: Int, floor: (Int) -> UInt64, subject: (Int) -> UInt64
    ) -> Measurement {
        let floorCount = repetitions(floor)
        let subjectCount = repetitions(subject)
        var (floorTimes, subjectTimes, ratios): ([Double], [Double], [Double]) = ([], [], [])
        for _ in 0..<rounds {
            let floorTime = time(floorCount, floor)
            let subjectTime = time(subjectCount, subject)
            floorTimes.append(floorTime)
            subjectTimes.append(subjectTime)
            ratios.append(subjectTime / floorTime)
        }
        return Measurement(
            name: name, size: size, nanoseconds: median(subjectTimes), floor: median(floorTimes),
            ratio: median(ratios))
    }

    private mutating func repetitions(_ work: (Int) -> UInt64) -> Int {
        var count = 1
        while count < 1 << 20 {
            let total = time(count, work) * Double(count)
            if total >= roundNanoseconds { break }
            count *= 2
        }
        return count
    }

    /// Nanoseconds of one execution, the mean of `count`.
    private mutating func time(_ count: Int, _ work: (Int) -> UInt64) -> Double {
        let clock = ContinuousClock()
        let start = clock.now
        var sum: UInt64 = 0
        for index in 0..<count { sum &+= work(index) }
        let elapsed = clock.now - start
        checksum &+= sum
        return (Double(elapsed.components.seconds) * 1e9 + Double(elapsed.components.attoseconds) / 1e9) / Double(count)
    }

    private func median(_ values: [Double]) -> Double {
        values.sorted()[values.count / 2]
    }
}
