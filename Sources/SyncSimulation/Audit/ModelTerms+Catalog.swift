import Entitlements

extension ModelTerms {
    /// The terms at which a catalogue sells a product; `nil` for an unknown id. Units and unlocks have no end that a
    /// bonus could extend.
    init?(of product: String, in catalog: Catalog) {
        guard let kind = catalog.products.first(where: { ModelID("\($0.id)") == ModelID(product) })?.kind else {
            return nil
        }
        let bonus = ModelDuration(catalog.policy.bonus)
        switch kind {
        case .consumable(let units): self.init(kind: .consumable, units: units)
        case .nonConsumable: self.init(kind: .nonConsumable)
        case .nonRenewing(let group, let duration):
            self.init(
                kind: .nonRenewing, group: ModelID("\(group)"), duration: ModelDuration(duration), bonus: bonus)
        case .autoRenewable(let group, let level, let duration, let introductory):
            self.init(
                kind: .autoRenewable, group: ModelID("\(group)"), duration: ModelDuration(duration), level: level,
                introductory: introductory.map { ModelDuration($0.duration) }, bonus: bonus)
        }
    }
}

extension ModelDuration {
    init(_ duration: CalendarDuration) {
        self.init(months: duration.months, days: duration.days, seconds: duration.seconds)
    }
}
