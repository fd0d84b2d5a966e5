/// Goes through all keys of a store in ascending order, past entries that are damaged.
struct StoreWalk {
    private let store: any KeyValueBackend
    private let prefix: String
    private let limit: Int
    private var cursor: EntryKey?
    /// How many keys are still asked for one by one: somewhere among them is a damaged one.
    private var singleCount = 0
    private var isOver = false

    /// Keys, and what kept some from being listed.
    struct Step {
        var items: [KeyPage.Item] = []
        var damage: BackendError?
    }

    init(_ store: any KeyValueBackend, prefix: String, limit: Int) {
        (self.store, self.prefix, self.limit) = (store, prefix, limit)
    }

    /// The next keys; `nil` after the last.
    ///
    /// - Throws: what the store throws, except an error that names a key further on and is of that entry only: that is
    ///   part of the step. So is one that names the beginning of keys which cannot be listed, a folder's; the next key
    ///   after all of them is the next one listed.
    mutating func next() async throws(BackendError) -> Step? {
        guard !isOver else { return nil }
        let failure: BackendError
        do throws(BackendError) {
            let page = try await list(limit: singleCount > 0 ? 1 : limit)
            singleCount -= min(singleCount, 1)
            cursor = page.next
            isOver = page.next == nil
            return Step(items: page.items)
        } catch {
            failure = error
        }
        guard failure.isOfTheEntry, let key = failure.key else { throw failure }
        if let cursor, key <= cursor {
            // The same again behind that key: it is the beginning of others.
            guard key.text.hasSuffix("/"), cursor.hasPrefix(key.text), let last = key.last, cursor < last else {
                throw failure
            }
            self.cursor = last
            return Step(damage: key == cursor ? nil : failure)
        }
        guard singleCount > 0 else {
            // Those before it are listed one by one.
            singleCount = limit
            return Step()
        }
        cursor = key
        return Step(damage: failure)
    }

    private func list(limit: Int) async throws(BackendError) -> KeyPage {
        for _ in 1..<Self.attemptCount {
            do throws(BackendError) {
                return try await store.list(prefix: prefix, after: cursor, limit: limit).outcome
            } catch {
                guard error.isOfTheEntry, error.disposition == .transient else { throw error }
            }
        }
        return try await store.list(prefix: prefix, after: cursor, limit: limit).outcome
    }

    /// Reads listed keys, each on its own. What is not available is asked for again.
    func read(
        _ items: [KeyPage.Item]
    ) async throws(BackendError) -> [(key: EntryKey, result: Result<ReadOutcome, BackendError>)] {
        guard !items.isEmpty else { return [] }
        var results = try await store.read(items.map { ReadRequest($0.key) }).outcome
        for _ in 1..<Self.attemptCount {
            let again = results.indices.filter { results[$0].isUnavailable }
            guard !again.isEmpty else { break }
            let answers = try await store.read(again.map { ReadRequest(items[$0].key) }).outcome
            for (index, answer) in zip(again, answers) { results[index] = answer }
        }
        return zip(items, results).map { ($0.key, $1) }
    }

    /// How often something that is not available is asked for. Pauses are for a `RetryBackend` around the store.
    private static let attemptCount = 3
}

extension Result<ReadOutcome, BackendError> {
    fileprivate var isUnavailable: Bool {
        guard case .failure(let error) = self else { return false }
        return error.kind == .unavailable && error.disposition == .transient
    }
}

extension BackendError {
    /// Whether it is one entry that cannot be read, and not the store: it names the entry, and it will be the same the
    /// next time, or the entry stays unavailable while the store answers.
    var isOfTheEntry: Bool {
        key != nil && kind != .cancelled && (disposition == .permanent || kind == .unavailable)
    }
}

extension EntryKey {
    /// The last of all keys that begin with this one.
    var last: EntryKey? {
        do { return try EntryKey(String(decoding: Self.last(beginningWith: Array(text.utf8)), as: UTF8.self)) } catch {
            return nil
        }
    }

    /// The bytes after which no key begins with `bytes`: those of the last one.
    package static func last(beginningWith bytes: [UInt8]) -> [UInt8] {
        // The last scalar values of four, three, two and one byte.
        var bytes = bytes
        for scalar in [[0xF4, 0x8F, 0xBF, 0xBF], [0xEF, 0xBF, 0xBF], [0xDF, 0xBF], [0x7E]] as [[UInt8]] {
            while bytes.count + scalar.count <= maximumByteCount { bytes += scalar }
        }
        return bytes
    }
}
