import Entitlements
import SyncCore

extension World {
    /// Performs an action that concerns a device instead of one of its processes.
    ///
    /// - Returns: `false` for any other action.
    func performOnDevice(_ step: Step, _ device: SimulatedDevice) -> Bool {
        let now = recorder.now
        switch step.action {
        case .crash(let count):
            guard let process = device.processes[min(max(step.process, 0), 1)], process.isAlive else { return true }
            if count <= 0 { process.end() } else { process.operationsUntilCrash = count - 1 }
        case .backUp:
            device.copy = device.contents.copy()
            recordStoreChange(device.lane + 1, "is copied")
        case .putBack:
            guard let copy = device.copy else { return true }
            stop(device)
            device.wasPutBack = true
            replace("is put back from its copy", in: device) { $0.putBack(copy) }
        case .wipe:
            stop(device)
            replace("is emptied", in: device) { $0.wipe() }
        case .lose:
            stop(device)
            let before = auditor.holdings()
            device.isLost = true
            auditor.didLose(comparedWith: before, .device)
            recordStoreChange(device.lane + 1, "is lost for good")
        case .fill(let duration):
            device.fill(until: now + duration)
            disturb(device.lane + 1, .full, until: now + duration, "full")
        case .moveClock(let amount):
            device.clockOffset += amount
            auditor.didMoveClock(of: device, by: amount)
            recorder.record(device.lane, .clock, Int(truncatingIfNeeded: amount), .clockMoved(by: amount))
        case .cut(let requests, let answers, let duration):
            if requests {
                device.cut(.outgoing, until: now + duration)
                disturb(device.lane, .cutOutgoing, until: now + duration, "nothing gets out")
            }
            if answers {
                device.cut(.incoming, until: now + duration)
                disturb(device.lane, .cutIncoming, until: now + duration, "nothing gets in")
            }
        default: return false
        }
        return true
    }

    private func stop(_ device: SimulatedDevice) {
        for process in device.running { process.end() }
    }

    private func replace(_ words: String, in device: SimulatedDevice, _ change: (StoreContents) -> Bool) {
        let before = auditor.holdings()
        guard change(device.contents) else { return }
        device.replacementCount += 1
        auditor.didLose(comparedWith: before, .local)
        auditor.didReplaceStore(of: device)
        recordStoreChange(device.lane + 1, words)
    }

    private func recordStoreChange(_ lane: Int, _ words: String) {
        recorder.record(lane, .store, words.utf8.count, .storeChanged(words))
    }

    private func disturb(_ lane: Int, _ kind: TraceEvent.Disturbance, until time: Int64, _ words: String) {
        recorder.record(lane, .disturbed, Int(time), .disturbed(kind, until: time, words))
    }

    /// Performs an action on the remote.
    func performOnRemote(_ action: Action, _ number: Int) async {
        let now = recorder.now
        switch action {
        case .backUpRemote:
            remote.copy = remote.contents.copy()
            remote.server?.backUp()
            recordStoreChange(remote.lane, "is copied")
        case .putBackRemote:
            guard let copy = remote.copy else { return }
            replaceRemote("is put back from its copy") { $0.putBack(copy) }
            remote.server?.putBack()
        case .wipeRemote:
            let hadSomething = !remote.contents.values.isEmpty
            remote.isEmptied = replaceRemote("is emptied") { $0.wipe() } && hadSomething
            remote.server?.wipe()
        case .moveRemoteClock(let amount, let duration):
            remote.clockOffset += amount
            recorder.record(remote.lane, .clock, Int(truncatingIfNeeded: amount), .clockMoved(by: amount))
            disturb(remote.lane, .wrongClock, until: now + duration, "wrong by \(amount) ms")
            scheduler.at(scheduler.now + duration * 1_000) { [unowned self] in
                // Healing has already corrected the clock.
                guard !auditor.isHealed else { return }
                remote.clockOffset -= amount
                recorder.record(remote.lane, .clock, Int(truncatingIfNeeded: -amount), .clockMoved(by: -amount))
            }
        case .fillRemote(let duration):
            remote.fullUntil = now + duration
            disturb(remote.lane, .full, until: now + duration, "full")
        case .failOver(let count, let promotion): cluster?.failOver(afterWrites: count, promotion: promotion * 1_000)
        case .switchOver(let promotion): cluster?.switchOver(promotion: promotion * 1_000)
        case .lie(let lie):
            recorder.record(remote.lane, .begun, number, .begun(step: number, action.words))
            await perform(lie)
        case .notify(let statement):
            recorder.record(remote.lane, .begun, number, .begun(step: number, action.words))
            await notify(statement)
        case .claim(let claim, let account):
            recorder.record(remote.lane, .begun, number, .begun(step: number, action.words))
            await perform(claim, of: account)
        default: break
        }
    }

    /// Replaces the contents of the remote. Returns `false` if the subject's store cannot be copied.
    @discardableResult
    private func replaceRemote(_ words: String, _ change: (StoreContents) -> Bool) -> Bool {
        auditor.exemptSettledEvidence()
        let before = auditor.holdings()
        guard change(remote.contents) else {
            recordStoreChange(remote.lane, "cannot be replaced")
            return false
        }
        auditor.didLose(comparedWith: before, .remote)
        recordStoreChange(remote.lane, words)
        return true
    }
}

extension World {
    /// Performs the writes of a malicious client.
    private func perform(_ attack: MaliciousWrite) async {
        let keys = remote.contents.keys.filter { LedgerPlace($0.text)?.kind == .account }
        let before = auditor.holdings()
        auditor.hasRemoteForgotten = true
        for key in keys {
            let original = remote.contents.values[key]
            // At most one attack at a time on each entry.
            if let original, ModelLedger(document: original) == nil { continue }
            originals[key] = original
            tamperTimes[key] = recorder.now
            switch attack {
            case .oldContent: await put(remote.contents.history[key]?.first.flatMap { $0?.value }, under: key)
            case .deletion: await put(nil, under: key)
            case .garbage(let duration):
                let bytes = Array("not a ledger".utf8)
                await put(bytes, under: key)
                restore(original, under: key, insteadOf: bytes, after: duration)
            case .laterFormat(let duration):
                // The format version follows the four bytes that mark a ledger.
                guard var bytes = original, bytes.count > 4 else { continue }
                bytes[4] = 0xEE
                await put(bytes, under: key)
                restore(original, under: key, insteadOf: bytes, after: duration)
            case .forgedRefunds: await forgeRefunds(under: key)
            }
        }
        auditor.didLose(comparedWith: before, .remote)
    }

    private func put(_ value: [UInt8]?, under key: EntryKey) async {
        do throws(BackendError) {
            try await remote.contents.put(value, under: key)
        } catch {
            report(.execution, "an unconditional write failed: \(error)", lane: remote.lane)
        }
    }

    private func restore(_ original: [UInt8]?, under key: EntryKey, insteadOf forged: [UInt8], after duration: Int64) {
        let duration = min(duration, max(0, Int64(scenario.days) * Self.day - recorder.now - 1_000))
        scheduler.at(scheduler.now + duration * 1_000) { [unowned self] in
            scheduler.spawn { [self] in
                if remote.contents.values[key] == forged { await put(original, under: key) }
            }
        }
    }

    private func forgeRefunds(under key: EntryKey) async {
        guard let value = remote.contents.values[key], let document = try? LedgerDocument(decoding: value) else {
            return
        }
        var forged = document.ledger
        for case .purchase(let purchase) in document.ledger.records.map({ Fact($0) })
        where purchase.transaction.store == .appStore {
            let revocation = Revocation(
                transaction: purchase.transaction, revokedAt: purchase.date, reason: "forged",
                stamp: Stamp(signedDate: nil, logicalTime: LogicalTime.zero.next(at: Timestamp(milliseconds: trueTime)))
            )
            forged = forged.joined(with: Ledger([Fact.revocation(revocation).record]))
        }
        await put(LedgerDocument(ledger: forged).encoded(), under: key)
    }
}
