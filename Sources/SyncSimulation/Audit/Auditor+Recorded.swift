import EntitlementSync
import Entitlements
import SyncCore

extension Auditor {
    /// Checks that a purchase was recorded with the values of `sale`.
    func checkRecorded(_ sale: Sale, in call: World.Call) {
        let name = call.account.name
        let sold = terms(of: sale.product)
        for (place, ledger) in ledgers(on: call.device.index) where place.name == name {
            for purchase in ledger.facts.purchases where purchase.transaction.id == ModelID(sale.transaction) {
                let date = sale.date.map { World.epoch + $0 }
                let isSame =
                    purchase.product == ModelID(sale.product) && purchase.quantity == sale.quantity
                    && purchase.stamp.isSigned == sale.isSigned && (date == nil || date == purchase.date)
                if !sold.contains(purchase.terms) {
                    let terms = purchase.terms.map { "\($0)" } ?? "unknown terms"
                    report(
                        .model, "\(sale.transaction) was recorded at \(terms), the terms of no catalogue", call.device)
                }
                guard !isSame else { continue }
                report(
                    .nothingLost,
                    "\(sale.transaction) was recorded as \(purchase.quantity) × \(purchase.product) of"
                        + " \(purchase.date.date)\(purchase.stamp.isSigned ? ", signed" : "")", call.device)
            }
        }
    }

    /// The terms at which the devices sell a product; `nil` stands for devices that do not know it.
    private func terms(of product: String) -> Set<ModelTerms?> {
        if let known = terms[product] { return known }
        let terms = Set(
            world.devices.map {
                ModelTerms(of: product, in: world.subject.catalog(of: $0.setup, in: world.scenario))
            })
        self.terms[product] = terms
        return terms
    }

    /// Checks that the device's store contains a refund or its reversal after recording it.
    func checkStatement(on transaction: TransactionReference, isReinstated: Bool, in call: World.Call) {
        guard isExclusive(call) else { return }
        // The ledger of the account may hold one statement, and the ledger of the device a stronger one.
        let ledger = ledgers(on: call.device.index)
            .filter { $0.place.name == call.account.name && $0.place.incarnation == call.account.incarnation }
            .reduce(ModelLedger()) { $0.joined(with: $1.ledger) }
        for revocation in ledger.facts.revocations
        where revocation.transaction.id == ModelID("\(transaction.id)")
            && revocation.transaction.store == ModelID("\(transaction.store)")
            && revocation.isReinstated != isReinstated
        {
            report(
                .nothingLost,
                "\(isReinstated ? "the reversal of the refund" : "the refund") of \(transaction)"
                    + " was acknowledged and does not count", call.device)
        }
    }

    /// Counts a step that starts on a device.
    ///
    /// - Returns: The number of steps started there so far; `nil` if another step is still running.
    func willStep(on device: SimulatedDevice) -> Int? {
        stepsUnderWay[device.index, default: 0] += 1
        stepsBegun[device.index, default: 0] += 1
        return stepsUnderWay[device.index] == 1 ? stepsBegun[device.index] : nil
    }

    func didStep(on device: SimulatedDevice) { stepsUnderWay[device.index, default: 1] -= 1 }

    /// Returns `true` if no other call has used the device's store since this call started.
    func isExclusive(_ call: World.Call) -> Bool {
        let device = call.device
        return call.process.isAlive && device.running.count == 1 && device.setup.pollingHours == nil
            && call.exclusiveStep != nil && call.exclusiveStep == stepsBegun[device.index] && !isErased(call.account)
    }

    /// Returns `true` if the spend with this id was acknowledged.
    func hasSpent(_ id: String) -> Bool { acknowledged.contains { $0.words == "spend \(id)" } }

    /// Checks that spending a unit reduced the balance by one.
    func checkSpent(_ id: String, before: Int64, after: Int64, in call: World.Call) {
        guard isExclusive(call), after != before - 1 else { return }
        report(.spends, "\(id) spent one of \(before) units, but \(after) are left", call.device)
    }

    /// Checks that asserting the expiry shown by the device adds no fact.
    func checkEcho(_ group: String, _ shown: Snapshot, _ receipt: RecordingReceipt, in call: World.Call) {
        let now = shown.at.milliseconds
        guard isExclusive(call), !receipt.newFacts.isEmpty, let subscription = shown[group: GroupID(group)],
            subscription.isActive, let end = subscription.expires?.milliseconds, end - now > 60_000
        else { return }
        // For a device with a purchase dated in its future, the statement covers a different span.
        let device = call.device.index
        let ledgers = ledgers(on: device).filter { $0.place.name == call.account.name }.map(\.ledger)
        let known = ledgers + [serverLedger(of: call.account, on: device)]
        guard !known.flatMap(\.facts.purchases).contains(where: { $0.date > now }) else { return }
        report(.model, "the echo of \(group)'s own end was recorded", call.device)
    }

    /// Checks that a name keeps one incarnation until it is erased.
    func checkCreated(_ account: Account, in call: World.Call) {
        guard let name = account.name, call.process.isAlive, !hasRemoteForgotten else { return }
        let times = eraseCounts[name, default: 0]
        if let known = createdAccounts[name], known.times == times, known.incarnation != account.incarnation {
            report(.ownership, "\(name) was created as \(known.incarnation) and as \(account.incarnation)", call.device)
        }
        if erasesUnderWay == 0 { createdAccounts[name] = (account.incarnation, times) }
    }

    /// Checks that every transaction and spend in a store comes from a step.
    func checkInventedFacts() {
        var sold = Set(world.scenario.statedTransactions.map { ModelID($0) })
        var spent: Set<ModelID> = []
        for step in world.scenario.steps {
            switch step.action {
            case .buy(let sale): sold.insert(ModelID(sale.transaction))
            case .use(_, let id): spent.insert(ModelID(id))
            default: break
            }
        }
        for device in world.devices.map({ Optional($0.index) }) + [nil] {
            let lane = device.map { world.devices[$0].lane } ?? world.remote.lane
            for (place, ledger) in ledgers(on: device) {
                let facts = ledger.facts
                for id in facts.transactionIDs.subtracting(sold).sorted() {
                    world.report(.ownership, "\(place.owner) has \(id), which no step bought", lane: lane)
                }
                for id in facts.spendIDs.subtracting(spent).sorted() {
                    world.report(.spends, "\(place.owner) has spent \(id), which no step used", lane: lane)
                }
            }
        }
    }
}

/// The state of both stores when a sync started.
struct SyncBeginning {
    var place: LedgerPlace
    var key: EntryKey
    var local: ModelLedger
    var remote: ModelLedger
    var deviceLosses: Int
    var clockEvidence: ClockEvidence
}

/// The clock-related events that a process had seen when a call started.
struct ClockEvidence: Equatable {
    var answers: Int
    var clockMoves: Int
    var signatures: Int
}

extension Auditor {
    /// Captures the state before a call that syncs; `nil` without a logged-in account.
    func willSync(_ call: World.Call) -> SyncBeginning? {
        let device = call.device
        syncsUnderWay[device.index, default: 0] += 1
        guard call.account.name != nil, let key = ownPlace(of: call.account),
            let place = LedgerPlace(key.text)
        else { return nil }
        return SyncBeginning(
            place: place, key: key, local: ledger(key, on: device.index) ?? ModelLedger(), remote: remoteLedger(place),
            deviceLosses: device.replacementCount, clockEvidence: clockEvidence(of: call.process))
    }

    /// Checks the result of a sync that ended, with `error` if it failed.
    func didEndSync(_ beginning: SyncBeginning?, _ call: World.Call, _ error: EntitlementError?) {
        let device = call.device
        syncsUnderWay[device.index, default: 1] -= 1
        guard let beginning else { return }
        // If the local store failed, it may have done so after the remote had answered.
        let isOfRemote = error?.kind == .sync && error?.syncError?.side != .local
        if !isOfRemote || error?.syncError?.hasReceived == true || !call.process.isAlive {
            knownRemotes[device.index, default: []].insert(beginning.place)
        }
        guard error == nil, call.process.isAlive else { return }
        checkClockCorrected(since: beginning.clockEvidence, call)
        checkSynced(beginning, call)
    }

    /// Checks that both sides contain what the other side had when the sync started. Skipped for a remote with an
    /// entry for each replica, where a late request may restore an older entry, and for a remote that was reset.
    private func checkSynced(_ beginning: SyncBeginning, _ call: World.Call) {
        let device = call.device
        guard world.scenario.remote.comparesAndSwaps, !hasRemoteForgotten, erasedNames.isEmpty,
            device.replacementCount == beginning.deviceLosses
        else { return }
        let remote = remoteLedger(beginning.place)
        if let missing = remote.missing(of: beginning.local) {
            report(.equalLedgers, "a sync succeeded, but the remote lacks \(missing.words)", device)
        }
        // Not with stale reads: a cache may have answered.
        guard world.scenario.faults.staleReads == 0 else { return }
        let local = ledger(beginning.key, on: device.index) ?? ModelLedger()
        if let missing = local.missing(of: beginning.remote) {
            report(.equalLedgers, "a sync succeeded, but the device lacks \(missing.words)", device)
        }
    }

    /// Checks that a device reports `restoreNeeded` instead of `notPurchased` until it has reached the remote.
    func checkAccessBeforeFirstContact(_ snapshot: Snapshot, in call: World.Call) {
        let device = call.device
        guard !isHealed, device.setup.pollingHours == nil, syncsUnderWay[device.index, default: 0] == 0,
            call.account.name != nil, let key = ownPlace(of: call.account),
            let place = LedgerPlace(key.text), knownRemotes[device.index]?.contains(place) != true
        else { return }
        for item in snapshot.access {
            switch item.access {
            case .granted, .denied(.restoreNeeded), .denied(.pendingApproval), .denied(.signInNeeded): continue
            case .denied(let denial):
                report(
                    .restore, "\(place.owner) never reached the remote, but \(item.entitlement) is \(denial)", device)
            }
        }
    }
}
