/// The number of readable entries in a store, and its damage.
public struct StoreSurvey: Sendable {
    /// The number of entries that could be read.
    public private(set) var wholeCount = 0
    /// The size in bytes of their values together.
    public private(set) var byteCount = 0
    /// One error for each entry that could not be read, with its key and the place of the damage.
    public private(set) var damage: [BackendError] = []

    /// Reads every entry of `store`.
    ///
    /// At most a hundred values are in memory at a time. Other clients may write during the survey.
    ///
    /// - Parameters:
    ///   - store: The store to read.
    ///   - prefix: The beginning of the keys to read; empty for all.
    ///   - onProgress: Called with the survey so far after each batch of entries.
    /// - Throws: Errors that concern the store as a whole. An error that names a key and is permanent is added to
    ///   ``damage`` instead: the entry is damaged, of a later format, on a bad sector, or sealed with a key that is not
    ///   available.
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
                // Deleted after it was listed.
                case .success(.absent), .success(.unchanged): break
                case .failure(let error):
                    guard error.concernsSingleEntry else { throw error }
                    survey.damage.append(error)
                }
            }
            onProgress(survey)
        }
        return survey
    }
}
