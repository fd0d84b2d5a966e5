/// What is in a store, and what of it is damaged.
public struct StoreSurvey: Sendable {
    /// How many entries could be read.
    public private(set) var wholeCount = 0
    /// How many bytes their values have together.
    public private(set) var byteCount = 0
    /// One error for each entry that could not be read: it names the key, and where the damage is.
    public private(set) var damage: [BackendError] = []

    /// Reads every entry of `store`.
    ///
    /// Memory is bounded by a hundred values. Others may write meanwhile.
    ///
    /// - Parameters:
    ///   - store: the store to look at.
    ///   - prefix: only keys that begin so; empty for all.
    ///   - onProgress: told now and then what was found so far.
    /// - Throws: what keeps the store from being read at all. An error that names a key and will not pass is in
    ///   ``damage`` instead: an entry that is damaged, of a later format, on a bad sector, or sealed with a key that is
    ///   not at hand.
    public static func of(
        _ store: any KeyValueBackend, prefix: String = "", onProgress: (StoreSurvey) -> Void = { _ in }
    ) async throws(BackendError) -> StoreSurvey {
        var survey = StoreSurvey()
        var walk = StoreWalk(store, prefix: prefix, limit: StoreCopy.pageSize)
        while let step = try await walk.next() {
            if let error = step.damage { survey.damage.append(error) }
            for (_, result) in try await walk.read(step.items) {
                switch result {
                case .success(.found(let entry)):
                    survey.wholeCount += 1
                    survey.byteCount += entry.value.count
                // Deleted since it was listed.
                case .success(.absent), .success(.unchanged): break
                case .failure(let error):
                    guard error.isOfTheEntry else { throw error }
                    survey.damage.append(error)
                }
            }
            onProgress(survey)
        }
        return survey
    }
}
