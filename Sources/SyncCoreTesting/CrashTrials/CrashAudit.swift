import SyncCore

/// The expected content of the store after the rounds so far.
struct CrashAudit {
    private(set) var report: CrashReport
    /// A hash of each entry after its round was checked. No later round changes it.
    private var held: [EntryKey: Int] = [:]
    private var counter = 0

    /// A one-line description of a failure.
    private struct Finding: Error {
        let line: String
    }

    init(seed: UInt64) {
        report = CrashReport(seed: seed)
    }

    /// Checks the store after a round. Returns `true` if nothing is wrong.
    ///
    /// - Parameters:
    ///   - reported: The lines of each process that was killed.
    ///   - readsAll: True to read the entries of all earlier rounds as well.
    mutating func settle(
        _ round: Int, _ reported: [(CrashAssignment, [String])], _ backend: any KeyValueBackend, readsAll: Bool
    ) async -> Bool {
        do {
            var tally = RoundTally()
            let isConditional = backend.capabilities.compareAndSwap
            for (assignment, lines) in reported { try tally.add(assignment, lines, isConditional: isConditional) }
            report.acknowledged += tally.acknowledged
            report.kills += reported.count
            try await checkEntries(of: round, tally, backend)
            if isConditional { try await checkCounter(tally, backend) }
            try await checkWrite(after: round, backend)
            if readsAll { try await readAll(backend) }
            report.rounds += 1
            return true
        } catch {
            report.failures.append("round \(round): \((error as? Finding)?.line ?? "\(error)")")
            return false
        }
    }

    private mutating func checkEntries(
        of round: Int, _ tally: RoundTally, _ backend: any KeyValueBackend
    ) async throws {
        let listed = try await keys(CrashAssignment.prefix(ofRound: round), backend)
        for key in tally.expected.keys.sorted() {
            let outcome = try await backend.read(key).outcome
            let value = outcome.entry?.value
            let acknowledged = tally.expected[key] ?? nil
            if value != acknowledged {
                guard let unacknowledged = tally.unacknowledged[key], value == unacknowledged else {
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
            throw Finding(line: "\"\(stranger)\" exists although no process wrote it")
        }
    }

    private mutating func checkCounter(_ tally: RoundTally, _ backend: any KeyValueBackend) async throws {
        let key = try EntryKey(CrashAssignment.counter)
        var count = 0
        if case .found(let entry) = try await backend.read(key).outcome {
            count = Int(String(decoding: entry.value, as: UTF8.self)) ?? -1
            held[key] = entry.value.hashValue
        }
        let lowest = counter + tally.raises
        guard (lowest...(lowest + tally.unacknowledgedRaises)).contains(count) else {
            throw Finding(
                line: "the counter is \(count), and \(counter) and \(tally.raises) acknowledged steps make \(lowest)")
        }
        report.unacknowledged += count - lowest
        counter = count
    }

    /// The store must accept a write immediately, whatever the killed processes left behind.
    private mutating func checkWrite(after round: Int, _ backend: any KeyValueBackend) async throws {
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
            guard let hash = held[key] else { throw Finding(line: "\"\(key)\" exists although no process wrote it") }
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

    /// The acknowledged changes of a round, and the one that each task may have made in addition.
    private struct RoundTally {
        /// The last acknowledged value of each key; `nil` for a delete or no change. Includes keys of unacknowledged
        /// changes.
        var expected: [EntryKey: [UInt8]?] = [:]
        /// The value of a key after an unacknowledged change.
        var unacknowledged: [EntryKey: [UInt8]?] = [:]
        var acknowledged = 0
        var raises = 0
        var unacknowledgedRaises = 0

        mutating func add(_ assignment: CrashAssignment, _ lines: [String], isConditional: Bool) throws {
            var counts = Array(repeating: 0, count: assignment.taskCount)
            for line in lines {
                let parts = line.split(separator: " ").compactMap { Int($0) }
                guard parts.count == 2, counts.indices.contains(parts[0]), parts[1] == counts[parts[0]] + 1 else {
                    throw Finding(line: "process \(assignment.process) said: \(line)")
                }
                counts[parts[0]] += 1
            }
            for (task, count) in counts.enumerated() {
                var script = CrashScript(assignment, task: task, isConditional: isConditional)
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
                case .raise: unacknowledgedRaises += 1
                }
            }
            acknowledged += counts.reduce(0, +)
        }

        private mutating func leaveOpen(_ key: EntryKey, _ value: [UInt8]?) {
            unacknowledged[key] = .some(value)
            if expected[key] == nil { expected[key] = .some(nil) }
        }
    }
}
