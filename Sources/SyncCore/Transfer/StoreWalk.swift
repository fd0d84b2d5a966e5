/// Visits all keys of a store in ascending order and continues after damaged entries.
struct StoreWalk {
    private let store: any KeyValueBackend
    private let prefix: String
    private let limit: Int
    private var cursor: EntryKey?
    /// The number of keys still to be listed one by one, because one of them may be damaged.
    private var singleCount = 0
    private var isOver = false

    /// A batch of keys, and the error that interrupted the listing, if any.
    struct Step {
        var items: [KeyPage.Item] = []
        var damage: BackendError?
    }

    init(_ store: any KeyValueBackend, prefix: String, limit: Int) {
        (self.store, self.prefix, self.limit) = (store, prefix, limit)
    }

    /// Returns the next keys; `nil` after the last.
    ///
    /// Two kinds of errors are returned in the step instead of thrown. After an error of a single entry the walk
    /// continues with the next key. After an error of a common prefix, such as an unreadable folder, it skips all keys
    /// with that prefix.
    ///
    /// - Throws: All other errors of the store.
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
        guard failure.concernsSingleEntry, let key = failure.key else { throw failure }
        if let cursor, key <= cursor {
            // A passed key cannot fail again, so the error must name the common prefix of the keys that follow.
            guard key.text.hasSuffix("/"), cursor.hasPrefix(key.text), let last = key.last, cursor < last else {
                throw failure
            }
            self.cursor = last
            return Step(damage: key == cursor ? nil : failure)
        }
        guard singleCount > 0 else {
            // List one by one, so that the keys before the damaged one are not lost.
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
                guard error.concernsSingleEntry, error.disposition == .transient else { throw error }
            }
        }
        return try await store.list(prefix: prefix, after: cursor, limit: limit).outcome
    }

    /// Reads the values of listed keys in one batch. Retries those that are unavailable.
    func read(
        _ items: [KeyPage.Item]
    ) async throws(BackendError) -> [(key: EntryKey, result: Result<ReadOutcome, BackendError>)] {
        guard !items.isEmpty else { return [] }
        var results = try await store.read(items.map { ReadRequest($0.key) }).outcome
        for _ in 1..<Self.attemptCount {
            let unavailable = results.indices.filter { results[$0].isUnavailable }
            guard !unavailable.isEmpty else { break }
            let answers = try await store.read(unavailable.map { ReadRequest(items[$0].key) }).outcome
            for (index, answer) in zip(unavailable, answers) { results[index] = answer }
        }
        return zip(items, results).map { ($0.key, $1) }
    }

    /// The number of attempts for an unavailable entry, without pauses. A `RetryBackend` around the store adds pauses.
    private static let attemptCount = 3
}

extension Result<ReadOutcome, BackendError> {
    fileprivate var isUnavailable: Bool {
        guard case .failure(let error) = self else { return false }
        return error.kind == .unavailable && error.disposition == .transient
    }
}

extension BackendError {
    /// True if the failure concerns one entry rather than the store. Such an error names a key and is permanent, or its
    /// entry is unavailable.
    var concernsSingleEntry: Bool {
        key != nil && kind != .cancelled && (disposition == .permanent || kind == .unavailable)
    }
}

extension EntryKey {
    /// The greatest possible key that begins with this one.
    var last: EntryKey? {
        do { return try EntryKey(String(decoding: Self.last(beginningWith: Array(text.utf8)), as: UTF8.self)) } catch {
            return nil
        }
    }

    /// Returns the bytes of the greatest possible key that begins with `bytes`.
    package static func last(beginningWith bytes: [UInt8]) -> [UInt8] {
        // The largest scalar values that take four, three, two and one byte.
        var bytes = bytes
        for scalar in [[0xF4, 0x8F, 0xBF, 0xBF], [0xEF, 0xBF, 0xBF], [0xDF, 0xBF], [0x7E]] as [[UInt8]] {
            while bytes.count + scalar.count <= maximumByteCount { bytes += scalar }
        }
        return bytes
    }
}
