/// The validation of catalogues from every source.
struct CatalogChecker {
    let products: [Product]
    let entitlements: [Entitlement]
    let policy: Policy
    var content: [ContentRule] = []
    var offerings: [Offering] = []

    static let unitRange: ClosedRange<Int64> = 1...1_000_000
    static let levelRange: ClosedRange<Int64> = 1...1_000

    func check() throws(InputError) {
        try checkProducts()
        try checkEntitlements()
        try require(policy.bonus.isWithinBounds, at: "policy.bonus", "a bonus must be at most 100 years")
        try checkContent()
        try checkOfferings()
    }

    private func checkOfferings() throws(InputError) {
        var seen: Set<OfferingID> = []
        let known = Set(products.map(\.id))
        for (index, offering) in offerings.enumerated() {
            let path = "offerings[\(index)]"
            try checkID(offering.id, at: "\(path).id")
            try require(seen.insert(offering.id).inserted, at: "\(path).id", "\"\(offering.id)\" is used twice")
            try require(
                !offering.products.isEmpty, at: "\(path).products",
                "\"\(offering.id)\" has no products: name some, or remove the offering")
            var listed: Set<ProductID> = []
            for (position, product) in offering.products.enumerated() {
                let path = "\(path).products[\(position)]"
                try require(
                    known.contains(product), at: path,
                    "no product has the id \"\(product.rawValue.singleLine)\": add it to products, or remove it here")
                try require(listed.insert(product).inserted, at: path, "\"\(product)\" is listed twice")
            }
        }
    }

    private func checkContent() throws(InputError) {
        try require(
            content.count <= ContentRule.maximumCount, at: "content",
            "there must be at most \(ContentRule.maximumCount) rules")
        let groups = Set(products.compactMap(\.kind.group))
        var seen: Set<[UInt8]> = []
        for (index, rule) in content.enumerated() {
            let path = "content[\(index)]"
            if let reason = rule.objection { throw InputError(path: "\(path).path", reason: reason) }
            try require(
                seen.insert(Array(rule.path.utf8)).inserted, at: "\(path).path",
                "\"\(rule.path.singleLine)\" has two rules")
            try require(
                Self.levelRange.contains(rule.maximumLevel), at: "\(path).maximumLevel",
                Self.badLevel("\(rule.maximumLevel)"))
            switch rule.source {
            case .group(let group):
                try require(
                    groups.contains(group), at: "\(path).group",
                    "no product is in group \"\(group.rawValue.singleLine)\"")
            case .entitlement(let id):
                try require(
                    entitlements.contains(where: { $0.id == id }), at: "\(path).entitlement",
                    "there is no entitlement \"\(id.rawValue.singleLine)\"")
                try require(
                    rule.basis == .current && rule.maximumLevel == 1, at: "\(path).entitlement",
                    "a rule with an entitlement is by now, without a level")
            }
        }
    }

    private func checkProducts() throws(InputError) {
        var seen: Set<ProductID> = []
        var kindOfGroup: [GroupID: String] = [:]
        for (index, product) in products.enumerated() {
            let path = "products[\(index)]"
            try checkID(product.id, at: "\(path).id")
            try require(seen.insert(product.id).inserted, at: "\(path).id", "\"\(product.id)\" is used twice")
            try check(product.kind, at: path)
            guard let group = product.kind.group else { continue }
            try checkID(group, at: "\(path).group")
            let known = kindOfGroup.updateValue(product.kind.name, forKey: group) ?? product.kind.name
            try require(
                known == product.kind.name, at: "\(path).group",
                "\"\(group)\" mixes \(known) and \(product.kind.name), a group holds one kind only")
        }
    }

    private func check(_ kind: ProductKind, at path: String) throws(InputError) {
        switch kind {
        case .consumable(let units):
            try require(
                Self.unitRange.contains(units), at: "\(path).units", "units must be 1 to 1,000,000, not \(units)")
        case .nonConsumable:
            break
        case .nonRenewing(_, let duration):
            if duration != .forever { try check(duration, at: "\(path).duration") }
        case .autoRenewable(_, let level, let duration, let introductory):
            try require(Self.levelRange.contains(level), at: "\(path).level", Self.badLevel("\(level)"))
            try check(duration, at: "\(path).duration")
            if let introductory { try check(introductory.duration, at: "\(path).introductory.duration") }
        }
    }

    private static func badLevel(_ level: String) -> String {
        "a level must be 1 (highest) to 1,000, not \(level)"
    }

    private func check(_ duration: CalendarDuration, at path: String) throws(InputError) {
        try require(duration != .zero, at: path, "a duration must be longer than zero")
        try require(duration != .forever, at: path, "only the duration of a nonRenewing product can be forever")
        try require(duration.isWithinBounds, at: path, "a duration must be at most 100 years")
    }

    private func checkEntitlements() throws(InputError) {
        var seen: Set<EntitlementID> = []
        let kinds = Dictionary(uniqueKeysWithValues: products.map { ($0.id, $0.kind) })
        let groups = Set(products.compactMap(\.kind.group))
        for (index, entitlement) in entitlements.enumerated() {
            let path = "entitlements[\(index)]"
            try checkID(entitlement.id, at: "\(path).id")
            try require(seen.insert(entitlement.id).inserted, at: "\(path).id", "\"\(entitlement.id)\" is used twice")
            try require(!entitlement.grantedBy.isEmpty, at: "\(path).grantedBy", "nothing grants \"\(entitlement.id)\"")
            for (position, source) in entitlement.grantedBy.enumerated() {
                guard let reason = objection(to: source, kinds: kinds, groups: groups) else { continue }
                throw InputError(path: "\(path).grantedBy[\(position)]", reason: reason)
            }
        }
    }

    private func objection(to source: Entitlement.Source, kinds: [ProductID: ProductKind], groups: Set<GroupID>)
        -> String?
    {
        switch source {
        case .group(let id):
            if groups.contains(id) { return nil }
            if let (group, text) = id.parts, groups.contains(group) {
                guard let level = Int64(text), Self.levelRange.contains(level) else {
                    return Self.badLevel("\"\(text.singleLine)\"")
                }
                return "write \"\(Entitlement.Source.level(group, level))\", and .level in code"
            }
            return "no product is in group \"\(id.rawValue.singleLine)\""
        case .level(let id, let level):
            return groups.contains(id)
                ? objection(to: level, of: id, groups) : "no product is in group \"\(id.rawValue.singleLine)\""
        case .product(let id):
            guard let kind = kinds[id] else { return "no product has the id \"\(id.rawValue.singleLine)\"" }
            switch kind {
            case .nonConsumable, .autoRenewable: return nil
            case .consumable: return "\"\(id)\" is consumable, write \"\(Entitlement.Source.units(id))\""
            case .nonRenewing(let group, _):
                return "\"\(id)\" is nonRenewing, write \"\(Entitlement.Source.group(group))\""
            }
        case .units(let id):
            guard let kind = kinds[id] else { return "no product has the id \"\(id.rawValue.singleLine)\"" }
            if case .consumable = kind { return nil }
            return "\"\(id)\" is \(kind.name), only a consumable has units"
        }
    }

    /// The reason why the products of `group` cannot grant at `level`; `nil` if they can.
    private func objection(to level: Int64, of group: GroupID, _ groups: Set<GroupID>) -> String? {
        guard Self.levelRange.contains(level) else { return Self.badLevel("\(level)") }
        let levels = products.map(\.kind).filter { $0.group == group }.compactMap(\.level)
        guard let highest = levels.min() else {
            return "group \"\(group)\" is nonRenewing and has no levels, write \"\(Entitlement.Source.group(group))\""
        }
        guard highest <= level else {
            return "no product of group \"\(group)\" has level \(level) or a higher one, write "
                + "\"\(Entitlement.Source.level(group, highest))\""
        }
        // The text would be read as the group with that id.
        let text = "\(group)@\(level)"
        guard groups.contains(GroupID(text)) else { return nil }
        return "\"group:\(text)\" is the group \"\(text)\", name the group's products instead"
    }

    private func require(
        _ condition: Bool, at path: String, _ reason: @autoclosure () -> String
    ) throws(InputError) {
        guard condition else { throw InputError(path: path, reason: reason()) }
    }

    private func checkID<Subject>(_ id: Identifier<Subject>, at path: String) throws(InputError) {
        do { try id.validate() } catch { throw InputError(path: path, reason: error.reason) }
    }
}
