import Foundation
import SyncCoreTesting

/// Kills processes at random moments, most of them about when the earlier ones finished: there the writing is.
///
/// How long a command takes here and now is measured by the first, which is left alone, and followed from then on. So
/// about half of the others are killed on a fast machine and on a busy one.
struct Aim {
    private var generator: SeededGenerator
    private let step: Double
    private var usual: Duration?
    private(set) var killed = 0
    private(set) var finished = 0

    /// - Parameter step: by which factor the usual time grows after a kill, and shrinks after a command that finished.
    init(generator: SeededGenerator, step: Double) {
        self.generator = generator
        self.step = step
    }

    /// Whether this many were killed, and as many finished.
    func hasHit(_ count: Int) -> Bool { killed >= count && finished >= count }

    /// The exit code of `process`, `nil` when it was killed before its end.
    mutating func shoot(at process: RunningCommand) -> Int32? {
        guard let usual else {
            let start = ContinuousClock.now
            let outcome = process.outcome()
            self.usual = ContinuousClock.now - start
            finished += 1
            return outcome.exitCode
        }
        process.kill(after: usual * Double.random(in: 0.4...1.2, using: &generator))
        let exitCode = process.outcome().exitCode
        if exitCode == -SIGKILL {
            killed += 1
            self.usual = usual * step
            return nil
        }
        finished += 1
        self.usual = usual / step
        return exitCode
    }
}
