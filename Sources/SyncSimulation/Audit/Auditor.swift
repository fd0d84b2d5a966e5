import EntitlementSync
import Entitlements
import SyncCore

/// Watches a run from outside and knows what must hold. One thread only.
///
/// It reads stores with a reader of its own and reckons with ``ModelLedger`` and its replay, never with what it judges.
final class Auditor {
    /// A fact that a process was told is safe.
    struct Acknowledged {
        var record: ModelLedger.Record
        var words: String
        /// Whose it was when the call began; `nil` for nobody.
        var account: String?
        var device: Int
        /// Whether it stays on the device.
        var isOnDevice: Bool
        /// Set when the last store that held it was lost, or its account was erased.
        var isExempt = false
    }

    unowned let world: World
    var acknowledged: [Acknowledged] = []
    /// Which accounts adopted, or tried to, on which device.
    var adopters: [Int: Set<String>] = [:]
    /// Names of accounts that ever logged in on a device, and were opened there.
    var visitors: [Int: Set<String>] = [:]
    /// Accounts that somebody began to erase.
    var erasedNames: Set<String> = []
    /// Lives of accounts whose erasure the remote has.
    var erasedLives: Set<LedgerPlace> = []
    /// Purchases by transaction, as their shopper knows them.
    var sales: [String: (sale: Sale, devices: Set<Int>, at: Int64)] = [:]
    /// At which terms anybody sells a product.
    var terms: [String: Set<ModelTerms?>] = [:]
    var clocks: [Int: ClockBounds] = [:]
    var keptClocks: [Int: ClockBounds] = [:]
    /// Devices that have heard the remote's time, and the greatest time that they have shown since.
    var contacted: Set<Int> = []
    var shownTimes: [Int: Int64] = [:]
    /// Those of them of whose clock the store has heard, and what they had shown by then.
    var keptContacted: Set<Int> = []
    var keptShownTimes: [Int: Int64] = [:]
    /// Devices whose store has refused to keep the time since it last did.
    var unkeptClocks: Set<Int> = []
    /// What each replica showed last.
    var shown: [ShownPlace: Shown] = [:]
    var isHealed = false
    /// Whether the remote was emptied, put back or written to by a liar after an erasure: then an erased account may
    /// come back, for nobody else may know.
    var hasRemoteForgotten = false
    private var decoded: [DecodedPlace: (bytes: [UInt8], ledger: ModelLedger?)] = [:]
    var follower = Follower()
    /// Calls that sync, under way on each device.
    var syncsUnderWay: [Int: Int] = [:]
    /// Steps under way on each device.
    var stepsUnderWay: [Int: Int] = [:]
    var stepsBegun: [Int: Int] = [:]
    /// The lives of accounts that were made, and how often their names had been erased by then.
    var made: [String: (incarnation: String, times: Int)] = [:]
    var eraseCounts: [String: Int] = [:]
    var erasesUnderWay = 0
    /// Of which accounts each device may have heard from the remote.
    var knownRemotes: [Int: Set<LedgerPlace>] = [:]
    /// How often a process wrote to a ledger.
    var ledgerWriteCount = 0

    init(world: World) {
        self.world = world
    }

    struct DecodedPlace: Hashable {
        var device: Int?
        var key: EntryKey
    }

    /// What a store holds under `key`, read; `nil` when it is no ledger.
    func ledger(_ key: EntryKey, on device: Int?) -> ModelLedger? {
        let contents = device.map { world.devices[$0].contents } ?? world.remote.contents
        guard let bytes = contents.values[key] else { return nil }
        let place = DecodedPlace(device: device, key: key)
        if let known = decoded[place], known.bytes == bytes { return known.ledger }
        let ledger = ModelLedger(document: bytes)
        decoded[place] = (bytes, ledger)
        return ledger
    }

    /// All ledgers of a store that can be read, in ascending order of their keys.
    func ledgers(on device: Int?) -> [(place: LedgerPlace, ledger: ModelLedger)] {
        let contents = device.map { world.devices[$0].contents } ?? world.remote.contents
        return contents.keys.compactMap { key in
            guard let place = LedgerPlace(key.text), place.kind != .note, let ledger = ledger(key, on: device) else {
                return nil
            }
            return (place, ledger)
        }
    }

    /// The remote's ledger of a place, all replicas' parts together.
    func remoteLedger(_ place: LedgerPlace) -> ModelLedger {
        ledgers(on: nil).filter { $0.place == place }.reduce(ModelLedger()) { $0.joined(with: $1.ledger) }
    }

    /// Which of the acknowledged facts some store holds that is not lost.
    func holdings() -> Set<Int> {
        var ledgers = ledgers(on: nil).map { (device: Int?.none, place: $0.place, ledger: $0.ledger) }
        for device in world.devices where !device.isLost {
            ledgers += self.ledgers(on: device.index).map { (device.index, $0.place, $0.ledger) }
        }
        return Set(
            acknowledged.indices.filter { index in
                let fact = acknowledged[index]
                return !fact.isExempt
                    && ledgers.contains {
                        belongs(fact, to: $0.place, on: $0.device) && $0.ledger.covers(fact.record)
                    }
            })
    }

    /// Whether a fact may lie in a place: in its account's, or in nobody's on its device and those of its adopters.
    func belongs(_ fact: Acknowledged, to place: LedgerPlace, on device: Int?) -> Bool {
        if fact.isOnDevice, device != fact.device { return false }
        if !fact.isOnDevice, place.kind == .device { return false }
        if let name = fact.account { return place.name == name }
        guard let name = place.name else { return device == fact.device }
        return adopters[fact.device]?.contains(name) == true
    }

    enum Loss { case device, local, remote }

    /// Some store is gone or is as it was: what only that held is lost, and nobody is to blame.
    func didLose(comparedWith before: Set<Int>, _ loss: Loss) {
        let after = holdings()
        for index in acknowledged.indices where !acknowledged[index].isExempt && !after.contains(index) {
            guard before.contains(index) else {
                world.report(
                    .nothingLost, "\(acknowledged[index].words) was in no store any more",
                    lane: world.devices[acknowledged[index].device].lane)
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
    /// A process was told that these facts are safe: they are in its device's store at that very moment.
    func didAcknowledge(_ facts: [Fact], in call: World.Call) {
        guard call.process.isAlive else { return }
        for fact in facts {
            switch fact {
            case .pending, .contradiction, .recording: continue
            default: break
            }
            let record = ModelLedger.Record(
                key: fact.record.key, order: fact.record.order, payload: fact.record.payload)
            note(record, fact.words, call)
        }
    }

    func didAcknowledgeUnknown(_ id: String, in call: World.Call) {
        guard call.process.isAlive else { return }
        let record = UnknownRecord.record(id)
        note(
            ModelLedger.Record(key: record.key, order: record.order, payload: record.payload),
            "the unknown record \(id)", call)
    }

    private func note(_ record: ModelLedger.Record, _ words: String, _ call: World.Call) {
        let name = call.account.name
        let holders = ledgers(on: call.process.device.index).filter { $0.ledger.isErased || $0.ledger.covers(record) }
        if holders.isEmpty {
            world.report(
                .nothingLost, "\(words) was acknowledged and is not in the device's store",
                lane: call.process.device.lane)
        }
        let isOnDevice = !holders.contains { $0.place.kind == .account && !$0.ledger.isErased }
        acknowledged.append(
            Acknowledged(
                record: record, words: words, account: name, device: call.process.device.index, isOnDevice: isOnDevice,
                isExempt: name.map(erasedNames.contains) ?? !erasedNames.isDisjoint(
                    with: adopters[call.process.device.index] ?? [])))
    }

    /// A shopper's purchase was recorded.
    func didBuy(_ sale: Sale, _ call: World.Call) {
        guard call.process.isAlive else { return }
        let device = call.process.device
        checkSaid(sale, in: call)
        if var known = sales[sale.transaction] {
            if known.devices.insert(device.index).inserted { world.marks.reach(.sameTransactionTwice) }
            sales[sale.transaction] = known
        } else {
            let now = world.recorder.now
            let others = sales.values.filter { !$0.devices.contains(device.index) && now - $0.at < 60_000 }
            if !others.isEmpty { world.marks.reach(.boughtAtOnce) }
            sales[sale.transaction] = (sale, [device.index], world.recorder.now)
        }
    }

    /// Whether a purchase of this transaction was recorded.
    func isKnown(_ transaction: String) -> Bool { sales[transaction] != nil }

    /// Right after buying, access was asked for.
    func didLookAfterBuying(_ sale: Sale, _ access: Access, _ call: World.Call) {
        guard call.process.device.setup.rule == nil, world.subject.hasDefaultRules else { return }
        if case .granted = access { return }
        // Who was taken back before he bought has nothing.
        guard !hasRevocation(of: sale.transaction, on: call.process.device.index), call.store.account == call.account
        else { return }
        // Another process may have adopted what nobody bought.
        if call.account.isAnonymous, adopters[call.process.device.index] != nil { return }
        if let name = call.account.name, erasedNames.contains(name) { return }
        // Who buys while his clock is being set right has bought at a time that never was.
        guard call.process.device.correctionCount == call.correctionCount else { return }
        world.report(
            .activeAtOnce, "\(sale.transaction) was bought and access is \(access)", lane: call.process.device.lane)
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
        for (_, ledger) in ledgers(on: call.process.device.index) {
            let record = ledger.records.first { $0.key.first == 0x42 && $0.key.contains(Array(id.utf8)) }
            if let record { return note(record, "spend \(id)", call) }
        }
        if isErased(call.account) { return }
        world.report(
            .spends, "spend \(id) was acknowledged and is not in the device's store", lane: call.process.device.lane)
    }

    func isErased(_ account: Account) -> Bool { account.name.map(erasedNames.contains) ?? false }

    func ownPlace(of account: Account, onDevice: Bool) -> EntryKey? {
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
        case .flag(let flag): "the mark of \(flag.product)"
        case .spend(let spend): "the spend \(spend.id)"
        default: "a fact"
        }
    }
}

extension [UInt8] {
    /// Whether `part` stands somewhere in these bytes.
    func contains(_ part: [UInt8]) -> Bool {
        guard !part.isEmpty, count >= part.count else { return part.isEmpty }
        return (0...(count - part.count)).contains { self[$0..<($0 + part.count)].elementsEqual(part) }
    }
}
