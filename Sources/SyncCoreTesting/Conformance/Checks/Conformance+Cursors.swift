import SyncCore

extension Conformance {
    static let cursors: [Check] = [
        Check("a page of changes is the same every time it is read", skippedWhen: withoutChanges) { trial in
            for number in 0..<10 { try await trial.put([1], at: trial.key("k/\(number % 7)")) }
            var cursor: ChangeCursor?
            for _ in 0..<4 {
                let pages = [
                    try await trial.backend.changes(since: cursor, limit: 2).outcome,
                    try await trial.backend.changes(since: cursor, limit: 2).outcome,
                ]
                try trial.expect(pages[0] == pages[1], "after \(brief(cursor)) two equal requests differ")
                cursor = pages[0].cursor
            }
        },
        Check("paging reports every change once while other clients write between pages", skippedWhen: withoutChanges) {
            trial in
            for limit in 1...6 { try await trial.followBetweenPages(limit: limit, prefix: "limit-\(limit)") }
        },
        Check("a reader that follows concurrent writers ends with their final state", skippedWhen: withoutChanges) {
            trial in
            for limit in [1, 3, 50] { try await trial.followConcurrently(limit: limit, prefix: "limit-\(limit)") }
        },
        Check("no version is reused after a backup was restored", skippedWhen: withoutBackup) { trial in
            var seen: Set<EntryVersion> = []
            let before = try await trial.writeVersions()
            for version in before { try trial.expect(seen.insert(version).inserted, "\(version) is repeated") }
            let (putBack, held) = try await trial.backUp()
            for version in try await trial.writeVersions() {
                try trial.expect(seen.insert(version).inserted, "\(version) is repeated")
            }
            for _ in 0..<2 {
                let restored = try await trial.restore(putBack, held)
                for version in try await restored.writeVersions() {
                    try trial.expect(
                        seen.insert(version).inserted, "version \(version) was used again after a restore")
                }
            }
        },
        Check(
            "a cursor of a history that a restore undid has expired",
            skippedWhen: { withoutChanges($0) ?? withoutBackup($0) },
            { trial in
                for number in 0..<3 { try await trial.put([1], at: trial.key("k/\(number)")) }
                let kept = try await trial.backend.changes(since: nil, limit: 2).outcome.cursor
                let (putBack, held) = try await trial.backUp()
                var undone: [ChangeCursor] = []
                for number in 0..<4 {
                    try await trial.put([2], at: trial.key("k/\(number)"))
                    undone += [try await trial.changes(since: kept, limit: 100).1].compactMap { $0 }
                }
                let restored = try await trial.restore(putBack, held)
                try await restored.expectExpired(undone, "right after a restore")
                // Until the new history is longer than the old one.
                for number in 0..<6 {
                    try await restored.put([3], at: trial.key("other/\(number)"))
                    try await restored.expectExpired(undone, "\(number + 1) writes after a restore")
                }
                try await restored.expectRemainingChanges(after: kept, ["k/2"] + (0..<6).map { "other/\($0)" })
            }),
        Check(
            "every cursor has expired after a wipe, and no version is reused",
            skippedWhen: without("wipe") { $0.wipe },
            { trial in try await trial.wipeAndLook() }),
    ]

    private static let withoutBackup = without("backup") { $0.backup }
}

private func brief(_ cursor: ChangeCursor?) -> String { cursor.map { "change \($0.sequence)" } ?? "the beginning" }

extension Trial {
    private static let followedKeys = 8

    /// Reads pages and writes between them. Each change must be reported exactly once.
    fileprivate mutating func followBetweenPages(limit: Int, prefix: String) async throws {
        let keys = try (0..<Self.followedKeys).map { try key("\(prefix)/\($0)") }
        for key in keys.prefix(5) { try await put([0], at: key) }
        var view = FollowedView()
        // Skips the changes of the earlier page sizes.
        var cursor: ChangeCursor?
        if limit > 1 {
            cursor = try await changes(since: nil, limit: 100).1
            for key in keys.prefix(5) { try await put([1], at: key) }
        }
        for round in 0..<20 {
            let page = try await backend.changes(since: cursor, limit: limit).outcome
            try view.take(page, limit: limit, onlyOnce: true)
            cursor = page.cursor
            for _ in 0..<Int.random(in: 0...2, using: &generator) {
                guard let key = keys.randomElement(using: &generator) else { continue }
                if Int.random(in: 0..<4, using: &generator) == 0 {
                    _ = try await backend.delete(key, if: .any)
                } else {
                    try await put([UInt8(round)], at: key)
                }
            }
        }
        // More than one page, and no writes afterwards that could hide a change missing from the last pages.
        for key in keys.shuffled(using: &generator) { try await put([100], at: key) }
        let (rest, _) = try await changes(since: cursor, limit: limit)
        try view.take(ChangePage(changes: rest, cursor: nil, hasMore: false), limit: .max, onlyOnce: true)
        try await expectView(view, of: keys, "in pages of \(limit)")
    }

    /// Reads pages while tasks write, and the remaining pages after they have finished.
    fileprivate mutating func followConcurrently(limit: Int, prefix: String) async throws {
        let keys = try (0..<Self.followedKeys).map { try key("\(prefix)/\($0)") }
        let backend = backend
        let start = try await changes(since: nil, limit: 100).1
        let generators = (0..<3).map { _ in generator.split() }
        let trial = self
        let (view, cursor) = try await withThrowingTaskGroup(of: (FollowedView, ChangeCursor?)?.self) { group in
            for var generator in generators {
                group.addTask {
                    for number in 0..<20 {
                        guard let key = keys.randomElement(using: &generator) else { continue }
                        _ = try await backend.change(key, to: number % 5 == 4 ? nil : [UInt8(number)])
                        await Task.yield()
                    }
                    return nil
                }
            }
            group.addTask {
                var view = FollowedView()
                var cursor = start
                for _ in 0..<40 {
                    let page = try await backend.changes(since: cursor, limit: limit).outcome
                    try view.take(page, limit: limit, onlyOnce: false)
                    cursor = page.cursor
                    await Task.yield()
                }
                return (view, cursor)
            }
            var followed: (FollowedView, ChangeCursor?) = (FollowedView(), start)
            for try await result in group { if let result { followed = result } }
            return followed
        }
        var whole = view
        let (rest, _) = try await trial.changes(since: cursor, limit: limit)
        try whole.take(ChangePage(changes: rest, cursor: nil, hasMore: false), limit: .max, onlyOnce: false)
        try await expectView(whole, of: keys, "after concurrent writers, in pages of \(limit)")
    }

    private func expectView(_ view: FollowedView, of keys: [EntryKey], _ context: String) async throws {
        for key in keys {
            let outcome = try await backend.read(key).outcome
            try expect(
                view.versions[key] == outcome.entry?.version,
                "\(context): \"\(key)\" is \(brief(outcome)), and the reader of changes has "
                    + (view.versions[key].map { "\($0)" } ?? "absent"))
        }
    }
}

/// The state that a reader of changes has derived.
private struct FollowedView: Sendable {
    var versions: [EntryKey: EntryVersion] = [:]

    /// - Parameter onlyOnce: True if a change that is already known counts as repeated. While other tasks write, a page
    ///   may be ahead of its own cursor.
    mutating func take(_ page: ChangePage, limit: Int, onlyOnce: Bool) throws {
        let keys = page.changes.map(\.key)
        guard keys.count <= limit else {
            throw Trial.Failure(description: "a page of \(limit) has \(keys.count) changes")
        }
        for change in page.changes {
            if onlyOnce, let version = change.version, versions[change.key] == version {
                throw Trial.Failure(description: "\"\(change.key)\" at \(version) is reported twice")
            }
            versions[change.key] = change.version
        }
    }
}

extension Trial {
    /// Returns the versions of some writes: of equal values, of two keys, and after a delete.
    fileprivate func writeVersions() async throws -> [EntryVersion] {
        try await WrittenHistory(writingInto: backend).versions
    }

    /// Makes a backup. Returns the function that restores it, and the content of the store.
    fileprivate func backUp() async throws -> (StoreUnderTest.Opening, [EntryKey: Entry]) {
        guard let backup = store.backup else { throw Skip(reason: "no `backup` was supplied") }
        return (try await backup(), try await contents())
    }

    /// Restores the backup and verifies the content.
    fileprivate func restore(_ putBack: StoreUnderTest.Opening, _ held: [EntryKey: Entry]) async throws -> Trial {
        let restored = through(try await putBack())
        let contents = try await restored.contents()
        try expect(
            contents == held,
            "the backup had \(held.count) entries; the restored store has \(contents.count), or different ones")
        return restored
    }

    private func contents() async throws -> [EntryKey: Entry] {
        var contents: [EntryKey: Entry] = [:]
        for key in try await keys(limit: 100) { contents[key] = try await backend.read(key).outcome.entry }
        return contents
    }

    fileprivate func expectExpired(_ cursors: [ChangeCursor], _ context: String) async throws {
        let backend = backend
        for cursor in cursors {
            try await expect(.cursorExpired, "\(context), \(brief(cursor))") { () async throws(BackendError) in
                _ = try await backend.changes(since: cursor, limit: 10)
            }
        }
    }

    /// A cursor from before the backup may have expired; if it is accepted, the page must be complete.
    fileprivate func expectRemainingChanges(after cursor: ChangeCursor?, _ expected: [String]) async throws {
        do {
            let (changes, _) = try await changes(since: cursor, limit: 2)
            let keys = changes.map(\.key.text)
            try expect(keys == expected, "after \(brief(cursor)), which the backup contains: \(keys), not \(expected)")
        } catch let error as BackendError where error.kind == .cursorExpired {
            return
        }
    }

    fileprivate func wipeAndLook() async throws {
        guard let wipe = store.wipe else { return }
        let before = Set(try await writeVersions())
        var cursor: ChangeCursor?
        if backend.capabilities.changes { cursor = try await changes(since: nil, limit: 100).1 }
        let empty = through(try await wipe())
        let listed = try await empty.keys(limit: 10)
        try expect(listed.isEmpty, "after the wipe \(listed.map(\.text)) still exists")
        if let cursor { try await empty.expectExpired([cursor], "right after the wipe") }
        let repeated = try await empty.writeVersions().filter { before.contains($0) }
        try expect(repeated.isEmpty, "version \(repeated.first?.description ?? "") was used again after the wipe")
        guard let cursor else { return }
        try await empty.expectExpired([cursor], "after the wipe and as many writes as before")
        let (changes, _) = try await empty.changes(since: nil, limit: 3)
        let keys = Set(changes.map(\.key.text))
        try expect(keys.isSubset(of: ["v/a", "v/b"]), "after the wipe the changes name \(keys.sorted())")
    }
}
