import Foundation
import SyncCoreTesting

/// Kills processes at random moments, most of them shortly before their usual end, when they write.
///
/// The first command runs to its end to measure the usual time, which is adjusted after every further one. So
/// about half of the commands are killed, on a fast machine and on a busy one.
struct KillTimer {
    private var generator: SeededGenerator
    private let step: Double
    private var usual: Duration?
    private(set) var killed = 0
    private(set) var finished = 0

    /// - Parameter step: the factor by which the usual time grows after a kill and shrinks after a finished command.
    init(generator: SeededGenerator, step: Double) {
        self.generator = generator
        self.step = step
    }

    /// Returns `true` if at least `count` commands were killed and as many finished.
    func hasSeen(_ count: Int) -> Bool { killed >= count && finished >= count }

    /// Kills `process` at a random moment. Returns the exit code, or `nil` if it was killed before its end.
    mutating func runOrKill(_ process: RunningCommand) -> Int32? {
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
