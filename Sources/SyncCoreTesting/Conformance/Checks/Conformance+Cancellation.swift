import SyncCore

extension Conformance {
    static let cancellation: [Check] = [
        Check("a call of a cancelled task throws `cancelled` or finishes, and the store keeps working") { trial in
            let keys = try (0..<8).map { try trial.key("k/\($0)") }
            var before: [EntryKey: EntryVersion] = [:]
            for key in keys { before[key] = try await trial.put([1], at: key) }
            for change in await trial.changeAndCancel(keys, to: [2], after: 0) {
                _ = try await trial.expectTruth(change, was: before[change.key])
                try await trial.put([3], at: change.key)
                try await trial.expect([3], at: change.key)
            }
        },
        Check("a write that throws `cancelled` has not happened") { trial in
            let keys = try (0..<4).map { try trial.key("k/\($0)") }
            var refusedCount = 0
            // Cancels before the task starts (`nil`), immediately, or after some scheduler turns while the store is at
            // work.
            for turns in [nil, nil, 0, 0, 1, 1, 3, 3, 10, 10, 40, 40] as [Int?] {
                for value in [[2], nil] as [[UInt8]?] {
                    var before: [EntryKey: EntryVersion] = [:]
                    for key in keys { before[key] = try await trial.put([1], at: key) }
                    for change in await trial.changeAndCancel(keys, to: value, after: turns) {
                        if try await trial.expectTruth(change, was: before[change.key]) { refusedCount += 1 }
                    }
                }
            }
            guard refusedCount > 0 else {
                throw Trial.Skip(reason: "the store finished every operation of a cancelled task")
            }
        },
    ]
}

/// An operation of a cancelled task, and its result.
private struct CancelledChange: Sendable {
    let key: EntryKey
    /// `nil` for a delete.
    let value: [UInt8]?
    let result: Result<WriteOutcome, BackendError>
}

extension Trial {
    /// Writes or deletes each key in a separate task and cancels the tasks: before they start if `turns` is `nil`,
    /// otherwise after this number of scheduler turns.
    fileprivate func changeAndCancel(
        _ keys: [EntryKey], to value: [UInt8]?, after turns: Int?
    ) async -> [CancelledChange] {
        let backend = backend
        return await withTaskGroup(of: CancelledChange.self) { group in
            if turns == nil { group.cancelAll() }
            for key in keys {
                group.addTask { () -> CancelledChange in
                    do throws(BackendError) {
                        let outcome = try await backend.change(key, to: value)
                        return CancelledChange(key: key, value: value, result: .success(outcome))
                    } catch {
                        return CancelledChange(key: key, value: value, result: .failure(error))
                    }
                }
            }
            for _ in 0..<(turns ?? 0) { await Task.yield() }
            group.cancelAll()
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// Fails the check unless the key has the state stated by the result of the cancelled task. It held `[1]` at
    /// `version` before.
    ///
    /// - Returns: `true` if the change was rejected.
    fileprivate func expectTruth(_ change: CancelledChange, was version: EntryVersion?) async throws -> Bool {
        let key = change.key
        switch change.result {
        case .success(.written(let version)):
            try await expect(change.value, at: key, version: version, "after a write that was cancelled and finished ")
        case .success(.deleted):
            try await expect(nil, at: key, "after a delete that was cancelled and finished ")
        case .success(.conflict(let entry)):
            throw Failure(description: "a change under `any` answered \(brief(WriteOutcome.conflict(entry)))")
        case .failure(let error):
            try expect(error.kind == .cancelled, "a cancelled task got the error \(error)")
            guard error.disposition == .outcomeUnknown else {
                try await expect([1], at: key, version: version, "after cancelled (\(error.disposition)) ")
                return true
            }
            let outcome = try await backend.read(key).outcome
            let value = outcome.entry?.value
            try expect(value == [1] || value == change.value, "after cancellation \"\(key)\" is \(brief(outcome))")
        }
        return false
    }
}
