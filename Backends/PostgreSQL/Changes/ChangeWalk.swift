#if PostgreSQL
import SyncCore

/// A reader's way through all changes, from the beginning of the store.
///
/// Deletions are removed after a while, so an old cursor must expire. A reader that begins without one needs no
/// deletion from before its beginning, but it passes through old changes. Its cursors name the latest mark at the
/// beginning: their tag is the tag of the change, combined with a mask of that mark. They are valid while the mark is
/// kept, because only deletions before it were removed until then.
struct ChangeWalk {
    /// The number of the latest change at the mark.
    let mark: Int64

    /// The tag of a cursor of this walk at a change with `tag`.
    func tag(for tag: UInt64) -> UInt64 {
        // The finalizer of SplitMix64.
        var bits = UInt64(bitPattern: mark) &+ 0x9E37_79B9_7F4A_7C15
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        return tag ^ bits ^ bits >> 31
    }

    /// The cursor of this walk at a change; an ordinary cursor once the change is later than the mark.
    func cursor(at cursor: ChangeCursor) -> ChangeCursor {
        guard Int64(bitPattern: cursor.sequence) <= mark else { return cursor }
        return ChangeCursor(sequence: cursor.sequence, tag: tag(for: cursor.tag))
    }
}
#endif
