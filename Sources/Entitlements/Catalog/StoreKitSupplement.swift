/// What a `.storekit` file of Xcode does not say and a catalogue needs.
///
/// Every id in it must be that of a product which needs what is given; anything else is an error, because it is most
/// often a misspelt one.
public struct StoreKitSupplement: Hashable, Sendable {
    /// How long a non-renewing subscription lasts. Needed for each of them: Apple leaves that to the app.
    public var durations: [ProductID: CalendarDuration]
    /// The group of a non-renewing subscription. Without one it is in a group of its own, named by its id; products
    /// whose time is to be appended to each other are given the same group.
    public var groups: [ProductID: GroupID]
    /// How many units a consumable gives, 1 to 1,000,000; 1 when not given.
    public var units: [ProductID: Int64]

    /// A supplement of the given parts.
    public init(
        durations: [ProductID: CalendarDuration] = [:], groups: [ProductID: GroupID] = [:],
        units: [ProductID: Int64] = [:]
    ) {
        self.durations = durations
        self.groups = groups
        self.units = units
    }

    /// Whether it says nothing.
    public var isEmpty: Bool { durations.isEmpty && groups.isEmpty && units.isEmpty }

    /// Refuses what is given for something that `kinds` does not have, or that does not need it.
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
