extension Precondition {
    /// Returns `true` if the precondition holds for a key at version `current`; `nil` for an absent key.
    ///
    /// For backends that check preconditions themselves, under their own lock.
    public func holds(for current: EntryVersion?) -> Bool {
        switch self {
        case .any: true
        case .absent: current == nil
        case .matches(let version): current == version
        }
    }
}
