import Entitlements

extension Catalog {
    /// The catalogue as a document that reads back as the same catalogue.
    var json: JSON {
        .object(
            [
                ("products", .array(products.map(\.json))), ("entitlements", .array(entitlements.map(\.json))),
                ("policy", policy.json),
            ] + (content.isEmpty ? [] : [("content", .array(content.map(\.json)))])
                + (offerings.isEmpty ? [] : [("offerings", .array(offerings.map(\.json)))]))
    }
}

extension Offering {
    fileprivate var json: JSON {
        ["id": .string(id.rawValue), "products": .array(products.map { .string($0.rawValue) })]
    }
}

extension ContentRule {
    fileprivate var json: JSON {
        let source: (String, JSON) =
            switch source {
            case .group(let id): ("group", .string(id.rawValue))
            case .entitlement(let id): ("entitlement", .string(id.rawValue))
            }
        let level = maximumLevel == 1 ? [] : [("maximumLevel", JSON.number(maximumLevel))]
        return .object([("path", .string(path)), source, ("by", .string(basis.rawValue))] + level)
    }
}

extension Product {
    fileprivate var json: JSON {
        var members: [(String, JSON)] = [("id", .string(id.rawValue)), ("type", .string(kind.name))]
        switch kind {
        case .consumable(let units): members.append(("units", .number(units)))
        case .nonConsumable: break
        case .nonRenewing(let group, let duration):
            members += [("group", .string(group.rawValue)), ("duration", .string("\(duration)"))]
        case .autoRenewable(let group, let level, let duration, let introductory):
            members += [("group", .string(group.rawValue)), ("level", .number(level)), ("duration", "\(duration)")]
            if let introductory { members.append(("introductory", introductory.json)) }
        }
        if !names.isEmpty {
            members.append(("names", .object(names.sorted { $0.key < $1.key }.map { ($0, .string($1)) })))
        }
        if !isForSale { members.append(("forSale", .bool(false))) }
        if requiresAccount { members.append(("requiresAccount", .bool(true))) }
        return .object(members)
    }
}

extension IntroductoryOffer {
    fileprivate var json: JSON {
        ["mode": .string(mode.rawValue), "duration": "\(duration)"]
    }
}

extension Entitlement {
    fileprivate var json: JSON {
        ["id": .string(id.rawValue), "grantedBy": .array(grantedBy.map { .string($0.description) })]
    }
}

extension Policy {
    fileprivate var json: JSON {
        // Versions that do not know the member refuse it.
        let time = sandboxTime == .asSold ? [] : [("sandboxTime", JSON.string(sandboxTime.rawValue))]
        return .object([("bonus", "\(bonus)")] + rules.members + time)
    }
}
