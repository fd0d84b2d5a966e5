extension Explanation {
    /// The members of the JSON object of the explanation.
    ///
    /// - Parameters:
    ///   - rules: The conflict rules that applied.
    ///   - isAccelerated: True if sandbox time was accelerated.
    package func members(rules: ConflictRules, isAccelerated: Bool) -> [(String, JSON)] {
        [
            ("entitlement", .string(entitlement.rawValue)), ("at", .string("\(at)")), ("access", access.json),
            ("rules", .object(rules.members + (isAccelerated ? [("sandboxTime", .string("accelerated"))] : []))),
            ("sources", .array(sections.map(\.json))),
        ]
    }
}

extension Explanation.Section {
    fileprivate var json: JSON {
        .object([
            ("source", .string("\(source)")),
            (
                "facts",
                .array(
                    lines.map { line in
                        .object([
                            ("kind", .string(line.fact.kindName)), ("fact", .string(line.fact.summary)),
                            ("counts", .bool(line.effect.counts)), ("effect", .string(line.effect.summary)),
                        ])
                    })
            ),
        ])
    }
}

extension ConflictRules {
    /// The members of the JSON object of the rules.
    package var members: [(String, JSON)] {
        [
            ("expiry", .string(expiry.name)), ("flags", .string(flags.name)),
            ("consumables", .string(consumables.rawValue)),
        ]
    }
}

extension Explanation.Effect {
    /// True if the fact contributes to the access.
    package var counts: Bool {
        switch self {
        case .setAside, .notYet: false
        case .period(let period): !period.isEmpty
        default: true
        }
    }

    /// The effect in words.
    package var summary: String {
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
