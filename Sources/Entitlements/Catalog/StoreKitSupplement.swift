/// The information that a catalogue needs but a `.storekit` file of Xcode does not contain.
///
/// Every id must belong to a product that needs the given value. Any other id is an error, because it is usually a
/// misspelling.
public struct StoreKitSupplement: Hashable, Sendable {
    /// The durations of non-renewing subscriptions. Each of them needs one, because StoreKit leaves their duration to
    /// the app.
    public var durations: [ProductID: CalendarDuration]
    /// The groups of non-renewing subscriptions. A subscription without an entry forms a group of its own, named by
    /// its id. Give products the same group to append their time to each other.
    public var groups: [ProductID: GroupID]
    /// The number of units that a consumable gives, 1 to 1,000,000. The default is 1.
    public var units: [ProductID: Int64]

    /// Creates a supplement.
    public init(
        durations: [ProductID: CalendarDuration] = [:], groups: [ProductID: GroupID] = [:],
        units: [ProductID: Int64] = [:]
    ) {
        self.durations = durations
        self.groups = groups
        self.units = units
    }

    /// A Boolean value that indicates whether the supplement is empty.
    package var isEmpty: Bool { durations.isEmpty && groups.isEmpty && units.isEmpty }

    /// Rejects values for products that `kinds` does not contain or that do not need them.
    func check(against kinds: [ProductID: ProductKind]) throws(InputError) {
        try check(durations.keys, "a duration", of: "nonRenewing", kinds)
        try check(groups.keys, "a group", of: "nonRenewing", kinds)
        try check(units.keys, "a number of units", of: "consumable", kinds)
    }

    private func check(
        _ ids: some Collection<ProductID>, _ what: String, of needed: String, _ kinds: [ProductID: ProductKind]
    ) throws(InputError) {
        for id in ids.sorted() {
            guard let kind = kinds[id] else {
                throw InputError(
                    path: "", reason: "\(what) is given for \"\(id.rawValue.singleLine)\", which the file does not sell"
                )
            }
            guard kind.name == needed else {
                throw InputError(path: "", reason: "\(what) is given for \"\(id)\", which is \(kind.name)")
            }
        }
    }
}
