import EntitlementSync
import Entitlements
import SyncCore

/// A snapshot's coverage, with the facts it was derived from.
struct Observation {
    var account: ModelLedger
    var device: ModelLedger
    var server: ModelLedger
    var coverage: [String: [ModelSpan]]
}

extension Auditor {
    func mayAdopt(_ name: String, in call: World.Call) {
        let device = call.device.index
        adopters[device, default: []].insert(name)
        // A reset remote has forgotten the erasure. Devices can then join an account that others know as erased.
        guard erasedNames.contains(name), hasRemoteForgotten else { return }
        for (index, fact) in acknowledged.enumerated() where fact.account == nil && fact.device == device {
            acknowledged[index].isExempt = true
        }
    }

    /// Records that an account was found logged in on a device.
    func didFindLoggedIn(_ account: Account, on device: SimulatedDevice) {
        guard let name = account.name, device.setup.account == nil else { return }
        visitors[device.index, default: []].insert(name)
    }

    func didLogIn(_ account: Account, in call: World.Call) {
        guard let name = account.name else { return }
        if let other = call.device.leftUnsent, other != name { world.marks.reach(.switchedWithUnsent) }
        visitors[call.device.index, default: []].insert(name)
    }

    func didCreate(_ account: Account, in call: World.Call) {
        guard let name = account.name else { return }
        visitors[call.device.index, default: []].insert(name)
        checkCreated(account, in: call)
        if erasedNames.contains(name), account.incarnation != Account.initialIncarnation {
            world.marks.reach(.recreated)
        }
    }

    func didLogOut(_ report: LogOutReport, in call: World.Call) {
        call.device.leftUnsent = report.hasUnsentFacts ? report.account.name : nil
        guard report.hasUnsentFacts, let failure = report.failure, failure.kind == .accountErased else { return }
        world.marks.reach(.erasureLearned)
    }

    /// From now on, facts of the account may be lost.
    func willErase(_ name: String) {
        erasedNames.insert(name)
        eraseCounts[name, default: 0] += 1
        for index in acknowledged.indices {
            let adopted = adopters[acknowledged[index].device]?.contains(name) == true
            if acknowledged[index].account == name || (acknowledged[index].account == nil && adopted) {
                acknowledged[index].isExempt = true
            }
        }
    }

    func didErase(_ name: String) {
        for (place, ledger) in ledgers(on: nil) where place.name == name && ledger.isErased {
            erasedIncarnations.insert(place)
        }
    }

    func didSync(_ report: SyncReport, in call: World.Call) {
        for case .unreadable(let record, _) in report.received where record.key.starts(with: [0x9A, 0x06]) {
            world.marks.reach(.unknownKindCarried)
        }
        if call.device.setup.rule != nil, !report.received.isEmpty { world.marks.reach(.mixedRules) }
        if call.device.setup.catalog != 0,
            report.received.contains(where: { if case .purchase(let one) = $0 { one.product == "half" } else { false } }
            )
        {
            world.marks.reach(.unknownProduct)
        }
    }

    /// Reports the failure of a call unless the faults of the run allow it.
    func didFail(_ error: EntitlementError, to words: String, in process: SimulatedProcess) {
        guard process.isAlive else { return }
        if error.kind == .accountErased { world.marks.reach(.erasureLearned) }
        if case .document? = error.syncError?.reason { world.marks.reach(.liarRefused) }
        if error.syncError?.hasReceived == true { world.marks.reach(.remoteFull) }
        guard !isAllowed(error, in: process) else { return }
        report(.errors, "\(words): \(error.kind): \(error)", process.device)
    }

    private func isAllowed(_ error: EntitlementError, in process: SimulatedProcess) -> Bool {
        guard !isStarvation(error) else { return false }
        return switch error.kind {
        // Allowed with an older catalogue, and for accounts that are created and erased.
        case .unknownProduct: process.device.setup.catalog != 0
        case .signInNeeded, .unknownAccount: process.device.setup.account == nil || !erasedNames.isEmpty
        case .accountErased: !erasedNames.isEmpty
        // Without preconditions an erased name cannot be used again.
        case .unsuitableStore: !erasedNames.isEmpty && !world.scenario.remote.comparesAndSwaps
        case .sync: !isHealed
        case .storage: !isHealed && error.backendError.map(isCausedByFaults) == true
        default: false
        }
    }

    private func isCausedByFaults(_ error: BackendError) -> Bool {
        if error.message.hasPrefix("simulated") { return true }
        // A write of unknown outcome, then an adoption by the device's other process.
        return error.disposition == .outcomeUnknown && world.scenario.faults.diskUnknowns > 0
            && error.message.hasPrefix(EntitlementError.mayHaveMoved)
    }

    /// Running out of attempts against other writers is a defect: no scenario has that many rivals.
    private func isStarvation(_ error: EntitlementError) -> Bool {
        guard let failure = error.backendError, failure.kind == .busy, failure.disposition == .transient else {
            return false
        }
        return !failure.message.hasPrefix("simulated")
    }

    /// Checks a snapshot that a device shows.
    func didObserve(_ snapshot: Snapshot, in call: World.Call, isUndisturbed: Bool) {
        let device = call.device
        for period in snapshot.subscriptions.flatMap(\.periods)
        where period.end.milliseconds % World.day == 0 && period.start.milliseconds % World.day != 0 {
            world.marks.reach(.monthEnd)
        }
        if isUndisturbed { checkClock(snapshot.at.milliseconds, of: device) }
        if call.store.account == call.account { checkAccessBeforeFirstContact(snapshot, in: call) }
        guard isUndisturbed, call.store.account == call.account else { return }
        let account = ledger(of: call.account, on: device.index) ?? ModelLedger()
        // Facts that are being adopted are hidden from everyone until the adoption completes.
        guard !account.records.contains(where: \.isClaim) else { return }
        let now = Observation(
            account: account, device: ledger(of: call.account, onDevice: true, on: device.index) ?? ModelLedger(),
            server: serverLedger(of: call.account, on: device.index), coverage: Self.coverage(snapshot))

        checkModel(snapshot, now, device)
        checkTrust(snapshot, now, device)
        checkWord(snapshot, now, of: call.account, on: device)
        let before = observations[device.index, default: [:]].updateValue(now, forKey: call.account)
        if let before { checkCoverage(of: call.account, from: before, to: now, device) }
    }

    private static func coverage(_ snapshot: Snapshot) -> [String: [ModelSpan]] {
        snapshot.subscriptions.reduce(into: [:]) { coverage, subscription in
            let spans = subscription.periods.map {
                ModelSpan(start: $0.start.milliseconds, end: $0.end.milliseconds)
            }
            coverage["\(subscription.group)"] = spans.joined
        }
    }

    /// Checks that facts other than revocations take no covered time away.
    ///
    /// A purchase that a client invented may be replaced with the genuine one, or with another invention. An invented
    /// reversal hides a genuine refund from this comparison. An invented grace period moves to the next renewal.
    private func checkCoverage(
        of account: Account, from before: Observation, to now: Observation, _ device: SimulatedDevice
    ) {
        // Anonymous evidence leaves a device ledger only with an adoption, and then proves nothing here. Nor does
        // evidence for a server that has since been reset.
        let kept = account.isAnonymous || hasRemoteForgotten ? before.device : withoutSent(before.device)
        guard device.setup.rule == nil, !now.account.isErased, !now.device.isErased,
            now.account.missing(of: before.account) == nil, now.device.missing(of: kept) == nil,
            before.account.facts.transactionIDs.isDisjoint(with: claimed),
            Set(before.account.facts.renewalStates.map(\.line.id)).isDisjoint(with: claimed),
            revocations(in: now) == revocations(in: before),
            now.server.records == before.server.records || isMonotone(before.server, now.server)
        else { return }
        for (group, spans) in before.coverage.sorted(by: { $0.key < $1.key }) {
            guard let lost = spans.first(where: { now.coverage[group]?.covers([$0]) != true }) else { continue }
            report(
                .coverage, "\(group) was covered from \(lost.start.date) to \(lost.end.date), and is no longer", device)
        }
    }

    /// The ledger without genuine evidence. What it proves must count after the evidence has left.
    private func withoutSent(_ device: ModelLedger) -> ModelLedger {
        ModelLedger(
            device.records.filter { record in
                guard let evidence = record.evidence else { return true }
                return refusals.contains { $0.data == evidence.data }
            })
    }

    /// Returns `true` if a change of the server's word takes no time away: it only adds purchases. A statement of
    /// another client or at other terms may end with it.
    private func isMonotone(_ before: ModelLedger, _ now: ModelLedger) -> Bool {
        let facts = (before.facts, now.facts)
        return !world.scenario.hasClaims && world.scenario.devices.allSatisfy { $0.catalog == 0 }
            && facts.0.policy == facts.1.policy && now.has(before)
            && !facts.1.revocations.contains { !$0.isReinstated }
    }

    /// The revocations in the account's ledger and in evidence on the device. Waiting evidence competes with the
    /// account's ledger or with the server's.
    private func revocations(in held: Observation) -> Set<String> {
        let waiting = held.device.records.compactMap { $0.evidence?.facts }
        let known = [held.account, held.server].flatMap { ledger in
            waiting.reduce(ledger) { .join($0, $1) }.records.filter(\.isRevocation)
        }
        let words = known.flatMap { ModelLedger([$0]).facts.revocations }.filter { !$0.isReinstated }
            .map { "\($0.transaction) \($0.revokedAt ?? 0) \($0.stamp.isSigned)" }
        return Set(words)
    }
}

extension Scenario {
    /// True if a client states something false, or a device keeps forged evidence.
    fileprivate var hasClaims: Bool {
        steps.contains { step in
            switch step.action {
            case .claim, .forge: true
            default: false
            }
        }
    }
}

extension Int64 {
    /// The instant as a date in UTC.
    var date: String { "\(Timestamp(milliseconds: self))" }
}
