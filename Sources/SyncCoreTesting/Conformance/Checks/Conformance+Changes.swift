import SyncCore

extension Conformance {
    static let withoutChanges = undeclared("changes") { $0.changes }

    static let changes: [Check] = [
        Check(
            "a store without changes throws `unsupported`",
            skippedWhen: { $0.capabilities.changes ? "the store declares changes" : nil }
        ) {
            trial in
            let backend = trial.backend
            try await trial.expect(.unsupported, "asking for changes") { () async throws(BackendError) in
                _ = try await backend.changes(since: nil, limit: 10)
            }
        },
        Check("changes name each key once, with its current version", skippedWhen: withoutChanges) { trial in
            let keys = try ["a", "b", "c", "d"].map { try trial.key($0) }
            for _ in 0..<3 { for key in keys { try await trial.put([1], at: key) } }
            _ = try await trial.backend.delete(keys[1], if: .any)
            try await trial.put([2], at: keys[0])
            for limit in 1...5 {
                let (changes, _) = try await trial.changes(since: nil, limit: limit)
                let order = changes.map(\.key)
                let expected = [keys[2], keys[3], keys[1], keys[0]]
                try trial.expect(order == expected, "in pages of \(limit): \(order), not \(expected)")
                try trial.expect(changes[2].version == nil, "the deleted key has a version")
                for change in changes where change.key != keys[1] {
                    let outcome = try await trial.backend.read(change.key, unless: change.version).outcome
                    try trial.expect(outcome == .unchanged, "\"\(change.key)\" does not have the reported version")
                }
            }
        },
        Check("a page after a cursor contains only later changes", skippedWhen: withoutChanges) { trial in
            let keys = try ["a", "b"].map { try trial.key($0) }
            for key in keys { try await trial.put([1], at: key) }
            let (_, cursor) = try await trial.changes(since: nil, limit: 100)
            let (none, same) = try await trial.changes(since: cursor, limit: 100)
            try trial.expect(none.isEmpty && same == cursor, "\(none.map(\.key)) changed without a write")
            if trial.backend.capabilities.compareAndSwap {
                _ = try await trial.backend.write([3], to: keys[0], if: .absent)
                let (refused, _) = try await trial.changes(since: cursor, limit: 100)
                try trial.expect(refused.isEmpty, "a conflict is reported as a change")
            }
            try await trial.put([2], at: keys[1])
            let (changes, _) = try await trial.changes(since: cursor, limit: 100)
            try trial.expect(changes.map(\.key) == [keys[1]], "\(changes.map(\.key)) is reported, not \(keys[1])")
        },
        Check("changes of a prefix leave out other keys and pass them", skippedWhen: withoutChanges) { trial in
            let inside = try ["p/a", "p/é", "p/"].map { try trial.key($0) }
            let outside = try ["p", "P/a", "o/p/a", "q"].map { try trial.key($0) }
            for _ in 0..<2 { for key in inside + outside { try await trial.put([1], at: key) } }
            _ = try await trial.backend.delete(inside[0], if: .any)
            for limit in 1...4 {
                let (changes, cursor) = try await trial.changes(since: nil, prefix: "p/", limit: limit)
                let expected = [inside[1], inside[2], inside[0]]
                try trial.expect(
                    changes.map(\.key) == expected, "in pages of \(limit): \(changes.map(\.key)), not \(expected)")
                let (rest, _) = try await trial.changes(since: cursor, limit: 10)
                try trial.expect(rest.isEmpty, "after the last page of a prefix, \(rest.map(\.key)) has changed")
            }
        },
        Check("the latest cursor is after every acknowledged write", skippedWhen: withoutChanges) { trial in
            let backend = trial.backend
            let first = try await backend.latestCursor().outcome
            for number in 0..<5 {
                let keys = try ["a", "b"].map { try trial.key($0) }
                for key in keys { try await trial.put([UInt8(number)], at: key) }
                if number == 3 { _ = try await backend.delete(keys[1], if: .any) }
                let latest = try await backend.latestCursor().outcome
                try trial.expect(latest != nil && latest != first, "the latest cursor stays the one of an empty store")
                let (known, _) = try await trial.changes(since: latest, limit: 10)
                try trial.expect(known.isEmpty, "after the latest cursor, \(known.map(\.key)) has changed")
                try await trial.put([9], at: keys[0])
                let (later, _) = try await trial.changes(since: latest, limit: 10)
                try trial.expect(
                    later.map(\.key) == [keys[0]], "after the latest cursor, \(later.map(\.key)) is reported")
            }
        },
        Check("a cursor from another history has expired", skippedWhen: withoutChanges) { trial in
            let backend = trial.backend
            try await trial.put([1], at: trial.key("k"))
            let (_, cursor) = try await trial.changes(since: nil, limit: 10)
            guard let cursor else { throw Trial.Failure(description: "a store with a change has no cursor") }
            let wrong = [
                ChangeCursor(sequence: cursor.sequence, tag: cursor.tag ^ 1),
                ChangeCursor(sequence: cursor.sequence + 1, tag: cursor.tag),
                ChangeCursor(sequence: cursor.sequence + 1_000, tag: cursor.tag),
            ]
            for cursor in wrong {
                try await trial.expect(.cursorExpired, "cursor \(cursor)") { () async throws(BackendError) in
                    _ = try await backend.changes(since: cursor, limit: 10)
                }
            }
        },
    ]
}

extension Trial {
    /// Returns all changes since `cursor`, read in pages of `limit`, and the last cursor.
    func changes(
        since cursor: ChangeCursor?, prefix: String = "", limit: Int
    ) async throws -> ([ChangePage.Change], ChangeCursor?) {
        var changes: [ChangePage.Change] = []
        var cursor = cursor
        while true {
            let page = try await backend.changes(since: cursor, prefix: prefix, limit: limit).outcome
            try expect(page.changes.count <= limit, "a page of \(limit) has \(page.changes.count) changes")
            changes += page.changes
            try expect(!page.hasMore || page.cursor != cursor, "a page with more changes after it repeats its cursor")
            cursor = page.cursor
            if !page.hasMore { return (changes, cursor) }
        }
    }
}
