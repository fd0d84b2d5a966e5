/// The result of one row: medians over all rounds.
package struct Measurement: Sendable {
    package let name: String
    package let size: Int
    /// Nanoseconds of one execution.
    package let nanoseconds: Double
    /// Nanoseconds of one execution of the baseline.
    package let floor: Double
    /// The median of the rounds' ratios, which is independent of changes of the machine's speed between rounds.
    package let ratio: Double
}

/// Times a subject and its baseline in alternation, so that both run under the same conditions.
package struct Stopwatch {
    private let isShort: Bool
    /// The number of measured rounds.
    package var rounds: Int { didSet { if isShort { rounds = min(rounds, 2) } } }
    /// The approximate length of a round, far beyond the resolution of the clock.
    package var roundNanoseconds = 200_000.0
    /// The sum of all results, so that no work is optimized away.
    package private(set) var checksum: UInt64 = 0

    /// - Parameter isShort: at most two rounds, to check that everything works.
    package init(isShort: Bool) {
        self.isShort = isShort
        rounds = isShort ? 2 : 101
    }

    /// Times `subject` against `floor`, the baseline. Both get the number of the execution and choose their input by
    /// it.
    package mutating func measure(
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
            name: name, size: size, nanoseconds: subjectTimes.median, floor: floorTimes.median,
            ratio: ratios.median)
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
        return elapsed.nanoseconds / Double(count)
    }
}

extension Stopwatch {
    /// Times `subject` against `floor`, which may suspend: ``rounds`` rounds of `count` executions each. Executions are
    /// numbered across all rounds.
    package mutating func measure(
        _ name: String, size: Int, count: Int, floor: (Int) async -> UInt64, subject: (Int) async -> UInt64
    ) async -> Measurement {
        var (floorTimes, subjectTimes, ratios): ([Double], [Double], [Double]) = ([], [], [])
        // Round 0 fills caches and is not measured.
        for round in 0...rounds {
            let numbers = (round * count)..<((round + 1) * count)
            let floorTime = await time(numbers, floor)
            let subjectTime = await time(numbers, subject)
            guard round > 0 else { continue }
            floorTimes.append(floorTime)
            subjectTimes.append(subjectTime)
            ratios.append(subjectTime / floorTime)
        }
        return Measurement(
            name: name, size: size, nanoseconds: subjectTimes.median, floor: floorTimes.median, ratio: ratios.median)
    }

    private mutating func time(_ numbers: Range<Int>, _ work: (Int) async -> UInt64) async -> Double {
        let clock = ContinuousClock()
        let start = clock.now
        var sum: UInt64 = 0
        for number in numbers { sum &+= await work(number) }
        let elapsed = clock.now - start
        checksum &+= sum
        return elapsed.nanoseconds / Double(numbers.count)
    }
}
