import SyncCore
import Synchronization

extension Conformance {
    static let withoutCompareAndSwap = undeclared("compare-and-swap") { $0.compareAndSwap }

    static let preconditions: [Check] = [
        Check("`absent` allows the first write and no second", skippedWhen: withoutCompareAndSwap) { trial in
            let key = try trial.key("k")
            let version = try await trial.put([1], at: key, if: .absent)
            let outcome = try await trial.backend.write([2], to: key, if: .absent).outcome
            try trial.expectConflict(
                outcome, with: Entry(value: [1], version: version), "writing if absent over an entry")
            try await trial.expect([1], at: key, version: version)
        },
        Check("`matches` allows a write at that version only", skippedWhen: withoutCompareAndSwap) { trial in
            let key = try trial.key("k")
            let first = try await trial.put([1], at: key)
            let second = try await trial.put([2], at: key, if: .matches(first))
            let outcome = try await trial.backend.write([3], to: key, if: .matches(first)).outcome
            try trial.expectConflict(
                outcome, with: Entry(value: [2], version: second), "writing if an older version matches")
            try await trial.expect([2], at: key, version: second)
        },
        Check("`matches` does not hold for an absent key", skippedWhen: withoutCompareAndSwap) { trial in
            let key = try trial.key("k")
            let version = try await trial.put([1], at: key)
            _ = try await trial.backend.delete(key, if: .any)
            let outcome = try await trial.backend.write([2], to: key, if: .matches(version)).outcome
            try trial.expectConflict(outcome, with: nil, "writing if a deleted version matches")
            let deleting = try await trial.backend.delete(key, if: .matches(version)).outcome
            try trial.expectConflict(deleting, with: nil, "deleting if a deleted version matches")
            try await trial.expect(nil, at: key)
        },
        Check("`matches` compares the version, not the value", skippedWhen: withoutCompareAndSwap) { trial in
            let key = try trial.key("k")
            let first = try await trial.put([1], at: key)
            try await trial.put([2], at: key)
            let third = try await trial.put([1], at: key)
            let outcome = try await trial.backend.write([9], to: key, if: .matches(first)).outcome
            try trial.expectConflict(
                outcome, with: Entry(value: [1], version: third), "writing over an equal value of another version")
        },
        Check("a delete honours its precondition", skippedWhen: withoutCompareAndSwap) { trial in
            let key = try trial.key("k")
            let first = try await trial.put([1], at: key)
            let second = try await trial.put([2], at: key)
            let current = Entry(value: [2], version: second)
            for precondition in [Precondition.absent, .matches(first)] {
                let outcome = try await trial.backend.delete(key, if: precondition).outcome
                try trial.expectConflict(outcome, with: current, "deleting if \(precondition)")
            }
            try await trial.expect([2], at: key, version: second)
            let outcome = try await trial.backend.delete(key, if: .matches(second)).outcome
            try trial.expect(outcome == .deleted, "deleting the current version answered \(brief(outcome))")
            try await trial.expect(nil, at: key)
            let again = try await trial.backend.delete(key, if: .absent).outcome
            try trial.expect(again == .deleted, "deleting an absent key if absent answered \(brief(again))")
        },
        Check(
            "unsupported preconditions are rejected, and nothing is written",
            skippedWhen: { $0.capabilities.compareAndSwap ? "the store declares compare-and-swap" : nil },
            { trial in
                let key = try trial.key("k")
                let version = try await trial.put([1], at: key)
                let backend = trial.backend
                for precondition in [Precondition.absent, .matches(version)] {
                    try await trial.expect(.unsupported, "writing if \(precondition)") {
                        () async throws(BackendError) in
                        _ = try await backend.write([2], to: key, if: precondition)
                    }
                    try await trial.expect(.unsupported, "deleting if \(precondition)") {
                        () async throws(BackendError) in
                        _ = try await backend.delete(key, if: precondition)
                    }
                }
                try await trial.expect([1], at: key, version: version)
            }),
    ]

    static let concurrency: [Check] = [
        Check("exactly one of many concurrent writers under `absent` wins", skippedWhen: withoutCompareAndSwap) {
            trial in
            let backend = trial.backend
            for round in 0..<10 {
                let key = try trial.key("race/\(round)")
                let outcomes = try await gather(0..<16) { writer in
                    try await backend.write([UInt8(writer)], to: key, if: .absent).outcome
                }
                let winners = outcomes.enumerated().compactMap { writer, outcome -> Entry? in
                    guard case .written(let version) = outcome else { return nil }
                    return Entry(value: [UInt8(writer)], version: version)
                }
                try trial.expect(winners.count == 1, "round \(round) has \(winners.count) winners of 16")
                try await trial.expect(winners[0].value, at: key, version: winners[0].version, "round \(round): ")
                for case .conflict(let entry) in outcomes {
                    try trial.expect(entry == winners[0], "a conflict reported \(entry.map(brief) ?? "nothing")")
                }
            }
        },
        Check("a counter that concurrent tasks increment loses no update", skippedWhen: withoutCompareAndSwap) {
            trial in
            let backend = trial.backend
            let key = try trial.key("counter")
            try await trial.put([0, 0], at: key, if: .absent)
            _ = try await gather(0..<8) { _ in
                for _ in 0..<25 { try await raise(key, in: backend) }
            }
            try await trial.expect([0, 200], at: key)
        },
        Check("concurrent writes to different keys are all stored") { trial in
            let backend = trial.backend
            let keys = try (0..<32).map { try trial.key("shared/folder-\($0 % 4)/\($0)") }
            _ = try await gather(0..<32) { index in
                for round in 0..<5 {
                    _ = try await backend.write([UInt8(index), UInt8(round)], to: keys[index], if: .any)
                }
            }
            for (index, key) in keys.enumerated() { try await trial.expect([UInt8(index), 4], at: key) }
        },
        Check("a reader sees one write or another, never a mix of both") { trial in
            let backend = trial.backend
            let key = try trial.key("whole")
            // Long enough to be written in several parts, as far as the store accepts such values.
            let size = min(20_000, (backend.capabilities.maximumValueByteCount ?? .max) - 30)
            try await trial.put(mark(0, size), at: key)
            let writing = Flag()
            _ = try await gather(0..<4) { task in
                if task == 0 {
                    defer { writing.lower() }
                    for round in 1...30 {
                        _ = try await backend.write(mark(round, size), to: key, if: .any)
                        await Task.yield()
                    }
                } else {
                    // Reads as long as the writer writes; the limit is for a very slow writer.
                    for _ in 0..<1_000 where writing.isUp {
                        guard case .found(let entry) = try await backend.read(key).outcome else {
                            throw Trial.Failure(description: "a reader saw no entry during a replacement")
                        }
                        if entry.value != mark(Int(entry.value.first ?? 0), size) {
                            throw Trial.Failure(description: "a reader saw \(brief(entry)), a mix of two writes")
                        }
                        await Task.yield()
                    }
                }
            }
        },
    ]
}

/// Runs `body` concurrently for all of `range`; the results are in the order of the range.
func gather<Result: Sendable>(
    _ range: Range<Int>, _ body: @escaping @Sendable (Int) async throws -> Result
) async throws -> [Result] {
    try await withThrowingTaskGroup(of: (Int, Result).self) { group in
        for index in range { group.addTask { (index, try await body(index)) } }
        var results: [(Int, Result)] = []
        for try await result in group { results.append(result) }
        return results.sorted { $0.0 < $1.0 }.map(\.1)
    }
}

/// Adds 1 to a counter of two bytes by compare-and-swap. Terminates, because each conflict is another task's success.
private func raise(_ key: EntryKey, in backend: any KeyValueBackend) async throws {
    var attempt = try await backend.read(key).outcome
    while case .found(let entry) = attempt {
        let count = UInt16(entry.value[0]) << 8 | UInt16(entry.value[1])
        let raised = [UInt8((count + 1) >> 8), UInt8(truncatingIfNeeded: count + 1)]
        switch try await backend.write(raised, to: key, if: .matches(entry.version)).outcome {
        case .written, .deleted: return
        case .conflict(let current): attempt = current.map(ReadOutcome.found) ?? .absent
        }
    }
    throw Trial.Failure(description: "the counter disappeared")
}

/// The value of a round: its number, repeated, in a length that depends on the round.
private func mark(_ round: Int, _ size: Int) -> [UInt8] {
    [UInt8](repeating: UInt8(round), count: max(1, size) + round)
}

/// A flag that one task lowers to stop others.
private final class Flag: Sendable {
    private let state = Atomic(true)

    var isUp: Bool { state.load(ordering: .acquiring) }

    func lower() { state.store(false, ordering: .releasing) }
}
