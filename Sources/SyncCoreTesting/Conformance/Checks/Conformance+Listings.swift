import SyncCore

extension Conformance {
    static let listings: [Check] = [
        Check("an empty store lists nothing") { trial in
            let page = try await trial.backend.list(prefix: "", after: nil, limit: 10).outcome
            try trial.expect(page == KeyPage(items: [], next: nil), "an empty store lists \(page.items.map(\.key))")
        },
        Check("a listing contains every key once, in byte order, for every page size") { trial in
            let keys = try ["b", "a", "a/b", "a-b", "a0", "a/a", "c/d/e", "c", "é", "e\u{301}", "Z", "a/b/c"]
                .map { try trial.key($0) }
            for key in keys { try await trial.put([1], at: key) }
            for limit in 1...(keys.count + 1) {
                let listed = try await trial.keys(limit: limit)
                let expected = keys.sorted()
                try trial.expect(listed == expected, "in pages of \(limit): \(listed), not \(expected)")
            }
        },
        Check("a listing by prefix compares bytes, not path components") { trial in
            let keys = try ["a", "a/b", "a/bc", "a/b/c", "ab", "b/a", "é", "e\u{301}", "e"].map { try trial.key($0) }
            for key in keys { try await trial.put([1], at: key) }
            for prefix in ["a", "a/", "a/b", "a/b/", "ab", "b/", "e", "é", "e\u{301}", "zz", "a/b/c", "a/b/c/d"] {
                for limit in [1, 2, 100] {
                    let listed = try await trial.keys(prefix: prefix, limit: limit)
                    let expected = keys.sorted().filter { $0.hasPrefix(prefix) }
                    try trial.expect(listed == expected, "under \"\(prefix)\": \(listed), not \(expected)")
                }
            }
        },
        Check("a listing contains the versions that reads return") { trial in
            for number in 0..<10 {
                let value = [UInt8](repeating: 1, count: number * number * number)
                try await trial.put(value, at: trial.key("k/\(number)"))
            }
            let page = try await trial.backend.list(prefix: "k/", after: nil, limit: 100).outcome
            try trial.expect(page.items.count == 10 && page.next == nil, "listed \(page.items.count) of 10 keys")
            for (number, item) in page.items.enumerated() {
                let count = item.byteCount ?? number * number * number
                try trial.expect(count == number * number * number, "\"\(item.key)\" is listed with another size")
            }
            for item in page.items {
                let outcome = try await trial.backend.read(item.key, unless: item.version).outcome
                try trial.expect(outcome == .unchanged, "\"\(item.key)\" is listed with an outdated version")
            }
        },
        Check("a listing can continue after a key that does not exist") { trial in
            for text in ["a", "c", "e/f"] { try await trial.put([1], at: trial.key(text)) }
            let followers = [("b", ["c", "e/f"]), ("a", ["c", "e/f"]), ("e", ["e/f"]), ("e/f", []), ("z", [])]
            for (cursor, expected) in followers {
                let page = try await trial.backend.list(prefix: "", after: trial.key(cursor), limit: 10).outcome
                let listed = page.items.map(\.key.text)
                try trial.expect(listed == expected, "after \"\(cursor)\": \(listed), not \(expected)")
            }
        },
        Check("a key that exists during the whole listing is listed once while others change") { trial in
            let staying = try (0..<20).map { try trial.key("k/\($0 * 10 + 105)") }
            for key in staying { try await trial.put([1], at: key) }
            var listed: [EntryKey] = []
            var cursor: EntryKey?
            var coming: [EntryKey] = []
            repeat {
                let page = try await trial.backend.list(prefix: "k/", after: cursor, limit: 3).outcome
                listed += page.items.map(\.key)
                cursor = page.next
                for key in coming { _ = try await trial.backend.delete(key, if: .any) }
                coming = try (0..<3).map { _ in
                    try trial.key("k/\(Int.random(in: 0..<40, using: &trial.generator) * 10 + 100)")
                }
                for key in coming { try await trial.put([2], at: key) }
                // Delete the last key of the page before the next page is read.
                if let last = listed.last, !staying.contains(last) {
                    _ = try await trial.backend.delete(last, if: .any)
                }
            } while cursor != nil
            let found = listed.filter { staying.contains($0) }
            try trial.expect(found == staying, "\(found.map(\.text)) of \(staying.map(\.text))")
        },
        Check("a deleted key is not listed") { trial in
            for text in ["a", "b", "b/c"] { try await trial.put([1], at: trial.key(text)) }
            _ = try await trial.backend.delete(trial.key("b"), if: .any)
            let listed = try await trial.keys(limit: 10).map(\.text)
            try trial.expect(listed == ["a", "b/c"], "listed \(listed)")
        },
    ]

    static let batches: [Check] = [
        Check("an empty batch has no results") { trial in
            let reads = try await trial.backend.read([]).outcome.count
            let writes = try await trial.backend.write([]).outcome.count
            try trial.expect(reads == 0 && writes == 0, "\(reads) reads and \(writes) writes were answered")
        },
        Check("a batch of reads returns its results in the order of the requests") { trial in
            let keys = try ["a", "b", "c"].map { try trial.key($0) }
            let first = try await trial.put([1], at: keys[0])
            let third = try await trial.put([3], at: keys[2])
            let requests = [
                ReadRequest(keys[2]), ReadRequest(keys[1]), ReadRequest(keys[0], unless: first), ReadRequest(keys[2]),
            ]
            let outcomes = try await trial.backend.read(requests).outcome.map { try $0.get() }
            let entry = ReadOutcome.found(Entry(value: [3], version: third))
            try trial.expect(outcomes == [entry, .absent, .unchanged, entry], "answered \(outcomes.map(brief))")
        },
        Check("a batch of writes and deletes changes each key") { trial in
            let keys = try ["a", "b", "c"].map { try trial.key($0) }
            try await trial.put([2], at: keys[1])
            let requests = [
                WriteRequest(keys[0], value: [1], if: .any), WriteRequest(keys[1], value: nil, if: .any),
                WriteRequest(keys[2], value: [], if: .any),
            ]
            let outcomes = try await trial.backend.write(requests).outcome.map { try $0.get() }
            guard outcomes.count == 3, case .written(let first) = outcomes[0], outcomes[1] == .deleted,
                case .written(let third) = outcomes[2]
            else { throw Trial.Failure(description: "answered \(outcomes.map(brief))") }
            try await trial.expect([1], at: keys[0], version: first)
            try await trial.expect(nil, at: keys[1])
            try await trial.expect([], at: keys[2], version: third)
        },
        Check("a conflict in a batch does not affect other keys", skippedWhen: withoutCompareAndSwap) { trial in
            let keys = try ["a", "b", "c"].map { try trial.key($0) }
            let version = try await trial.put([9], at: keys[1])
            let outcomes = try await trial.backend.write(
                keys.enumerated().map { WriteRequest($1, value: [UInt8($0)], if: .absent) }
            ).outcome.map { try $0.get() }
            try trial.expect(outcomes.count == 3, "\(outcomes.count) of 3 requests were answered")
            try trial.expectConflict(outcomes[1], with: Entry(value: [9], version: version), "the middle of a batch")
            try await trial.expect([0], at: keys[0])
            try await trial.expect([9], at: keys[1], version: version)
            try await trial.expect([2], at: keys[2])
        },
    ]
}
