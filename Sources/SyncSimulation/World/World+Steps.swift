import EntitlementSync
import Entitlements
import SyncCore

extension World {
    /// Performs a step now.
    func perform(_ number: Int) async {
        let step = scenario.steps[number]
        // Steps after the end of the scenario would disturb the final checks.
        guard !auditor.isHealed else { return }
        guard let index = step.device else { return await performOnRemote(step.action, number) }
        guard devices.indices.contains(index), !devices[index].isLost else { return }
        let device = devices[index]
        if performOnDevice(step, device) { return }
        guard let process = await start(min(max(step.process, 0), 1), on: device), let store = process.store else {
            return
        }
        recorder.record(device.lane, .begun, number, .begun(step: number, step.action.words))
        let call = Call(
            step: number, process: process, store: store, account: store.account,
            correctionCount: device.correctionCount, exclusiveStep: auditor.willStep(on: device))
        defer { auditor.didStep(on: device) }
        auditor.didFindLoggedIn(call.account, on: device)
        do throws(EntitlementError) {
            let words = try await act(step.action, call)
            guard process.isAlive else { return }
            recorder.record(device.lane, .ended, number, .ended(step: number, words, isFailure: false))
            if step.action.changesFacts { await check(call) }
        } catch {
            guard process.isAlive else { return }
            recorder.record(device.lane, .ended, ~number, .ended(step: number, "\(error)", isFailure: true))
            auditor.didFail(error, to: step.action.words, in: process)
        }
    }

    /// A call that a shopper makes.
    struct Call {
        var step: Int
        var process: SimulatedProcess
        var store: EntitlementStore
        /// The account whose ledger the call uses: the current one when it started.
        var account: Account
        /// The number of corrections of the device's time when it started.
        var correctionCount = 0
        /// The number of the step on its device; `nil` if another step was running there.
        var exclusiveStep: Int?

        var device: SimulatedDevice { process.device }
    }

    private func act(_ action: Action, _ call: Call) async throws(EntitlementError) -> String {
        switch action {
        case .buy(let sale): return try await buy(sale, call)
        case .refund(let id, let isSigned): return try await refund(id, isReversed: false, isSigned: isSigned, call)
        case .reinstate(let id, let isSigned):
            return try await refund(id, isReversed: true, isSigned: isSigned, call)
        case .use(let entitlement, let id): return try await use(entitlement, id, call)
        case .flag(let product, let isSet):
            let fact = try await call.store.flag(ProductID(product), isSet: isSet)
            auditor.didAcknowledge(fact.map { [$0] } ?? [], in: call)
            return fact == nil ? "nothing changes" : "flag changed"
        case .assert(let group, let until, let source):
            let receipt = try await call.store.record(
                .asserted(
                    GroupID(group), until: Timestamp(milliseconds: Self.epoch + until), source: SourceID(source)))
            auditor.didAcknowledge(receipt.newFacts, in: call)
            marks.reach(receipt.newFacts.isEmpty ? .assertionEchoed : .assertionAdded)
            return receipt.newFacts.isEmpty ? "known" : "recorded"
        case .echo(let group, let source): return try await echo(group, source, call)
        case .defer(let product, let isWithdrawn):
            let receipt = try await call.store.record(
                isWithdrawn ? .withdrawn(ProductID(product)) : .deferred(ProductID(product)))
            if !isWithdrawn, !receipt.newFacts.isEmpty { marks.reach(.pending) }
            return receipt.newFacts.isEmpty ? "nothing changes" : "pending"
        case .writeUnknown(let id):
            let facts = try await call.store.join(Ledger([UnknownRecord.record(id)]))
            auditor.didAcknowledgeUnknown(id, in: call)
            return facts.isEmpty ? "known" : "written"
        case .present(let statement, let isRestore):
            remote.server?.sign(statement)
            return isRestore ? try await restore(presenting: statement, call) : try await present(statement, call)
        case .forge(let statement): return try await present(statement, isForged: true, call)
        default: return try await actOnAccount(action, call)
        }
    }

    static func store(_ isSigned: Bool) -> StoreID { isSigned ? .appStore : .reported }

    private func buy(_ sale: Sale, _ call: Call) async throws(EntitlementError) -> String {
        if sale.isSigned { auditor.didSeeSignature(on: call.device) }
        let receipt = try await call.store.record(
            .reported(
                ProductID(sale.product), transaction: TransactionID(sale.transaction),
                date: sale.date.map { Timestamp(milliseconds: Self.epoch + $0) }, quantity: sale.quantity,
                store: Self.store(sale.isSigned),
                signedAt: sale.isSigned ? Timestamp(milliseconds: Self.epoch + (sale.date ?? 0)) : nil))
        guard call.process.isAlive else { return "" }
        if sale.isSigned { auditor.didSeeSignature(on: call.device) }
        auditor.didAcknowledge(receipt.newFacts, in: call)
        auditor.didBuy(sale, call)
        // A purchase must be active at once.
        let grantsAccess = sale.product == "owl" || sale.product == "quarter"
        if sale.date == nil, grantsAccess || (sale.product == "coins" && auditor.isExclusive(call)) {
            let entitlement: EntitlementID = sale.product == "owl" ? "owl" : "random-owls"
            let access = try await call.store.access(to: entitlement)
            if call.process.isAlive { auditor.didReadAccessAfterPurchase(sale, access, call) }
        }
        return receipt.newFacts.isEmpty ? "known" : "recorded"
    }

    /// Records a refund or its reversal.
    private func refund(
        _ id: String, isReversed: Bool, isSigned: Bool, _ call: Call
    ) async throws(EntitlementError) -> String {
        let reference = TransactionReference(store: Self.store(isSigned), id: TransactionID(id))
        let isKnown = auditor.isKnown(id)
        if isSigned { auditor.didSeeSignature(on: call.device) }
        let signedAt = isSigned ? Timestamp(milliseconds: trueTime) : nil
        let receipt = try await call.store.record(
            isReversed ? .reinstated(reference, signedAt: signedAt) : .refunded(reference, signedAt: signedAt))
        auditor.didAcknowledge(receipt.newFacts, in: call)
        auditor.checkStatement(on: reference, isReinstated: isReversed, in: call)
        if receipt.newFacts.isEmpty { return isReversed ? "nothing to reverse" : "known" }
        marks.reach(isReversed ? .reinstated : isKnown ? .refundInStack : .refundFirst)
        return isReversed ? "reinstated" : "refunded"
    }

    private func use(_ entitlement: String, _ id: String, _ call: Call) async throws(EntitlementError) -> String {
        let before = try await call.store.snapshot()
        let isNew = !auditor.hasSpent(id)
        switch try await call.store.use(EntitlementID(entitlement), id: SpendID(id)) {
        case .granted: return "granted"
        case .spent(let remaining, let product):
            if call.process.isAlive { auditor.didSpend(id, of: product, in: call) }
            if isNew { auditor.checkSpent(id, before: before[balance: product], after: remaining, in: call) }
            return "spent a unit, \(remaining) left"
        case .denied(let denial): return "denied: \(denial)"
        }
    }

    /// Records an echo: the tutorial's server learned the expiry that the device showed, and asserts it to all
    /// devices.
    private func echo(_ group: String, _ source: String, _ call: Call) async throws(EntitlementError) -> String {
        let shown = try await call.store.snapshot()
        guard let end = shown[group: GroupID(group)]?.expires else { return "nothing to echo" }
        // Another account may have logged in meanwhile, and the second call is for the current one.
        var call = call
        call.account = call.store.account
        let receipt = try await call.store.record(.asserted(GroupID(group), until: end, source: SourceID(source)))
        auditor.didAcknowledge(receipt.newFacts, in: call)
        auditor.checkEcho(group, shown, receipt, in: call)
        marks.reach(.assertionEchoed)
        return receipt.newFacts.isEmpty ? "covered" : "recorded"
    }

    /// Records the expiry of every group that the device has or once had.
    private func recordBeliefs(of snapshot: Snapshot, on device: SimulatedDevice) {
        let subscriptions = snapshot.subscriptions.filter { $0.expires != nil }
        for group in Set(subscriptions.map { "\($0.group)" }).union(device.believedGroups).sorted() {
            let subscription = subscriptions.first { "\($0.group)" == group }
            device.believedGroups.insert(group)
            recorder.record(
                device.lane, .believes, Int(truncatingIfNeeded: subscription?.expires?.milliseconds ?? 0),
                .believes(
                    group: group, expires: subscription?.expires?.milliseconds,
                    isActive: subscription?.isActive ?? false))
        }
    }

    /// Reads the snapshot that a device shows, for the trace and the oracles.
    func check(_ call: Call) async {
        let device = call.device
        let before = (device.contents.ledgerWriteCount, device.correctionCount)
        do throws(EntitlementError) {
            let snapshot = try await call.store.snapshot()
            guard call.process.isAlive else { return }
            recordBeliefs(of: snapshot, on: device)
            auditor.didObserve(
                snapshot, in: call,
                isUndisturbed: before == (device.contents.ledgerWriteCount, device.correctionCount))
        } catch {
            if call.process.isAlive { auditor.didFail(error, to: "read the snapshot", in: call.process) }
        }
    }
}

extension World {
    /// Performs a call that syncs, with the checks before and after it.
    func syncing<Report: Sendable>(
        _ call: Call, _ body: () async throws(EntitlementError) -> Report
    ) async throws(EntitlementError) -> Report {
        let beginning = auditor.willSync(call)
        let report: Report
        do throws(EntitlementError) {
            report = try await body()
        } catch {
            auditor.didEndSync(beginning, call, error)
            throw error
        }
        let failure = (report as? LogOutReport).flatMap { $0.failure }
        auditor.didEndSync(beginning, call, failure)
        return report
    }

    private func actOnAccount(_ action: Action, _ call: Call) async throws(EntitlementError) -> String {
        let store = call.store
        switch action {
        case .sync:
            let report = try await syncing(call) { () async throws(EntitlementError) in try await store.sync() }
            if call.process.isAlive { auditor.didSync(report, in: call) }
            return "received \(report.received.count), sent \(report.didSend ? "something" : "nothing")"
        case .restore:
            let report = try await syncing(call) { () async throws(EntitlementError) in try await store.restore() }
            if call.process.isAlive { auditor.didSync(report.sync, in: call) }
            return "restored \(report.purchases.count)"
        case .look:
            await check(call)
            return "snapshot read"
        case .createAccount(let name):
            let account = try await store.createAccount(name)
            auditor.didCreate(account, in: call)
            return "created \(account.incarnation)"
        case .logIn(let name, let adopts):
            if adopts { auditor.mayAdopt(name, in: call) }
            let account = try await store.logIn(name, adoptAnonymous: adopts)
            if call.process.isAlive { auditor.didLogIn(account, in: call) }
            return "\(account) \(account.incarnation)"
        case .logOut:
            let report = try await syncing(call) { () async throws(EntitlementError) in try await store.logOut() }
            if report.hasUnsentFacts { marks.reach(.loggedOutUnsent) }
            auditor.didLogOut(report, in: call)
            return report.hasUnsentFacts ? "with unsent facts" : "all sent"
        case .erase(let name):
            auditor.willErase(name)
            auditor.erasesUnderWay += 1
            defer { auditor.erasesUnderWay -= 1 }
            try await store.eraseAccount(name)
            auditor.didErase(name)
            return "erased"
        default: return ""
        }
    }
}

extension Action {
    /// True if the action may change the snapshot that a device shows.
    var changesFacts: Bool {
        switch self {
        case .look, .createAccount, .logIn, .logOut, .erase: false
        default: true
        }
    }

    /// The action in words, for the trace.
    var words: String {
        switch self {
        case .buy(let sale):
            "buys \(sale.quantity > 1 ? "\(sale.quantity) × " : "")\(sale.product) as \(sale.transaction)"
                + (sale.isSigned ? ", signed" : "")
        case .refund(let id, let isSigned): "refunds \(id)\(isSigned ? ", signed" : "")"
        case .reinstate(let id, let isSigned): "reverses the refund of \(id)\(isSigned ? ", signed" : "")"
        case .use(let entitlement, let id): "uses \(entitlement) as \(id)"
        case .flag(let product, let isSet): "\(isSet ? "sets" : "clears") the flag of \(product)"
        case .assert(let group, _, let source): "\(source) asserts an expiry of \(group)"
        case .echo(let group, let source): "\(source) echoes the expiry of \(group)"
        case .defer(let product, let isWithdrawn): "\(isWithdrawn ? "withdraws" : "requests") \(product)"
        case .writeUnknown(let id): "writes the unknown record \(id)"
        case .present(let statement, let isRestore):
            "\(isRestore ? "restores with" : "records") evidence of \(statement.words)"
        case .forge(let statement): "records forged evidence of \(statement.words)"
        case .sync: "syncs"
        case .restore: "restores"
        case .look: "reads the snapshot"
        case .createAccount(let name): "creates the account \(name)"
        case .logIn(let name, let adopts): "logs in \(name)\(adopts ? ", adopting" : "")"
        case .logOut: "logs out"
        case .erase(let name): "erases \(name)"
        case .start: "starts"
        case .crash(let count): count == 0 ? "crashes" : "will crash at operation \(count)"
        case .backUp, .backUpRemote: "is copied"
        case .putBack, .putBackRemote: "is put back from the copy"
        case .wipe, .wipeRemote: "is emptied"
        case .lose: "is lost for good"
        case .fill, .fillRemote: "is full"
        case .moveClock(let amount), .moveRemoteClock(let amount, _): "clock \(amount) ms"
        case .cut: "is cut off"
        case .failOver(let count, _): count == 0 ? "loses its primary" : "will lose its primary at write \(count)"
        case .switchOver: "switches to its standby"
        case .lie(let lie): "a malicious client writes: \(lie)"
        case .notify(let statement): "the store reports \(statement.words)"
        case .claim(let claim, let account): "a client of \(account) claims: \(claim)"
        }
    }
}
