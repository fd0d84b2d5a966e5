extension Precondition {
    /// Whether it holds for a key at `current`, `nil` when the key holds nothing.
    ///
    /// For a backend that checks by itself, under its own lock.
    public func holds(for current: EntryVersion?) -> Bool {
        switch self {
        case .any: true
        case .absent: current == nil
        case .matches(let version): current == version
        }
    }
}
