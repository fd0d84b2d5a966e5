import EntitlementSync
import Entitlements
import SyncCore

extension World {
    /// After healing so many rounds, in each of which every device syncs every account that was ever logged in on it,
    /// all hold the same: in the first all send, in the second all receive.
    static let roundsToAgree = 2

    /// The whole run: what the scenario says, then healing and what must hold in the end.
    func live() async {
        for index in scenario.steps.indices {
            let step = scenario.steps[index]
            scheduler.at(step.at * 1_000) { [unowned self] in
                scheduler.spawn { [self] in
                    await perform(index)
                    // Not each time: what follows a store that was put back shall find changes that it never saw.
                    if index % 8 == 0 { await follow() }
                }
            }
        }
        await rest(until: Int64(scenario.days) * Self.day * 1_000)
        heal()
        await undoTampering()
        // What is under way arrives, what was repeated arrives again.
        while messagesUnderWay > 0 { await rest(for: 60_000_000) }
        await rest(for: 2 * SimulatedLink.timeout)
        for _ in 0..<Self.roundsToAgree { await syncEverywhere() }
        auditor.checkAgreement()
        let writes = ledgerWrites
        await syncEverywhere()
        if ledgerWrites != writes {
            report(.quiescence, "after \(Self.roundsToAgree) rounds there still were writes", lane: remote.lane)
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
        for device in devices where !device.isLost {
            for process in device.running { process.end() }
            device.cut(.incoming, until: 0)
            device.cut(.outgoing, until: 0)
            device.fill(until: 0)
            auditor.didMoveClock(of: device, by: -device.clockOffset)
            device.clockOffset = 0
        }
        recorder.note(remote.lane, .healed, 0, .healed)
        auditor.isHealed = true
    }

    /// Somebody puts back what a client that lied has made unreadable, as far as it is known.
    private func undoTampering() async {
        for key in remote.contents.keys where LedgerPlace(key.text)?.kind == .account {
            guard let value = remote.contents.values[key], ModelLedger(document: value) == nil else { continue }
            do throws(BackendError) {
                try await remote.contents.put(originals[key], under: key)
            } catch {
                report(.execution, "a store that takes anything refused: \(error)", lane: remote.lane)
            }
        }
    }

    private func rest(until time: Int64) async { await rest(for: max(0, time - scheduler.now)) }

    private func rest(for microseconds: Int64) async {
        // Nobody cancels the run's own task, so that it always sleeps to the end.
        do { try await scheduler.sleep(until: scheduler.now + microseconds) } catch {}
    }

    /// Writes to ledgers so far, wherever they lie. Devices go on noting what time it is.
    private var ledgerWrites: Int { auditor.ledgerWriteCount }

    /// One round: each device in turn syncs, as every account that was ever logged in on it.
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
        // Who is logged in learns of an erasure first.
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

    /// A device that nobody had before: it has what a buyer has who lost all others.
    private func restoreOnNewDevice() async {
        for name in auditor.accountNames {
            let setup = DeviceSetup(account: scenario.devices.contains { $0.account == nil } ? nil : name)
            let device = addDevice(setup)
            guard let process = await start(0, on: device), let store = process.store else { continue }
            do throws(EntitlementError) {
                if setup.account == nil { try await store.logIn(name) }
                let report = try await store.restore()
                recorder.note(device.lane, .other, 0, .note("a new device restores \(report.purchases.count)"))
                let call = Call(step: -1, process: process, store: store, account: store.account)
                auditor.didObserve(report.snapshot, in: call, isUndisturbed: true)
                auditor.checkRestore(of: store.account, on: device)
            } catch {
                auditor.didFail(error, to: "restore on a new device", in: process)
            }
        }
    }

    /// Takes up what changed on the remote by its cursors.
    private func follow(isLast: Bool = false) async {
        do throws(BackendError) {
            if try await auditor.changeFeed.follow(remote.contents) { marks.reach(.cursorExpired) }
            if isLast { try await auditor.checkChangeFeed() }
        } catch {
            report(.changes, "the remote cannot be followed: \(error)", lane: remote.lane)
        }
    }
}
