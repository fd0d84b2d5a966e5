import SyncCore

extension Conformance {
    static let versions: [Check] = [
        Check("versions look like random bits or digests, not like counters or timestamps") { trial in
            let versions = try await trial.drawVersions()
            if let regular = Regularity.found(in: versions.map(\.bytes)) {
                throw Trial.Failure(description: "of \(versions.count) versions, \(regular)")
            }
        },
        Check("the tags of cursors look random, not like counters or timestamps", skippedWhen: withoutChanges) {
            trial in
            let count = try await trial.drawVersions().count
            var tags: [[UInt8]] = []
            var cursor: ChangeCursor?
            repeat {
                let page = try await trial.backend.changes(since: cursor, limit: 1).outcome
                guard let next = page.cursor, next != cursor, !page.changes.isEmpty else { break }
                tags.append(withUnsafeBytes(of: next.tag.bigEndian) { Array($0) })
                cursor = next
            } while tags.count < count
            try trial.expect(tags.count == count, "\(count) keys changed, and there are \(tags.count) changes")
            if let regular = Regularity.found(in: tags) {
                throw Trial.Failure(description: "of the tags of \(tags.count) changes, \(regular)")
            }
        },
        Check(
            "no process reuses a version or a cursor, not even after a wipe or a restore",
            skippedWhen: without("lives") { $0.lives },
            { trial in
                guard let lives = trial.store.lives else { return }
                let histories = try await lives()
                try trial.expect(histories.count > 1, "\(histories.count) processes wrote; at least two are necessary")
                var versions: Set<EntryVersion> = []
                var tags: Set<UInt64> = []
                for (number, history) in histories.enumerated() {
                    try trial.expect(!history.versions.isEmpty, "process \(number + 1) wrote nothing")
                    for version in history.versions {
                        try trial.expect(
                            versions.insert(version).inserted, "process \(number + 1) received version \(version) again"
                        )
                    }
                    for tag in history.tags {
                        try trial.expect(
                            tags.insert(tag).inserted, "process \(number + 1) received the cursor tag \(tag) again")
                    }
                }
                try trial.expect(
                    !trial.backend.capabilities.changes || !tags.isEmpty, "the store declares changes but reports none")
            }),
    ]
}

extension Trial {
    /// Returns the versions of 256 writes in their order, each of another key and value.
    fileprivate func drawVersions() async throws -> [EntryVersion] {
        var versions: [EntryVersion] = []
        for batch in 0..<8 {
            let requests = try (0..<32).map { number in
                WriteRequest(try key("version/\(batch)/\(number)"), value: [UInt8(batch), UInt8(number)], if: .any)
            }
            for (request, result) in zip(requests, try await backend.write(requests).outcome) {
                guard case .written(let version) = try result.get() else {
                    throw Failure(description: "writing \"\(request.key)\" under `any` returned no version")
                }
                versions.append(version)
            }
        }
        return versions
    }
}
