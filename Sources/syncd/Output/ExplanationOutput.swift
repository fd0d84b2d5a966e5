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
}
