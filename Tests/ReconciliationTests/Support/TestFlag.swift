import Synchronization

/// A flag that a test sets while concurrent tasks read it.
final class TestFlag: Sendable {
    private let state = Atomic(false)

    var isSet: Bool { state.load(ordering: .sequentiallyConsistent) }
    func set(_ isSet: Bool) { state.store(isSet, ordering: .sequentiallyConsistent) }
}
