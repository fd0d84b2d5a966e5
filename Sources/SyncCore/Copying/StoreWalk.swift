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
    /// - Throws: what the store throws, except damage that names a key further on: that is part of the step.
    mutating func next() async throws(BackendError) -> Step? {
        guard !isOver else { return nil }
        let failure: BackendError
        do throws(BackendError) {
            let page = try await store.list(prefix: prefix, after: cursor, limit: singleCount > 0 ? 1 : limit).outcome
            singleCount -= min(singleCount, 1)
            cursor = page.next
            isOver = page.next == nil
            return Step(items: page.items)
        } catch {
            failure = error
        }
        guard failure.kind == .damaged, let key = failure.key, cursor.map({ $0 < key }) ?? true else { throw failure }
        guard singleCount > 0 else {
            // Those before it are listed one by one.
            singleCount = limit
            return Step()
        }
        cursor = key
        return Step(damage: failure)
    }
}
