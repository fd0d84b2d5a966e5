import SyncCore

/// The environment of a conformance check: a new store, random numbers, and expectations.
struct Trial: Sendable {
    let store: StoreUnderTest
    /// The backend to read and write: the store's own, or another object that has it open.
    var backend: any KeyValueBackend
    var generator: SeededGenerator
    let host: HostServices

    init(store: StoreUnderTest, generator: SeededGenerator, host: HostServices) {
        self.store = store
        backend = store.backend
        self.generator = generator
        self.host = host
    }

    /// A description of wrong behaviour of the store.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// A reason why the check proves nothing, although the store did nothing wrong.
    struct Skip: Error {
        let reason: String
    }

    /// Returns the same trial with another backend object.
    func through(_ backend: any KeyValueBackend) -> Trial {
        var trial = self
        trial.backend = backend
        return trial
    }

    func key(_ text: String) throws -> EntryKey { try EntryKey(text) }

    /// Fails the check with `reason` unless `condition` holds.
    func expect(_ condition: Bool, _ reason: @autoclosure () -> String) throws {
        if !condition { throw Failure(description: reason()) }
    }

    /// Writes and returns the version; a conflict fails the check.
    @discardableResult
    func put(
        _ value: [UInt8], at key: EntryKey, if precondition: Precondition = .any
    ) async throws -> EntryVersion {
        let outcome = try await backend.write(value, to: key, if: precondition).outcome
        guard case .written(let version) = outcome else {
            throw Failure(description: "writing \"\(key)\" if \(precondition) answered \(brief(outcome))")
        }
        return version
    }

    /// Fails the check unless reading `key` returns exactly this value and version.
    func expect(
        _ value: [UInt8]?, at key: EntryKey, version: EntryVersion? = nil, _ context: String = ""
    ) async throws {
        let outcome = try await backend.read(key).outcome
        switch (outcome, value) {
        case (.absent, nil):
            return
        case (.found(let entry), let value?) where entry.value == value && entry.version == version ?? entry.version:
            return
        default:
            let place = version.map(\.description) ?? "any version"
            let expected = value.map { "\($0.count) bytes \(brief($0)) at \(place)" } ?? "absent"
            throw Failure(description: "\(context)reading \"\(key)\" answered \(brief(outcome)), not \(expected)")
        }
    }

    /// Fails the check unless `outcome` is a conflict with exactly this entry.
    func expectConflict(
        _ outcome: WriteOutcome, with entry: Entry?, _ context: String
    ) throws {
        try expect(
            outcome == .conflict(entry),
            "\(context) answered \(brief(outcome)), not a conflict with \(entry.map(brief) ?? "nothing")")
    }

    /// Fails the check unless `body` throws an error of `kind`.
    func expect(
        _ kind: BackendError.Kind, _ context: String, from body: () async throws(BackendError) -> Void
    ) async throws {
        do throws(BackendError) {
            try await body()
        } catch {
            return try expect(error.kind == kind, "\(context) threw \(error.kind) (\(error)), not \(kind)")
        }
        throw Failure(description: "\(context) did not throw \(kind)")
    }

    /// Returns all keys under `prefix`, read in pages of `limit`. A page that breaks a rule fails the check.
    func keys(prefix: String = "", limit: Int) async throws -> [EntryKey] {
        var keys: [EntryKey] = []
        var cursor: EntryKey?
        repeat {
            let page = try await backend.list(prefix: prefix, after: cursor, limit: limit).outcome
            try expect(page.items.count <= limit, "a page of \(limit) has \(page.items.count) keys")
            try expect(
                page.next == nil || page.next != cursor, "a page repeats its own position \"\(cursor?.text ?? "")\"")
            for item in page.items {
                try expect(
                    keys.last.map { $0 < item.key } ?? true,
                    "\"\(item.key)\" is listed after \"\(keys.last?.text ?? "")\"")
                keys.append(item.key)
            }
            cursor = page.next
        } while cursor != nil
        return keys
    }
}

extension KeyValueBackend {
    /// Writes `value`, or deletes the key if it is `nil`.
    func change(
        _ key: EntryKey, to value: [UInt8]?, if precondition: Precondition = .any
    ) async throws(BackendError) -> WriteOutcome {
        guard let value else { return try await delete(key, if: precondition).outcome }
        return try await write(value, to: key, if: precondition).outcome
    }
}

extension ReadOutcome {
    /// The entry that was read; `nil` if it is absent or unchanged.
    var entry: Entry? { if case .found(let entry) = self { entry } else { nil } }
}

func brief(_ bytes: [UInt8]) -> String {
    let shown = bytes.prefix(8).map { String($0) }.joined(separator: " ")
    return bytes.count > 8 ? "[\(shown) …]" : "[\(shown)]"
}

func brief(_ entry: Entry) -> String { "\(entry.value.count) bytes \(brief(entry.value)) at \(entry.version)" }

func brief(_ outcome: ReadOutcome) -> String {
    switch outcome {
    case .found(let entry): brief(entry)
    case .absent: "absent"
    case .unchanged: "unchanged"
    }
}

func brief(_ precondition: Precondition) -> String {
    switch precondition {
    case .any: "any"
    case .absent: "absent"
    case .matches(let version): "it is at \(version)"
    }
}

func brief(_ outcome: WriteOutcome) -> String {
    switch outcome {
    case .written(let version): "written at \(version)"
    case .deleted: "deleted"
    case .conflict(let entry): "conflict with \(entry.map(brief) ?? "nothing")"
    }
}
