import SyncCore

extension Auditor {
    /// Checks a change of a store. `device` is `nil` for the remote.
    func didChange(_ change: StoreContents.Change, on device: Int?) {
        if let device, change.key.text == "device/clock", change.isFromProcess {
            didSaveClock(of: device)
            // From now on the device's other process may read the saved time.
            if world.devices[device].hasUnsavedCorrection { world.devices[device].correctionCount += 1 }
            world.devices[device].hasUnsavedCorrection = false
        }
        guard change.isFromProcess, let place = LedgerPlace(change.key.text), place.kind != .note else { return }
        ledgerWriteCount += 1
        reachRareStates(of: change, at: place, on: device)
        if let device {
            for process in world.devices[device].running { process.isBeforeCheckpoint = false }
        }
        let lane = device.map { world.devices[$0].lane + 1 } ?? world.remote.lane
        guard let new = change.new.flatMap(ModelLedger.init(document:)) else {
            world.report(.neverShrinks, "\(change.key) holds no ledger after a write", lane: lane)
            return
        }
        if device == nil { checkOverwritten(change, by: new) }
        guard let old = change.old.flatMap(ModelLedger.init(document:)) else { return }
        // A late request to a store without preconditions may restore an older entry of its replica.
        if device == nil, !world.scenario.remote.comparesAndSwaps { return }
        if old.isErased, !new.isErased {
            world.report(.erased, "the erased ledger \(change.key) holds something again", lane: lane)
            return
        }
        guard let missing = new.missing(of: old) else { return }
        if place.name == nil, let device, didMove(old, on: device, from: place) { return reachIfAdopted(old, new) }
        if let device, didSend(old, new, from: place, on: device) { return }
        world.report(.neverShrinks, "\(change.key) lost the record \(missing.words)", lane: lane)
    }

    /// Checks that no client overwrites an unreadable entry once it can have seen it.
    private func checkOverwritten(_ change: StoreContents.Change, by new: ModelLedger) {
        guard let old = change.old, ModelLedger(document: old) == nil, !new.isErased,
            let since = world.tamperTimes[change.key], world.recorder.now - since > World.longestExchange
        else { return }
        report(.neverShrinks, "\(change.key) could not be read and was overwritten")
    }

    /// Returns `true` if every fact of the anonymous ledger is in the ledger of an account that adopts on this device.
    private func didMove(_ old: ModelLedger, on device: Int, from place: LedgerPlace) -> Bool {
        let ledgers = ledgers(on: device).filter { $0.place.name != nil && $0.place.kind == place.kind }.map(\.ledger)
        let rest = old.records.filter { record in
            !record.isClaim && !ledgers.contains { $0.isErased || $0.covers(record) }
                && !(record.isEvidence && mayLeave(record, nil, device))
        }
        return rest.isEmpty
    }

    private func reachRareStates(of change: StoreContents.Change, at place: LedgerPlace, on device: Int?) {
        guard let device else {
            if world.remote.isEmptied, change.old == nil { world.marks.reach(.remoteRefilled) }
            world.remote.isEmptied = false
            return
        }
        let isClaimed = world.devices[device].hasInterruptedClaim
        if place.name == nil, place.kind == .account, isClaimed, !hasClaim(on: device) {
            world.devices[device].hasInterruptedClaim = false
            world.marks.reach(.claimResumed)
        }
    }

    /// Returns `true` if the device's anonymous ledger is claimed by an account and not moved yet.
    func hasClaim(on device: Int) -> Bool {
        ledgers(on: device).contains { $0.place.name == nil && $0.ledger.records.contains(where: \.isClaim) }
    }

    /// Resets the expectations for a device whose store was replaced.
    func didReplaceStore(of device: SimulatedDevice) {
        clocks[device.index] = nil
        savedClocks[device.index] = nil
        observations[device.index] = nil
    }
}

extension ModelLedger.Record {
    /// True for the record of a claim on the anonymous ledger: field 9 of the key.
    var isClaim: Bool { key.first == 0x4A }

    /// The key with unprintable bytes as dots.
    var words: String {
        String(decoding: key.map { (0x20..<0x7F).contains($0) ? $0 : UInt8(ascii: ".") }, as: UTF8.self)
    }
}
