import Synchronization

/// Counts the bytes of long answers that their readers have not taken yet. There is so much room for all of them, and a
/// quarter of it for those of one caller.
final class AnswerRoom: Sendable {
    /// What an answer has of it.
    struct Place: Sendable {
        fileprivate let byteCount: Int
        fileprivate let owner: String
    }

    private struct State {
        var total = 0
        var ofOwner: [String: Int] = [:]
    }

    private let state = Mutex(State())
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    /// Counts `byteCount` bytes of `owner`; `nil` where they must fit and do not. One answer always fits when there is
    /// no other of its owner, or of anybody, however long it is.
    func take(_ byteCount: Int, of owner: String, mustFit: Bool) -> Place? {
        state.withLock { state in
            let own = state.ofOwner[owner, default: 0]
            if mustFit {
                let fitsAll = state.total == 0 || state.total + byteCount <= capacity
                guard fitsAll, own == 0 || own + byteCount <= capacity / 4 else { return nil }
            }
            state.total += byteCount
            state.ofOwner[owner] = own + byteCount
            return Place(byteCount: byteCount, owner: owner)
        }
    }

    /// Forgets what was counted.
    func give(_ place: Place) {
        state.withLock { state in
            state.total -= place.byteCount
            let own = state.ofOwner[place.owner, default: 0] - place.byteCount
            state.ofOwner[place.owner] = own > 0 ? own : nil
        }
    }
}
