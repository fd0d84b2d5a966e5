import SyncCore

extension Conformance {
    static let basics: [Check] = [
        Check("a key that was never written is absent") { trial in
            try await trial.expect(nil, at: trial.key("never"))
        },
        Check("a written value is read back under the version of its write") { trial in
            let key = try trial.key("k")
            let version = try await trial.put([1, 2, 3], at: key)
            try await trial.expect([1, 2, 3], at: key, version: version)
        },
        Check("a second write replaces the value and the version") { trial in
            let key = try trial.key("k")
            let first = try await trial.put([1], at: key)
            let second = try await trial.put([2], at: key)
            try trial.expect(first != second, "two writes got the same version, \(first)")
            try await trial.expect([2], at: key, version: second)
        },
        Check("a deleted key is absent and can be written again") { trial in
            let key = try trial.key("k")
            try await trial.put([1], at: key)
            let outcome = try await trial.backend.delete(key, if: .any).outcome
            try trial.expect(outcome == .deleted, "deleting answered \(brief(outcome))")
            try await trial.expect(nil, at: key)
            try await trial.put([2], at: key)
            try await trial.expect([2], at: key)
        },
        Check("deleting an absent key answers `deleted`") { trial in
            let outcome = try await trial.backend.delete(trial.key("never"), if: .any).outcome
            try trial.expect(outcome == .deleted, "deleting answered \(brief(outcome))")
        },
        Check("a conditional read answers `unchanged` only for the current version") { trial in
            let key = try trial.key("k")
            let first = try await trial.put([1], at: key)
            let unchanged = try await trial.backend.read(key, unless: first).outcome
            try trial.expect(unchanged == .unchanged, "the current version answered \(brief(unchanged))")
            let second = try await trial.put([2], at: key)
            let changed = try await trial.backend.read(key, unless: first).outcome
            let expected = Entry(value: [2], version: second)
            try trial.expect(changed == .found(expected), "an older version answered \(brief(changed))")
            _ = try await trial.backend.delete(key, if: .any)
            let gone = try await trial.backend.read(key, unless: second).outcome
            try trial.expect(gone == .absent, "a deleted version answered \(brief(gone))")
        },
        Check("versions never repeat, not even for equal values or after a delete") { trial in
            let keys = [try trial.key("a"), try trial.key("b")]
            var seen: Set<EntryVersion> = []
            for round in 0..<100 {
                for key in keys {
                    let version = try await trial.put([7], at: key)
                    try trial.expect(seen.insert(version).inserted, "round \(round) repeats version \(version)")
                }
                if round.isMultiple(of: 3) { _ = try await trial.backend.delete(keys[0], if: .any) }
            }
        },
        Check("keys are independent of each other") { trial in
            let keys = try (0..<20).map { try trial.key("key-\($0)") }
            for (index, key) in keys.enumerated() { try await trial.put([UInt8(index)], at: key) }
            _ = try await trial.backend.delete(keys[7], if: .any)
            for (index, key) in keys.enumerated() {
                try await trial.expect(index == 7 ? nil : [UInt8(index)], at: key)
            }
        },
    ]

    static let values: [Check] = [
        Check("an empty value is stored and read") { trial in
            let key = try trial.key("empty")
            let version = try await trial.put([], at: key)
            try await trial.expect([], at: key, version: version)
        },
        Check("all byte values are read back") { trial in
            let key = try trial.key("bytes")
            try await trial.put(Array(0...255), at: key)
            try await trial.expect(Array(0...255), at: key)
        },
        Check("values of up to 1 MiB are read back, around every power of two") { trial in
            let maximum = trial.backend.capabilities.maximumValueByteCount ?? .max
            let powers: [Int] = (0...16).map { 1 << $0 }
            let sizes: [Int] = powers.flatMap { [$0 - 1, $0, $0 + 1] } + [1 << 20]
            let key = try trial.key("large")
            for size in sizes where size <= maximum {
                let value = trial.generator.bytes(count: size...size)
                try await trial.put(value, at: key)
                try await trial.expect(value, at: key, "size \(size): ")
            }
        },
        Check("values that differ in one byte are kept apart") { trial in
            let size = min(4_096, trial.backend.capabilities.maximumValueByteCount ?? .max)
            let common = trial.generator.bytes(count: size...size)
            let values = (0..<12).map { number in
                var value = common
                // Swap two bytes of the value, so that sums and lengths are equal too.
                if !value.isEmpty { value.swapAt(0, number * (size - 1) / 11) }
                return value
            }
            let keys = try (0..<12).map { try trial.key("twin/\($0)") }
            for (key, value) in zip(keys, values) { try await trial.put(value, at: key) }
            for (key, value) in zip(keys, values) { try await trial.expect(value, at: key) }
        },
        Check(
            "a value larger than the declared maximum is rejected, and the old value stays",
            skippedWhen: { store in
                guard let maximum = store.capabilities.maximumValueByteCount else {
                    return "the store declares no maximum size"
                }
                return maximum > 1 << 28 ? "its maximum of \(maximum) bytes is too large to test" : nil
            },
            { trial in
                let key = try trial.key("k")
                let maximum = trial.backend.capabilities.maximumValueByteCount ?? 0
                let version = try await trial.put([1], at: key)
                let backend = trial.backend
                let value = [UInt8](repeating: 1, count: maximum + 1)
                try await trial.expect(.tooLarge, "writing \(maximum + 1) bytes") { () async throws(BackendError) in
                    _ = try await backend.write(value, to: key, if: .any)
                }
                try await trial.expect([1], at: key, version: version)
            }),
    ]

    static let keys: [Check] = [
        Check("unusual keys are kept apart, byte by byte") { trial in
            let keys = try unusualKeys.map { try trial.key($0) }
            try trial.expect(Set(keys).count == keys.count, "the check itself repeats a key")
            for (index, key) in keys.enumerated() {
                try await trial.put([UInt8(index)], at: key, if: precondition(in: trial, .absent))
            }
            for (index, key) in keys.enumerated() { try await trial.expect([UInt8(index)], at: key) }
            let listed = try await trial.keys(limit: 7)
            try trial.expect(
                listed == keys.sorted(),
                "listed \(listed.count) of \(keys.count) keys; missing \(Set(keys).subtracting(listed))")
            for (index, key) in keys.enumerated() {
                _ = try await trial.backend.delete(key, if: .any)
                try await trial.expect(nil, at: key)
                if index + 1 < keys.count { try await trial.expect([UInt8(index + 1)], at: keys[index + 1]) }
            }
        },
        Check("random keys of many lengths are kept apart and listed in byte order") { trial in
            let alphabet = ["a", "A", "/", ".", "%", "+", "-", "_", " ", "~", "é", "e\u{301}", "🦉", "0", "\\", ":"]
            var expected: [EntryKey: [UInt8]] = [:]
            for _ in 0..<150 {
                let longest = Bool.random(using: &trial.generator) ? 4 : 240
                let length = Int.random(in: 1...longest, using: &trial.generator)
                let text = (0..<length).map { _ in alphabet.randomElement(using: &trial.generator) ?? "a" }.joined()
                let value = trial.generator.bytes(count: 0...20)
                let key = try trial.key(text)
                expected[key] = value
                try await trial.put(value, at: key)
            }
            for key in expected.keys.sorted() { try await trial.expect(expected[key], at: key) }
            let listed = try await trial.keys(limit: 11)
            try trial.expect(
                listed == expected.keys.sorted(), "listed \(listed.count) keys, written were \(expected.count)")
        },
    ]

    /// Keys that careless backends confuse.
    private static let unusualKeys: [String] = [
        "a", "a/b", "a/b/c", "a/", "/a", "/", "//", "a//b", "a/b/", "A", "A/b", "a/B", "a-b", "a0", "a!", "a b", "a.",
        ".", "..", "../a", "a/../b", "./a", ".hidden", "a.entry", "a.entry/b", "store.format", "store.lock",
        ".pending.tmp", "%", "%2f", "a%2fb", "%2F", "a+b", "+", "~", "*", "?", ":", "\\", "\"", "'", "|", "<>",
        "con", "NUL", "é", "e\u{301}", "É", "ß", "SS", "ss", "ﬀ", "ff", "İ", "i", "I", "ı", "🦉", "👩‍👩‍👧", "\u{FEFF}",
        "\u{200B}", "\u{80}", " ", "  ", "trailing ", "trailing", "trailing.", String(repeating: "x", count: 1_024),
        String(repeating: "x", count: 1_023), String(repeating: "x", count: 198), String(repeating: "x", count: 199),
        String(repeating: "x", count: 198) + "/y", String(repeating: "/", count: 1_024),
        String(repeating: "🦉", count: 256), String(repeating: "%", count: 1_024),
    ]
}

/// Returns the precondition, or `any` if the store supports none.
private func precondition(in trial: Trial, _ precondition: Precondition) -> Precondition {
    trial.backend.capabilities.compareAndSwap ? precondition : .any
}
