import Synchronization

/// Something that a test turns on and off while others look.
final class TestFlag: Sendable {
    private let state = Atomic(false)

    var isSet: Bool { state.load(ordering: .sequentiallyConsistent) }
    func set(_ isSet: Bool) { state.store(isSet, ordering: .sequentiallyConsistent) }
}
