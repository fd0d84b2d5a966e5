import SyncCore

extension Conformance {
    static let durability: [Check] = [
        Check("a reopened store contains every acknowledged write", skippedWhen: withoutSecondLife) { trial in
            guard let reopen = trial.store.reopen else { return }
            let expected = try await trial.writeSome("reopened")
            try await trial.through(try await reopen()).expectAll(expected, "after reopening: ")
        },
        Check(
            "a crash loses no acknowledged write",
            skippedWhen: { withoutDurability($0) ?? withoutCrash($0) },
            { trial in
                guard let crash = trial.store.crash else { return }
                let expected = try await trial.writeSome("crashed")
                var after = trial.through(try await crash())
                try await after.expectAll(expected, "after the crash: ")
                let more = try await after.writeSome("afterwards")
                try await after.through(try await crash()).expectAll(expected + more, "after the second crash: ")
            }),
        Check(
            "processes that are killed while writing lose no acknowledged write",
            skippedWhen: { withoutDurability($0) ?? withoutKill($0) },
            { trial in
                guard let kill = trial.store.kill else { return }
                let report = try await kill(trial.generator.next())
                try trial.expect(report.hasPassed, report.failures.first ?? "\(report)")
            }),
    ]

    private static let withoutDurability = undeclared("durability beyond the process") { $0.durability != .process }

    private static let withoutCrash = without("crash") { $0.crash }
    private static let withoutKill = without("kill") { $0.kill }
    private static let withoutSecondLife: SkipRule = { withoutDurability($0) ?? withoutReopening($0) }
}

extension Trial {
    /// Writes, replaces and deletes entries. Returns the expected values; `nil` for an absent key.
    fileprivate mutating func writeSome(_ prefix: String) async throws -> [(EntryKey, [UInt8]?)] {
        var expected: [(EntryKey, [UInt8]?)] = []
        for number in 0..<12 {
            let key = try key("\(prefix)/\(number % 3)/\(number)")
            for _ in 0..<(1 + number % 3) {
                let value = generator.bytes(count: 0...300)
                try await put(value, at: key)
                expected.removeAll { $0.0 == key }
                expected.append((key, value))
            }
            if number % 4 == 3 {
                _ = try await backend.delete(key, if: .any)
                expected.removeAll { $0.0 == key }
                expected.append((key, nil))
            }
        }
        return expected
    }

    fileprivate func expectAll(_ expected: [(EntryKey, [UInt8]?)], _ context: String) async throws {
        for (key, value) in expected { try await expect(value, at: key, context) }
        let listed = try await keys(limit: 5)
        let present = expected.filter { $0.1 != nil }.map(\.0).sorted()
        try expect(listed == present, "\(context)listed \(listed.map(\.text)), not \(present.map(\.text))")
    }
}
