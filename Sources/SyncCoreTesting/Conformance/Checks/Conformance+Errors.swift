import SyncCore

extension Conformance {
    static let errors: [Check] = [
        Check("repeating a write after a lost acknowledgement settles it", skippedWhen: withoutCompareAndSwap) {
            trial in
            let key = try trial.key("k")
            let first = try await trial.put([1], at: key)
            // As if the acknowledgement of this write had been lost.
            let second = try await trial.put([2], at: key, if: .matches(first))
            let again = try await trial.backend.write([2], to: key, if: .matches(first)).outcome
            try trial.expectConflict(again, with: Entry(value: [2], version: second), "repeating a write that happened")
            _ = try await trial.backend.delete(key, if: .matches(second))
            let gone = try await trial.backend.delete(key, if: .matches(second)).outcome
            try trial.expectConflict(gone, with: nil, "repeating a delete that happened")
        },
        Check("after an error the store is as the error's disposition says", skippedWhen: withoutFailing) {
            trial in
            let faulty = try await trial.openFailing()
            var ledger = ErrorLedger()
            let keys = try (0..<4).map { try trial.key("error/\($0)") }
            for number in 0..<120 {
                try await trial.tryOne(number, keys: keys, through: faulty, ledger: &ledger)
            }
            // A write that was reported as not done must not take effect later.
            for key in keys { try await trial.expectPossible(key, ledger, "at the end ") }
            guard ledger.errorCount > 0 else {
                throw Trial.Skip(reason: "none of 120 writes and deletes failed")
            }
        },
        Check("a failed read is never reported as absence", skippedWhen: withoutFailing) { trial in
            let faulty = try await trial.openFailing()
            let keys = try (0..<4).map { try trial.key("k/\($0)") }
            for key in keys { try await trial.put([7], at: key) }
            var errorCount = 0
            for number in 0..<120 {
                let key = keys[number % keys.count]
                do {
                    if number.isMultiple(of: 3) {
                        let listed = try await faulty.list(prefix: "k/", after: nil, limit: 10).outcome.items.map(\.key)
                        try trial.expect(listed == keys, "a page lists \(listed)")
                    } else {
                        let outcome = try await faulty.read(key).outcome
                        try trial.expect(
                            outcome.entry?.value == [7], "\"\(key)\" exists, and reading it answered \(brief(outcome))")
                    }
                } catch is BackendError {
                    // Any kind of error is acceptable; only absence is wrong.
                    errorCount += 1
                }
            }
            guard errorCount > 0 else { throw Trial.Skip(reason: "none of 120 reads and listings failed") }
        },
    ]

    static let withoutFailing = without("failing") { $0.failing }
}

extension Trial {
    /// Opens the store so that it fails occasionally by itself.
    func openFailing() async throws -> any KeyValueBackend {
        guard let failing = store.failing else { throw Skip(reason: "no `failing` was supplied") }
        let faulty = try await failing()
        guard !(faulty is FaultyBackend) else {
            throw Skip(reason: "`failing` is a FaultyBackend, which fails in front of the store and not in it")
        }
        return faulty
    }
}

/// The values that each key may hold, according to the answers to a writer.
private struct ErrorLedger {
    var errorCount = 0
    /// The values that each key may hold now; `nil` for absent; more than one only after an unknown outcome.
    private var possible: [EntryKey: [[UInt8]?]] = [:]

    func values(of key: EntryKey) -> [[UInt8]?] { possible[key] ?? [nil] }

    mutating func settle(_ key: EntryKey, at value: [UInt8]?) { possible[key] = [value] }

    mutating func leaveOpen(_ key: EntryKey, value: [UInt8]?) { possible[key] = values(of: key) + [value] }
}

extension Trial {
    /// Makes one write or delete through `faulty` and checks the result.
    fileprivate mutating func tryOne(
        _ number: Int, keys: [EntryKey], through faulty: any KeyValueBackend, ledger: inout ErrorLedger
    ) async throws {
        guard let key = keys.randomElement(using: &generator) else { return }
        let isDelete = Int.random(in: 0..<4, using: &generator) == 0
        let value: [UInt8]? = isDelete ? nil : [UInt8(number)]
        let precondition = try await presentPrecondition(of: key)
        do throws(BackendError) {
            switch try await faulty.change(key, to: value, if: precondition) {
            // A write of unknown outcome took effect after all; its value is one of the possible ones.
            case .conflict: break
            case .written, .deleted: ledger.settle(key, at: value)
            }
        } catch {
            ledger.errorCount += 1
            if error.disposition == .outcomeUnknown { ledger.leaveOpen(key, value: value) }
        }
        try await expectPossible(key, ledger, "after call \(number) ")
    }

    /// Returns a precondition that holds for `key` now, or `any` if the store supports none.
    private func presentPrecondition(of key: EntryKey) async throws -> Precondition {
        guard backend.capabilities.compareAndSwap else { return .any }
        return try await backend.read(key).outcome.entry.map { .matches($0.version) } ?? .absent
    }

    fileprivate func expectPossible(_ key: EntryKey, _ ledger: ErrorLedger, _ context: String) async throws {
        let outcome = try await backend.read(key).outcome
        let value = outcome.entry?.value
        let possible = ledger.values(of: key)
        try expect(
            possible.contains(value),
            "\(context)\"\(key)\" is \(brief(outcome)); the answers allow "
                + possible.map { $0.map(brief) ?? "absent" }.joined(separator: " or "))
    }
}
