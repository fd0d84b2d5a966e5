import EntitlementSync
import Entitlements
import SyncCore

extension World {
    /// The number of sync rounds after healing until all replicas are equal. In each round every device syncs every
    /// account that was ever logged in on it: in the first round all send, in the second all receive.
    static let roundsToAgree = 2

    /// The whole run: the scenario, then healing and the final checks.
    func live() async {
        for index in scenario.steps.indices {
            let step = scenario.steps[index]
            scheduler.at(step.at * 1_000) { [unowned self] in
                scheduler.spawn { [self] in
                    await perform(index)
                    // Not after each step: the reader of the change feed must also meet changes lost by a restored
                    // store.
                    if index % 8 == 0 { await follow() }
                }
            }
        }
        await rest(until: Int64(scenario.days) * Self.day * 1_000)
        heal()
        await undoTampering()
        // Waits for messages in transit, including duplicates.
        while messagesUnderWay > 0 { await rest(for: 60_000_000) }
        await rest(for: 2 * SimulatedLink.timeout)
        for _ in 0..<Self.roundsToAgree { await syncEverywhere() }
        auditor.checkAgreement()
        // Writes of clocks do not count: devices keep saving them.
        let writes = auditor.ledgerWriteCount
        await syncEverywhere()
        if auditor.ledgerWriteCount != writes {
            report(.quiescence, "after \(Self.roundsToAgree) rounds there were still writes", lane: remote.lane)
        }
        await restoreOnNewDevice()
        await follow(isLast: true)
        auditor.checkEnd()
        for process in devices.flatMap(\.running) { process.end() }
    }

    private func heal() {
        rates = FaultRates()
        rates.diskPauses = 0
        rates.longestDelay = 5
        remote.clockOffset = 0
        remote.fullUntil = 0
        cluster?.heal()
        for device in devices where !device.isLost {
            for process in device.running { process.end() }
            device.cut(.incoming, until: 0)
            device.cut(.outgoing, until: 0)
            device.fill(until: 0)
            auditor.didMoveClock(of: device, by: -device.clockOffset)
            device.clockOffset = 0
        }
        recorder.record(remote.lane, .healed, 0, .healed)
        auditor.isHealed = true
    }

    /// Restores the entries that a malicious client made unreadable, if their values are known.
    private func undoTampering() async {
        for key in remote.contents.keys where LedgerPlace(key.text)?.kind == .account {
            guard let value = remote.contents.values[key], ModelLedger(document: value) == nil else { continue }
            do throws(BackendError) {
                try await remote.contents.put(originals[key], under: key)
            } catch {
                report(.execution, "an unconditional write failed: \(error)", lane: remote.lane)
            }
        }
    }

    private func rest(until time: Int64) async { await rest(for: max(0, time - scheduler.now)) }

    private func rest(for microseconds: Int64) async {
        // The run's own task is never cancelled, so it sleeps to the end.
        do { try await scheduler.sleep(until: scheduler.now + microseconds) } catch {}
    }

    /// One round: each device in turn syncs as every account that was ever logged in on it.
    private func syncEverywhere() async {
        for device in devices where !device.isLost {
            for process in device.processes.indices where process == 0 || device.processes[process] != nil {
                await sync(process, on: device)
            }
        }
    }

    private func sync(_ index: Int, on device: SimulatedDevice) async {
        guard let process = await start(index, on: device), let store = process.store else { return }
        guard device.setup.account == nil else {
            await attempt(store, process) { () async throws(EntitlementError) in _ = try await store.sync() }
            return
        }
        // The account that is logged in learns of an erasure first.
        if !store.account.isAnonymous {
            await attempt(store, process) { () async throws(EntitlementError) in _ = try await store.sync() }
        }
        for name in auditor.visitors[device.index, default: []].sorted() {
            await attempt(store, process) { () async throws(EntitlementError) in
                _ = try await store.logIn(name)
                _ = try await store.sync()
            }
        }
    }

    private func attempt(
        _ store: EntitlementStore, _ process: SimulatedProcess, _ body: () async throws(EntitlementError) -> Void
    ) async {
        do throws(EntitlementError) {
            try await body()
            await check(Call(step: -1, process: process, store: store, account: store.account))
            for case .overspent in try await store.conflicts() { marks.reach(.overspent) }
        } catch {
            auditor.didFail(error, to: "sync after healing", in: process)
        }
    }

    /// Restores each account on a new device, as a buyer would who lost all others.
    private func restoreOnNewDevice() async {
        for name in auditor.accountNames {
            let setup = DeviceSetup(account: scenario.devices.contains { $0.account == nil } ? nil : name)
            let device = addDevice(setup)
            guard let process = await start(0, on: device), let store = process.store else { continue }
            do throws(EntitlementError) {
                if setup.account == nil { try await store.logIn(name) }
                let report = try await store.restore()
                recorder.record(device.lane, .other, 0, .note("a new device restores \(report.purchases.count)"))
                let call = Call(step: -1, process: process, store: store, account: store.account)
                auditor.didObserve(report.snapshot, in: call, isUndisturbed: true)
                auditor.checkRestore(of: store.account, on: device)
            } catch {
                auditor.didFail(error, to: "restore on a new device", in: process)
            }
        }
    }

    /// Reads the changes of the remote through its change feed.
    private func follow(isLast: Bool = false) async {
        do throws(BackendError) {
            if try await auditor.changeFeed.follow(remote.contents) { marks.reach(.cursorExpired) }
            guard isLast else { return }
            try await auditor.checkChangeFeed()
            await remote.contents.witness?.checkEnd(remote.contents)
        } catch {
            // A cluster answers nothing during a promotion.
            if !isLast, cluster?.isPromoting == true { return }
            report(.changes, "the change feed of the remote failed: \(error)", lane: remote.lane)
        }
    }
}
