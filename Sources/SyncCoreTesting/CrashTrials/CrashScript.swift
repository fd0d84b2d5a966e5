import SyncCore

/// Which process of which round writes what. It travels as one argument of the child's command line.
struct CrashErrand: Sendable {
    var seed: UInt64
    var round: Int
    var process: Int
    var taskCount: Int

    init(seed: UInt64, round: Int, process: Int, taskCount: Int) {
        self.seed = seed
        self.round = round
        self.process = process
        self.taskCount = taskCount
    }

    /// Reads what ``text`` wrote.
    init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 4, let seed = UInt64(parts[0]), let round = Int(parts[1]), let process = Int(parts[2]),
            let taskCount = Int(parts[3]), round >= 0, process >= 0, (1...64).contains(taskCount)
        else { return nil }
        self.init(seed: seed, round: round, process: process, taskCount: taskCount)
    }

    var text: String { "\(seed):\(round):\(process):\(taskCount)" }

    /// What the keys of this round begin with.
    static func prefix(ofRound round: Int) -> String { "crash/\(round)/" }

    static let counter = "crash/counter"
    /// What a child says before it touches the store.
    static let greeting = "+"
}

/// The steps of one task of a writer. Child and parent compute the same ones: the child to perform them, the parent to
/// know what must be there after so many.
struct CrashScript {
    /// One change.
    enum Step: Hashable {
        /// A new entry, or another value for the one that is there.
        case write(EntryKey, [UInt8])
        /// An entry less.
        case delete(EntryKey)
        /// The counter that all processes share, raised by one.
        case raise
    }

    private let prefix: String
    private let isConditional: Bool
    private var generator: SeededGenerator
    private var count = 0
    private var present: [EntryKey] = []

    /// - Parameter isConditional: whether the store can compare and swap; without, there is no counter.
    init(_ errand: CrashErrand, task: Int, isConditional: Bool) {
        prefix = CrashErrand.prefix(ofRound: errand.round) + "\(errand.process)/\(task)/"
        self.isConditional = isConditional
        let number = UInt64(errand.round) << 20 | UInt64(errand.process) << 10 | UInt64(task)
        var mixer = SeededGenerator(seed: errand.seed &+ number &* 0xD134_2543_DE82_EF95)
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
