/// What one row came to: medians over all rounds.
package struct Measurement: Sendable {
    package let name: String
    package let size: Int
    /// Nanoseconds of one execution.
    package let nanoseconds: Double
    /// Nanoseconds of what it is held against.
    package let floor: Double
    /// The median of the rounds' ratios, which a change of the machine's speed between rounds does not touch.
    package let ratio: Double
}

/// Times a subject and what it is held against in turns, so that both see the same machine.
package struct Stopwatch {
    package var rounds = 101
    /// A round repeats its work until it takes about this long, far beyond the clock's resolution.
    package var roundNanoseconds = 200_000.0
    /// The sum of all results, so that no work can be left out.
    package private(set) var checksum: UInt64 = 0

    package init() {}

    /// Times `subject` against `floor`. Both are given the number of the execution, to take inputs in turn by it.
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
    /// Times `subject` against `floor` where the subject waits: ``rounds`` rounds of `count` executions each. The
    /// numbers go on from round to round, so that inputs can be new ones every time.
    package mutating func measure(
        _ name: String, size: Int, count: Int, floor: (Int) async -> UInt64, subject: (Int) async -> UInt64
    ) async -> Measurement {
        var (floorTimes, subjectTimes, ratios): ([Double], [Double], [Double]) = ([], [], [])
        // The first round fills caches and is not counted.
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
