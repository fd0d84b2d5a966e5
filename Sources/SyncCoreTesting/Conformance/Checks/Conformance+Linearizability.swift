import SyncCore

extension Conformance {
    static let linearizability: [Check] = [
        Check("concurrent operations on a key are linearizable") { trial in
            let backend = trial.backend
            try await trial.expectOrder(rounds: 20) { _ in backend }
        },
        Check(
            "operations through several objects on one store are linearizable",
            skippedWhen: withoutSharing,
            { trial in
                guard let reopen = trial.store.reopen else { return }
                let objects = [trial.backend, try await reopen(), try await reopen()]
                try await trial.expectOrder(rounds: 10) { task in objects[task % objects.count] }
            }),
        Check(
            "an operation of unknown outcome happens at most once, possibly later",
            skippedWhen: withoutFailing,
            { trial in
                let faulty = try await trial.openFailing()
                let backend = trial.backend
                // Some tasks use the reliable object. They see the real outcome of the failed operations.
                try await trial.expectOrder(rounds: 10, mayFail: true) { task in task < 4 ? faulty : backend }
            }),
    ]

    static let withoutSharing: SkipRule = { store in
        guard store.capabilities.sharedBetweenProcesses else {
            return "the store declares that only one process may use it"
        }
        return withoutReopening(store)
    }

    static let withoutReopening = without("reopen") { $0.reopen }
}

extension Trial {
    private static let taskCount = 6
    private static let operationCount = 8

    /// Lets tasks read, write and delete one key concurrently, and fails the check unless the results are linearizable.
    ///
    /// - Parameters:
    ///   - mayFail: True if permanent errors are to be expected.
    ///   - object: Returns the backend object that a task uses.
    fileprivate mutating func expectOrder(
        rounds: Int, mayFail: Bool = false, through object: @escaping @Sendable (_ task: Int) -> any KeyValueBackend
    ) async throws {
        let isConditional = backend.capabilities.compareAndSwap
        var operations = 0
        var failures: [BackendError] = []
        for round in 0..<rounds {
            let recorder = OperationRecorder(key: try key("order/\(round)"))
            let generators = (0..<Self.taskCount).map { _ in generator.split() }
            _ = try await gather(0..<Self.taskCount) { number in
                var script = OperationScript(
                    task: number, generator: generators[number], isConditional: isConditional)
                for _ in 0..<Self.operationCount {
                    let ending = await recorder.perform(
                        script.next(), by: number, through: object(number))
                    script.learn(from: ending)
                    for _ in 0..<script.pause() { await Task.yield() }
                }
            }
            operations += recorder.operations.count
            failures += recorder.failures
            if case .notLinearizable(let reason) = Linearizability.check(recorder.operations) {
                throw Failure(description: "in history \(round) \(reason)")
            }
        }
        let lasting = failures.first { $0.disposition == .permanent }
        try expect(mayFail || lasting == nil, "an operation failed: \(lasting.map { "\($0)" } ?? "")")
        try expect(
            operations > failures.count, "\(failures.count) of \(operations + failures.count) operations failed")
    }
}

/// The operations of one task on the key. Draws its calls, and remembers the version that it saw last.
private struct OperationScript {
    let task: Int
    var generator: SeededGenerator
    let isConditional: Bool
    var count: UInt8 = 0
    var seen: EntryVersion?

    /// Returns the next call. No two writes of a history have the same value.
    mutating func next() -> RecordedOperation.Call {
        count += 1
        let value = [UInt8(task), count]
        switch Int.random(in: 0..<20, using: &generator) {
        case 0..<6: return .read(unless: nil)
        case 6..<8: return .read(unless: seen)
        case 8..<17: return .write(value, if: precondition())
        default: return .delete(if: precondition())
        }
    }

    mutating func learn(from ending: RecordedOperation.Ending?) {
        switch ending {
        case .read(.found(let entry)), .changed(.conflict(let entry?)): seen = entry.version
        case .changed(.written(let version)): seen = version
        case .read(.absent), .changed(.deleted), .changed(.conflict(nil)): seen = nil
        case .read(.unchanged), .unknown, nil: break
        }
    }

    /// Returns how many times to yield to other tasks.
    mutating func pause() -> Int { Int.random(in: 0..<3, using: &generator) }

    private mutating func precondition() -> Precondition {
        guard isConditional, Int.random(in: 0..<5, using: &generator) > 0 else { return .any }
        return seen.map(Precondition.matches) ?? .absent
    }
}
