import SyncCore

/// The assignment of one process in one round. It is passed as one argument of the command line.
struct CrashAssignment: Sendable {
    var seed: UInt64
    var round: Int
    var process: Int
    var taskCount: Int

    var text: String { "\(seed):\(round):\(process):\(taskCount)" }

    /// The beginning of the keys of a round.
    static func prefix(ofRound round: Int) -> String { "crash/\(round)/" }

    static let counter = "crash/counter"
    /// The first line of a child, before it touches the store.
    static let greeting = "+"
}

extension CrashAssignment {
    /// Parses ``text``.
    init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 4, let seed = UInt64(parts[0]), let round = Int(parts[1]), let process = Int(parts[2]),
            let taskCount = Int(parts[3]), round >= 0, process >= 0, (1...64).contains(taskCount)
        else { return nil }
        self.init(seed: seed, round: round, process: process, taskCount: taskCount)
    }
}

/// The steps of one writing task. Child and parent compute the same steps: the child performs them, and the parent
/// derives the expected content after a number of steps.
struct CrashScript {
    /// One change.
    enum Step: Hashable {
        /// Create an entry, or replace the value of an existing one.
        case write(EntryKey, [UInt8])
        /// Delete an entry.
        case delete(EntryKey)
        /// Increment the counter that all processes share.
        case raise
    }

    private let prefix: String
    private let isConditional: Bool
    private var generator: SeededGenerator
    private var count = 0
    private var present: [EntryKey] = []

    /// - Parameter isConditional: True if the store supports compare-and-swap; otherwise the steps do not use the
    ///   counter.
    init(_ assignment: CrashAssignment, task: Int, isConditional: Bool) {
        prefix = CrashAssignment.prefix(ofRound: assignment.round) + "\(assignment.process)/\(task)/"
        self.isConditional = isConditional
        let number = UInt64(assignment.round) << 20 | UInt64(assignment.process) << 10 | UInt64(task)
        var mixer = SeededGenerator(seed: assignment.seed &+ number &* 0xD134_2543_DE82_EF95)
        generator = mixer.split()
    }

    mutating func next() throws(BackendError) -> Step {
        count += 1
        let isLarge = Int.random(in: 0..<20, using: &generator) == 0
        let value = generator.bytes(count: 0...(isLarge ? 20_000 : 200))
        switch Int.random(in: 0..<10, using: &generator) {
        case 0..<5:
            let key = try EntryKey("\(prefix)\(count % 3)/\(count)")
            present.append(key)
            return .write(key, value)
        case 5..<8:
            return .write(try EntryKey("\(prefix)replaced"), value)
        case 8 where !present.isEmpty:
            return .delete(present.remove(at: Int.random(in: present.indices, using: &generator)))
        case 9 where isConditional:
            return .raise
        default:
            return .write(try EntryKey("\(prefix)also replaced"), value)
        }
    }
}
