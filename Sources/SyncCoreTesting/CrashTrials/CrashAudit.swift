import SyncCore

/// What must be in the store after the rounds so far.
struct CrashAudit {
    private(set) var report: CrashReport
    /// A hash of what each entry held when its round was looked at. Nobody changes it later.
    private var held: [EntryKey: Int] = [:]
    private var counter = 0

    /// What is wrong, in a line.
    private struct Finding: Error {
        let line: String
    }

    init(seed: UInt64) {
        report = CrashReport(seed: seed)
    }

    /// Looks at a round that has ended; answers whether all is well.
    ///
    /// - Parameters:
    ///   - told: the lines of each process that was killed.
    ///   - readsAll: whether to read what the rounds before left, too.
    mutating func settle(
        _ round: Int, _ told: [(CrashErrand, [String])], _ backend: any KeyValueBackend, readsAll: Bool
    ) async -> Bool {
        do {
            var tally = RoundTally()
            let isConditional = backend.capabilities.compareAndSwap
            for (errand, lines) in told { try tally.add(errand, lines, isConditional: isConditional) }
            report.acknowledged += tally.acknowledged
            report.kills += told.count
            try await lookAtEntries(of: round, tally, backend)
            if isConditional { try await lookAtCounter(tally, backend) }
            try await goOn(after: round, backend)
            if readsAll { try await readAll(backend) }
            report.rounds += 1
            return true
        } catch {
            report.failures.append("round \(round): \((error as? Finding)?.line ?? "\(error)")")
            return false
        }
    }

    private mutating func lookAtEntries(
        of round: Int, _ tally: RoundTally, _ backend: any KeyValueBackend
    ) async throws {
        let listed = try await keys(CrashErrand.prefix(ofRound: round), backend)
        for key in tally.expected.keys.sorted() {
            let outcome = try await backend.read(key).outcome
            let value: [UInt8]? = if case .found(let entry) = outcome { entry.value } else { nil }
            let acknowledged = tally.expected[key] ?? nil
            if value != acknowledged {
                guard let underWay = tally.underWay[key], value == underWay else {
                    throw Finding(
                        line: "\"\(key)\" is \(brief(outcome)), acknowledged was "
                            + (acknowledged.map { "\($0.count) bytes \(brief($0))" } ?? "nothing or a delete"))
                }
                report.unacknowledged += 1
            }
            guard listed.contains(key) == (value != nil) else {
                throw Finding(line: "\"\(key)\" is \(brief(outcome)) and is\(value == nil ? "" : " not") listed")
            }
            held[key] = value?.hashValue
        }
        if let stranger = listed.sorted().first(where: { tally.expected[$0] == nil }) {
            throw Finding(line: "\"\(stranger)\" is there and nobody wrote it")
        }
    }

    private mutating func lookAtCounter(_ tally: RoundTally, _ backend: any KeyValueBackend) async throws {
        let key = try EntryKey(CrashErrand.counter)
        var count = 0
        if case .found(let entry) = try await backend.read(key).outcome {
            count = Int(String(decoding: entry.value, as: UTF8.self)) ?? -1
            held[key] = entry.value.hashValue
        }
        let lowest = counter + tally.raises
        guard (lowest...(lowest + tally.raisesUnderWay)).contains(count) else {
            throw Finding(
                line: "the counter is \(count), and \(counter) and \(tally.raises) acknowledged steps make \(lowest)")
        }
        report.unacknowledged += count - lowest
        counter = count
    }

    /// The store takes a write at once, whatever the dead left behind.
    private mutating func goOn(after round: Int, _ backend: any KeyValueBackend) async throws {
        let key = try EntryKey("crash/after/\(round)")
        let precondition: Precondition = backend.capabilities.compareAndSwap ? .absent : .any
        guard case .written = try await backend.write([1], to: key, if: precondition).outcome else {
            throw Finding(line: "\"\(key)\" cannot be written")
        }
        held[key] = [UInt8(1)].hashValue
    }

    private mutating func readAll(_ backend: any KeyValueBackend) async throws {
        let listed = try await keys("crash/", backend)
        for key in held.keys.sorted() where !listed.contains(key) {
            throw Finding(line: "\"\(key)\" of an earlier round is gone")
        }
        for key in listed.sorted() {
            guard let hash = held[key] else { throw Finding(line: "\"\(key)\" is there and nobody wrote it") }
            guard case .found(let entry) = try await backend.read(key).outcome, entry.value.hashValue == hash else {
                throw Finding(line: "\"\(key)\" of an earlier round has changed")
            }
        }
        report.entries = listed.count
    }

    private func keys(_ prefix: String, _ backend: any KeyValueBackend) async throws -> Set<EntryKey> {
        var keys: Set<EntryKey> = []
        var cursor: EntryKey?
        repeat {
            let page = try await backend.list(prefix: prefix, after: cursor, limit: 10_000).outcome
            keys.formUnion(page.items.map(\.key))
            cursor = page.next
        } while cursor != nil
        return keys
    }

    /// What the processes of a round have acknowledged, and what each task may have done besides.
    private struct RoundTally {
        /// What was acknowledged last of each key, `nil` for a delete or nothing; the keys under way are among them.
        var expected: [EntryKey: [UInt8]?] = [:]
        /// What a change that nobody acknowledged would have made of a key.
        var underWay: [EntryKey: [UInt8]?] = [:]
        var acknowledged = 0
        var raises = 0
        var raisesUnderWay = 0

        mutating func add(_ errand: CrashErrand, _ lines: [String], isConditional: Bool) throws {
            var counts = Array(repeating: 0, count: errand.taskCount)
            for line in lines {
                let parts = line.split(separator: " ").compactMap { Int($0) }
                guard parts.count == 2, counts.indices.contains(parts[0]), parts[1] == counts[parts[0]] + 1 else {
                    throw Finding(line: "process \(errand.process) said: \(line)")
                }
                counts[parts[0]] += 1
            }
            for (task, count) in counts.enumerated() {
                var script = CrashScript(errand, task: task, isConditional: isConditional)
                for _ in 0..<count {
                    switch try script.next() {
                    case .write(let key, let value): expected[key] = .some(value)
                    case .delete(let key): expected[key] = .some(nil)
                    case .raise: raises += 1
                    }
                }
                switch try script.next() {
                case .write(let key, let value): leaveOpen(key, value)
                case .delete(let key): leaveOpen(key, nil)
                case .raise: raisesUnderWay += 1
                }
            }
            acknowledged += counts.reduce(0, +)
        }

        private mutating func leaveOpen(_ key: EntryKey, _ value: [UInt8]?) {
            underWay[key] = .some(value)
            if expected[key] == nil { expected[key] = .some(nil) }
        }
    }
}
