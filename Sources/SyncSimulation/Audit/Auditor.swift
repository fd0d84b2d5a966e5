import EntitlementSync
import Entitlements
import SyncCore

/// Observes a run from outside and checks its invariants (the oracles). Single-threaded.
///
/// It reads stores with its own decoder and computes with ``ModelLedger`` and its replay, never with the code under
/// test.
final class Auditor {
    /// A fact whose recording was acknowledged to a process.
    struct Acknowledged {
        var record: ModelLedger.Record
        var words: String
        /// The account that was current when the call started; `nil` for the anonymous ledger.
        var account: String?
        var device: Int
        /// True if the fact stays on the device.
        var isOnDevice: Bool
        /// Set when the last store that held the fact was lost, or its account was erased.
        var isExempt = false
    }

    unowned let world: World
    var acknowledged: [Acknowledged] = []
    /// The accounts that adopted, or tried to, on each device.
    var adopters: [Int: Set<String>] = [:]
    /// The names of accounts that were ever logged in on each device.
    var visitors: [Int: Set<String>] = [:]
    /// The accounts whose erasure has started.
    var erasedNames: Set<String> = []
    /// The incarnations whose erasure the remote has recorded.
    var erasedIncarnations: Set<LedgerPlace> = []
    /// The devices that recorded each purchase, by transaction, and the time of its first recording.
    var sales: [String: (devices: Set<Int>, at: Int64)] = [:]
    /// The terms at which the devices sell each product.
    var terms: [String: Set<ModelTerms?>] = [:]
    /// The expectations for each device's clock.
    var clocks: [Int: ExpectedClock] = [:]
    /// The same as of the last time that each device's store saved its clock.
    var savedClocks: [Int: ExpectedClock] = [:]
    /// Devices whose store failed to save the time since it last succeeded.
    var unsavedClocks: Set<Int> = []
    /// The last observation of each device and account.
    var observations: [Int: [Account: Observation]] = [:]
    var isHealed = false
    /// True after the sync rounds that make all replicas equal.
    var hasAgreed = false
    /// Evidence that the server refused.
    var refusals: Set<Refusal> = []
    /// The latest statement of each transaction that reached the server, by account and transaction.
    var deliveries: [Account: [String: StoreStatement]] = [:]
    /// The transactions whose purchases, reversals of refunds or grace periods clients have invented.
    var claimed: Set<ModelID> = []
    /// The terms of the devices' catalogues, by their index.
    var catalogues: [Int: [ModelID: ModelTerms]] = [:]
    /// True if the remote was emptied, restored from a copy or written to by a malicious client after an erasure: an
    /// erased account may then come back, because no other store remembers the erasure.
    var hasRemoteForgotten = false
    private var decoded: [DecodedPlace: (bytes: [UInt8], ledger: ModelLedger?)] = [:]
    var changeFeed = ChangeFeedReader()
    /// The number of syncs running on each device.
    var syncsUnderWay: [Int: Int] = [:]
    /// The number of steps running on each device.
    var stepsUnderWay: [Int: Int] = [:]
    var stepsBegun: [Int: Int] = [:]
    /// The incarnation of each created account, and how often its name had been erased by then.
    var createdAccounts: [String: (incarnation: String, times: Int)] = [:]
    var eraseCounts: [String: Int] = [:]
    var erasesUnderWay = 0
    /// The accounts for which each device may have reached the remote.
    var knownRemotes: [Int: Set<LedgerPlace>] = [:]
    /// The number of writes to ledgers by processes.
    var ledgerWriteCount = 0

    init(world: World) {
        self.world = world
    }

    /// Reports a violation by a device, or by the remote if `device` is `nil`.
    func report(_ oracle: Violation.Oracle, _ message: String, _ device: SimulatedDevice? = nil) {
        world.report(oracle, message, lane: device?.lane ?? world.remote.lane)
    }

    struct DecodedPlace: Hashable {
        var device: Int?
        var key: EntryKey
    }

    /// The decoded ledger under `key`; `nil` if the value is no ledger.
    func ledger(_ key: EntryKey, on device: Int?) -> ModelLedger? {
        let contents = device.map { world.devices[$0].contents } ?? world.remote.contents
        guard let bytes = contents.values[key] else { return nil }
        let place = DecodedPlace(device: device, key: key)
        if let known = decoded[place], known.bytes == bytes { return known.ledger }
        let ledger = ModelLedger(document: bytes)
        decoded[place] = (bytes, ledger)
        return ledger
    }

    /// All readable ledgers of a store, in ascending order of their keys.
    func ledgers(on device: Int?) -> [(place: LedgerPlace, ledger: ModelLedger)] {
        let contents = device.map { world.devices[$0].contents } ?? world.remote.contents
        return contents.keys.compactMap { key in
            guard let place = LedgerPlace(key.text), place.kind != .note, let ledger = ledger(key, on: device) else {
                return nil
            }
            return (place, ledger)
        }
    }

    /// The remote's ledger of a place: the union of the parts of all replicas.
    func remoteLedger(_ place: LedgerPlace) -> ModelLedger {
        ledgers(on: nil).filter { $0.place == place }.reduce(ModelLedger()) { $0.joined(with: $1.ledger) }
    }

    /// The indices of the acknowledged facts that at least one remaining store holds.
    func holdings() -> Set<Int> {
        var ledgers = ledgers(on: nil).map { (device: Int?.none, place: $0.place, ledger: $0.ledger) }
        for device in world.devices where !device.isLost {
            ledgers += self.ledgers(on: device.index).map { (device.index, $0.place, $0.ledger) }
        }
        return Set(
            acknowledged.indices.filter { index in
                let fact = acknowledged[index]
                return !fact.isExempt
                    && (isSettled(fact.record, for: owners(fact.account, fact.device))
                        || ledgers.contains {
                            belongs(fact, to: $0.place, on: $0.device) && $0.ledger.covers(fact.record)
                        })
            })
    }

    /// Returns `true` if a fact may be stored in a place: in its account's ledger, or, for an anonymous fact, in the
    /// anonymous ledger of its device or in the ledger of an adopter.
    func belongs(_ fact: Acknowledged, to place: LedgerPlace, on device: Int?) -> Bool {
        if fact.isOnDevice, device != fact.device { return false }
        if !fact.isOnDevice, place.kind == .device { return false }
        if let name = fact.account { return place.name == name }
        guard let name = place.name else { return device == fact.device }
        return adopters[fact.device]?.contains(name) == true
    }

    enum Loss { case device, local, remote }

    /// Exempts the facts that only a lost or restored store held.
    func didLose(comparedWith before: Set<Int>, _ loss: Loss) {
        let after = holdings()
        for index in acknowledged.indices where !acknowledged[index].isExempt && !after.contains(index) {
            guard before.contains(index) else {
                report(
                    .nothingLost, "\(acknowledged[index].words) is in no remaining store",
                    world.devices[acknowledged[index].device])
                acknowledged[index].isExempt = true
                continue
            }
            acknowledged[index].isExempt = true
            if loss == .device { world.marks.reach(.lostWithDevice) }
            if loss == .local { world.marks.reach(.localPutBack) }
            if loss == .remote { world.marks.reach(.remotePutBack) }
        }
        if loss == .remote { hasRemoteForgotten = true }
    }
}

extension Auditor {
    /// Checks that acknowledged facts are already in the device's store, and remembers them.
    func didAcknowledge(_ facts: [Fact], in call: World.Call) {
        guard call.process.isAlive else { return }
        for fact in facts {
            switch fact {
            case .pending, .contradiction, .recording, .evidence: continue
            default: break
            }
            checkAndRemember(ModelRecord(fact.record), fact.words, call)
        }
    }

    func didAcknowledgeUnknown(_ id: String, in call: World.Call) {
        guard call.process.isAlive else { return }
        checkAndRemember(ModelRecord(UnknownRecord.record(id)), "the unknown record \(id)", call)
    }

    private func checkAndRemember(_ record: ModelRecord, _ words: String, _ call: World.Call) {
        let holders = ledgers(on: call.device.index).filter { $0.ledger.isErased || $0.ledger.covers(record) }
        if holders.isEmpty {
            report(.nothingLost, "\(words) was acknowledged and is not in the device's store", call.device)
        }
        let isOnDevice = !holders.contains { $0.place.kind == .account && !$0.ledger.isErased }
        remember(record, words, call, isOnDevice: isOnDevice)
    }

    /// Remembers a record whose recording was acknowledged.
    func remember(
        _ record: ModelRecord, _ words: String, _ call: World.Call, isOnDevice: Bool, isExempt: Bool = false
    ) {
        let (name, device) = (call.account.name, call.device.index)
        let mayBeErased = name.map(erasedNames.contains) ?? !erasedNames.isDisjoint(with: adopters[device] ?? [])
        acknowledged.append(
            Acknowledged(
                record: record, words: words, account: name, device: device, isOnDevice: isOnDevice,
                isExempt: isExempt || mayBeErased))
    }

    /// Checks a recorded purchase.
    func didBuy(_ sale: Sale, _ call: World.Call) {
        guard call.process.isAlive else { return }
        let device = call.device
        checkRecorded(sale, in: call)
        if let known = sales[sale.transaction] {
            if !known.devices.contains(device.index) { world.marks.reach(.sameTransactionTwice) }
            sales[sale.transaction]?.devices.insert(device.index)
        } else {
            let now = world.recorder.now
            let others = sales.values.filter { !$0.devices.contains(device.index) && now - $0.at < 60_000 }
            if !others.isEmpty { world.marks.reach(.boughtAtOnce) }
            sales[sale.transaction] = ([device.index], now)
        }
    }

    /// Returns `true` if a purchase with this transaction was recorded.
    func isKnown(_ transaction: String) -> Bool { sales[transaction] != nil }

    /// Checks that a purchase is active immediately afterwards.
    func didReadAccessAfterPurchase(_ sale: Sale, _ access: Access, _ call: World.Call) {
        guard call.device.setup.rule == nil, world.subject.hasDefaultRules else { return }
        if case .granted = access { return }
        // A purchase that was refunded before it was made grants nothing.
        guard !hasRevocation(of: sale.transaction, on: call.device.index), call.store.account == call.account
        else { return }
        // Another process may have adopted the anonymous ledger.
        if call.account.isAnonymous, adopters[call.device.index] != nil { return }
        if isErased(call.account) { return }
        // Under `verified` only what the server has verified counts.
        if serverLedger(of: call.account, on: call.device.index).facts.policy == .verified { return }
        // A purchase made while the clock is being corrected may carry a date that never existed.
        guard call.device.correctionCount == call.correctionCount else { return }
        report(.activeAtOnce, "\(sale.transaction) was bought, but access is \(access)", call.device)
    }

    private func hasRevocation(of transaction: String, on device: Int) -> Bool {
        ledgers(on: device).contains { item in
            item.ledger.records.contains { record in
                record.key.first == 0x1A && record.key.contains(Array(transaction.utf8))
            }
        }
    }

    func didSpend(_ id: String, of product: ProductID, in call: World.Call) {
        // The record is looked up by its id, since `use` does not return it.
        for (_, ledger) in ledgers(on: call.device.index) {
            let record = ledger.records.first { $0.key.first == 0x42 && $0.key.contains(Array(id.utf8)) }
            if let record { return checkAndRemember(record, "spend \(id)", call) }
        }
        if isErased(call.account) { return }
        report(.spends, "spend \(id) was acknowledged and is not in the device's store", call.device)
    }

    func isErased(_ account: Account) -> Bool { account.name.map(erasedNames.contains) ?? false }

    /// The ledger of an account on a device, or on the remote; with `onDevice`, the ledger that stays on the device.
    func ledger(of account: Account, onDevice: Bool = false, on device: Int?) -> ModelLedger? {
        ownPlace(of: account, onDevice: onDevice).flatMap { ledger($0, on: device) }
    }

    func ownPlace(of account: Account, onDevice: Bool = false) -> EntryKey? {
        let path = account.name.map { "accounts/\($0)/\(account.incarnation)/ledger" } ?? "anonymous/ledger"
        do { return try EntryKey(onDevice ? "device/" + path : path) } catch { return nil }
    }
}

extension Fact {
    fileprivate var words: String {
        switch self {
        case .purchase(let purchase): "the purchase \(purchase.transaction.id)"
        case .revocation(let revocation): "the revocation of \(revocation.transaction.id)"
        case .assertion(let assertion): "the statement of \(assertion.reference.source)"
        case .flag(let flag): "the flag of \(flag.product)"
        case .spend(let spend): "the spend \(spend.id)"
        default: "a fact"
        }
    }
}

extension [UInt8] {
    /// Returns `true` if these bytes contain `part`.
    func contains(_ part: [UInt8]) -> Bool {
        guard !part.isEmpty, count >= part.count else { return part.isEmpty }
        return (0...(count - part.count)).contains { self[$0..<($0 + part.count)].elementsEqual(part) }
    }
}
