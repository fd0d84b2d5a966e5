import Entitlements

extension Auditor {
    /// What a device shows is what the model makes of the facts that it holds. Under rules that the model does not
    /// know, nothing that was paid is missing.
    func checkModel(_ snapshot: Snapshot, _ held: Shown, _ device: SimulatedDevice) {
        guard device.setup.rule == nil else { return }
        let model = ModelReplay(account: held.account, device: held.device)
        let isKnown = world.subject.hasDefaultRules
        for (group, spans) in held.coverage.sorted(by: { $0.key < $1.key }) {
            let paid = model.coverage(of: group)
            guard isKnown else {
                checkPaidTime(of: group, paid: paid, shown: spans, device)
                continue
            }
            if spans != paid {
                report(.model, "\(group) is shown as \(spans.words), and is \(paid.words)", device)
            }
            checkNow(of: group, snapshot, paid, device)
        }
        guard isKnown else { return }
        let now = snapshot.at.milliseconds
        for product in ["owl", "crown"] {
            let isOwned = model.owns(product, at: now)
            guard isOwned != snapshot.owned.contains(ProductID(product)) else { continue }
            report(.model, "\(product) is \(isOwned ? "owned and not shown" : "shown and not owned")", device)
        }
        let units = model.balance(of: "coins", world.scenario.sharesUnits ? .shared : .deviceLocal, at: now)
        if snapshot[balance: "coins"] != units {
            report(.spends, "\(snapshot[balance: "coins"]) coins are shown, and \(units) are left", device)
        }
    }

    private func report(_ oracle: Violation.Oracle, _ message: String, _ device: SimulatedDevice) {
        world.report(oracle, message, lane: device.lane)
    }

    /// Active means inside a period, and the end is that of the chain that now lies in, or of the last one.
    private func checkNow(
        of group: String, _ snapshot: Snapshot, _ paid: [ModelSpan], _ device: SimulatedDevice
    ) {
        guard let shown = snapshot[group: GroupID(group)] else { return }
        let now = snapshot.at.milliseconds
        let isActive = paid.contains { $0.contains(now) }
        let end = paid.last { $0.start <= now }?.end
        guard shown.isActive != isActive || shown.expires?.milliseconds != end else { return }
        let words = (Self.words(shown.isActive, shown.expires?.milliseconds), Self.words(isActive, end))
        report(.model, "\(group) is shown as \(words.0), and is \(words.1)", device)
    }

    private static func words(_ isActive: Bool, _ end: Int64?) -> String {
        "\(isActive ? "active" : "inactive") until \(end?.date ?? "never")"
    }

    /// Of what was paid nothing is missing: as much time, all in all.
    private func checkPaidTime(
        of group: String, paid: [ModelSpan], shown: [ModelSpan], _ device: SimulatedDevice
    ) {
        let (owed, given) = (paid.length, shown.length)
        // A rule may wait for the remote; in the end all have met it.
        guard isHealed, given < owed else { return }
        report(
            .paidTime,
            "\((owed - given) / World.day) days of \(group) that were paid are missing: \(shown.words)"
                + " instead of \(paid.words)", device)
    }
}

extension [ModelSpan] {
    fileprivate var length: Int64 { reduce(0) { $0 + $1.end - $1.start } }

    /// In words.
    fileprivate var words: String {
        isEmpty ? "never" : map { "\($0.start.date) to \($0.end.date)" }.joined(separator: ", ")
    }
}
