import Entitlements

extension Explanation {
    func text(rules: ConflictRules, isAccelerated: Bool) -> String {
        var lines = [
            "\(entitlement) at \(at): \(access.summary)",
            "rules: \(rules.expiry.name), \(rules.flags.name), consumables \(rules.consumables.rawValue)"
                + (isAccelerated ? ", sandboxTime accelerated" : ""),
        ]
        for section in sections {
            lines += ["", "\(section.source)"]
            let rows = section.lines.map { [$0.fact.kindName, $0.fact.summary, "→ \($0.effect.summary)"] }
            lines += rows.isEmpty ? ["  no facts"] : aligned(rows)
        }
        return lines.joined(separator: "\n")
    }

    func json(rules: ConflictRules, isAccelerated: Bool) -> JSON {
        [
            "entitlement": .string(entitlement.rawValue), "at": "\(at)", "access": access.json,
            "rules": .object(rules.members + (isAccelerated ? [("sandboxTime", "accelerated")] : [])),
            "sources": .array(
                sections.map { section in
                    [
                        "source": "\(section.source)",
                        "facts": .array(
                            section.lines.map { line in
                                [
                                    "kind": .string(line.fact.kindName), "fact": .string(line.fact.summary),
                                    "counts": .bool(line.effect.counts), "effect": .string(line.effect.summary),
                                ]
                            }),
                    ]
                }),
        ]
    }
}

extension ConflictRules {
    var members: [(String, JSON)] {
        [
            ("expiry", .string(expiry.name)), ("flags", .string(flags.name)),
            ("consumables", .string(consumables.rawValue)),
        ]
    }
}

extension Explanation.Effect {
    var counts: Bool {
        switch self {
        case .setAside, .notYet: false
        case .period(let period): !period.isEmpty
        default: true
        }
    }

    var summary: String {
        switch self {
        case .period(let period) where period.isEmpty: "nothing is left of its period"
        case .period(let period) where period.end == .latest: "\(period.start), for good"
        case .period(let period):
            "\(period.start) to \(period.end)" + (period.revokedAt == nil ? "" : ", cut off by a refund")
        case .ownership(let period) where period.end == .latest: "owned since \(period.start)"
        case .ownership(let period): "owned from \(period.start) to \(period.end)"
        case .units(let units, let balance): "+\(units), balance \(balance)"
        case .spent(let units, let writtenOff, let balance):
            "−\(units), balance \(balance)" + (writtenOff == 0 ? "" : ", \(writtenOff) written off")
        case .reinstates: "the purchase counts again"
        case .informs: "adds no time of its own"
        case .redates(let date): "counts as of \(date)"
        case .accepts: "counts as recorded"
        case .revokes: "revokes it"
        case .flagCounts: "counts"
        case .waits: "awaits approval"
        case .notYet: "is in the future"
        case .setAside(let reason): "does not count: \(reason)"
        }
    }
}
