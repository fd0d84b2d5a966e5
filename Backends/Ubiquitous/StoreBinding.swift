/// The store in iCloud that this device uses, identified by its markers. The device's local store keeps it.
///
/// A marker is a key in iCloud with a random id, written when a device creates the store. Two devices that create the
/// store before they see each other leave two markers. Both remain, so either of them identifies the store.
struct StoreBinding: Equatable {
    /// The ids of the markers that this device has seen.
    var ids: Set<String>
    /// False for a store that this device has created, until values of another device arrive or the app starts again.
    /// Until then the first download may discard the marker, so its absence proves nothing.
    var isConfirmed: Bool

    /// The relation between a binding and the markers that are in iCloud.
    enum Match: Equatable {
        /// The store of the binding is there.
        case current
        /// The store is there. The given binding must be saved before it is used.
        case changed(StoreBinding)
        /// The first download has discarded the marker of this device, which must be written again.
        case discarded(id: String)
        /// There is no store. It was never created, was deleted, or has not been downloaded.
        case missing
        /// The store is that of another iCloud account.
        case foreign
    }

    /// Compares the binding of a device, if it has one, with the markers that are in iCloud.
    static func match(_ binding: StoreBinding?, _ found: Set<String>) -> Match {
        guard let binding else {
            return found.isEmpty ? .missing : .changed(StoreBinding(ids: found, isConfirmed: true))
        }
        if !found.isDisjoint(with: binding.ids) {
            guard !found.isSubset(of: binding.ids) else { return .current }
            return .changed(StoreBinding(ids: binding.ids.union(found), isConfirmed: true))
        }
        guard !binding.isConfirmed, let id = binding.ids.min() else { return found.isEmpty ? .missing : .foreign }
        return found.isEmpty ? .discarded(id: id) : .changed(StoreBinding(ids: found, isConfirmed: true))
    }
}

extension StoreBinding {
    private static let title = "entitlementsync icloud binding "

    /// The reasons why bytes are no binding.
    enum Defect: Error {
        case damaged
        /// A later version of the app has written it.
        case newer
    }

    /// A line with the format, a line with the state, and a line for each id.
    var bytes: [UInt8] {
        let lines = [Self.title + "1", isConfirmed ? "confirmed" : "created"] + ids.sorted()
        return Array(lines.joined(separator: "\n").utf8)
    }

    init(_ bytes: [UInt8]) throws(Defect) {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
        guard let format = lines.first, format.hasPrefix(Self.title) else { throw .damaged }
        guard format == Self.title + "1" else { throw .newer }
        guard lines.count > 2, ["confirmed", "created"].contains(lines[1]) else { throw .damaged }
        self.init(ids: Set(lines[2...]), isConfirmed: lines[1] == "confirmed")
    }
}
