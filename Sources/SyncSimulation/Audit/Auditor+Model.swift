import Entitlements

extension Auditor {
    /// Compares a snapshot with the model's replay of the same facts. Under rules unknown to the model, it checks only
    /// that no paid time is missing.
    func checkModel(_ snapshot: Snapshot, _ held: Observation, _ device: SimulatedDevice) {
        guard device.setup.rule == nil else { return }
        let model = ModelReplay(
            account: held.account, device: held.device, server: held.server, catalogue: catalogue(of: device))
        let isKnown = world.subject.hasDefaultRules
        for (group, spans) in held.coverage.sorted(by: { $0.key < $1.key }) {
            let paid = model.coverage(of: group)
            guard isKnown else {
                checkPaidTime(of: group, paid: paid, shown: spans, device)
                continue
            }
            if spans != paid {
                report(.model, "\(group) is shown as \(spans.words) instead of \(paid.words)", device)
            }
            checkNow(of: group, snapshot, model, device)
        }
        guard isKnown else { return }
        let now = snapshot.at.milliseconds
        let scope: ModelScope = world.scenario.sharesUnits ? .shared : .deviceLocal
        let catalog = world.subject.catalogs[min(device.setup.catalog, world.subject.catalogs.count - 1)]
        for entitlement in catalog.entitlements {
            let expected = model.access(to: entitlement, in: catalog, scope, at: now)
            guard let access = snapshot[access: entitlement.id], !expected.agrees(with: access) else { continue }
            report(.model, "\(entitlement.id) is \(access) instead of \(expected)", device)
        }
        for product in ["owl", "crown"] {
            let isOwned = model.owns(product, at: now)
            guard isOwned != snapshot.owned.contains(ProductID(product)) else { continue }
            report(.model, "\(product) is \(isOwned ? "owned but not shown" : "shown but not owned")", device)
        }
        let units = model.balance(of: "coins", scope, at: now)
        if snapshot[balance: "coins"] != units {
            report(.spends, "\(snapshot[balance: "coins"]) coins are shown instead of \(units)", device)
        }
    }

    /// Checks the present state: a group is active inside a period, and its end is that of the current or else the
    /// last period.
    private func checkNow(
        of group: String, _ snapshot: Snapshot, _ model: ModelReplay, _ device: SimulatedDevice
    ) {
        guard let shown = snapshot[group: GroupID(group)] else { return }
        let now = snapshot.at.milliseconds
        let (isActive, end) = (model.isActive(group, at: now), model.end(group, at: now))
        guard shown.isActive != isActive || shown.expires?.milliseconds != end else { return }
        let words = (Self.words(shown.isActive, shown.expires?.milliseconds), Self.words(isActive, end))
        report(.model, "\(group) is shown as \(words.0) instead of \(words.1)", device)
    }

    private static func words(_ isActive: Bool, _ end: Int64?) -> String {
        "\(isActive ? "active" : "inactive") until \(end?.date ?? "never")"
    }

    /// Checks that the shown periods add up to at least the paid time.
    private func checkPaidTime(
        of group: String, paid: [ModelSpan], shown: [ModelSpan], _ device: SimulatedDevice
    ) {
        let (owed, given) = (paid.length, shown.length)
        // A rule may wait for the remote; after healing all devices have reached it.
        guard isHealed, given < owed else { return }
        let days = (owed - given) / World.day
        report(
            .paidTime,
            "\(days) days of \(group) that were paid are missing: \(shown.words) instead of \(paid.words)", device)
    }
}

extension [ModelSpan] {
    fileprivate var length: Int64 { reduce(0) { $0 + $1.end - $1.start } }

    /// The spans in words.
    fileprivate var words: String {
        isEmpty ? "never" : map { "\($0.start.date) to \($0.end.date)" }.joined(separator: ", ")
    }
}
