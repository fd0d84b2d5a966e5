import EntitlementSync
import Entitlements
import SyncCore

extension Auditor {
    /// The names of all accounts in use, ascending.
    var accountNames: [String] {
        var names = Set(world.scenario.devices.compactMap(\.account))
        for visitors in visitors.values { names.formUnion(visitors) }
        return names.sorted()
    }

    /// Checks that all replicas of an account's ledger are equal after healing, and contain every acknowledged fact.
    func checkAgreement() {
        var remotes: [LedgerPlace: ModelLedger] = [:]
        for (place, ledger) in ledgers(on: nil) where place.kind == .account {
            remotes[place] = remotes[place, default: ModelLedger()].joined(with: ledger)
        }
        for device in world.devices where !device.isLost {
            for (place, ledger) in ledgers(on: device.index) where place.kind == .account && place.name != nil {
                guard let name = place.name, isCurrent(place), isVisited(name, on: device) else { continue }
                let remote = remotes[place] ?? ModelLedger()
                guard ledger.records != remote.records || ledger.isErased != remote.isErased else { continue }
                let missing = remote.missing(of: ledger) ?? ledger.missing(of: remote)
                report(
                    .equalLedgers, "\(place.owner): the device and the remote differ in \(missing?.words ?? "erasure")",
                    device)
            }
        }
        checkAcknowledged(in: remotes)
        checkOutboxes()
        hasAgreed = true
    }

    /// Returns `true` if the account of this place is not erased.
    func isCurrent(_ place: LedgerPlace) -> Bool {
        place.name.map { !erasedNames.contains($0) } ?? false
    }

    func isVisited(_ name: String, on device: SimulatedDevice) -> Bool {
        device.setup.account == name || visitors[device.index]?.contains(name) == true
    }

    private func checkAcknowledged(in remotes: [LedgerPlace: ModelLedger]) {
        for fact in acknowledged where !fact.isExempt {
            let device = world.devices[fact.device]
            var ledgers = remotes.filter { belongs(fact, to: $0.key, on: nil) }.map(\.value)
            // Facts of a device stay there. So do facts of an adopted ledger until its account logs in again.
            if fact.isOnDevice || fact.account == nil {
                guard !device.isLost else { continue }
                ledgers += self.ledgers(on: device.index).filter { belongs(fact, to: $0.place, on: device.index) }.map(
                    \.ledger)
            }
            guard !ledgers.contains(where: { $0.covers(fact.record) }),
                !isSettled(fact.record, for: owners(fact.account, fact.device))
            else { continue }
            if ledgers.contains(where: \.isErased) && !erasedNames.isEmpty { continue }
            report(
                .nothingLost, "\(fact.words) of \(fact.account ?? "no account") was acknowledged and is gone", device)
        }
    }

    /// Checks that a new device holds the whole account after restoring.
    func checkRestore(of account: Account, on device: SimulatedDevice) {
        guard let name = account.name else { return }
        var remote = ModelLedger()
        for (place, ledger) in ledgers(on: nil)
        where place.name == name && place.incarnation == account.incarnation {
            remote = remote.joined(with: ledger)
        }
        let own = ledger(of: account, on: device.index) ?? ModelLedger()
        guard own.records != remote.records else { return }
        report(
            .restore,
            "\(name) restored on a new device lacks \(own.missing(of: remote)?.words ?? "nothing, and has more")",
            device)
    }

    func checkChangeFeed() async throws(BackendError) {
        let store = world.remote.contents
        guard store.capabilities.changes else { return }
        let followed = changeFeed.versions.keys.sorted().map(\.text)
        var isSame = followed == store.keys.map(\.text)
        for (key, version) in changeFeed.versions.sorted(by: { $0.key < $1.key }) where isSame {
            isSame = try await store.read(key, unless: version).outcome == .unchanged
        }
        guard !isSame else { return }
        report(.changes, "by its cursors the remote holds \(followed)")
    }

    /// Checks the invariants of the whole run.
    func checkEnd() {
        checkOwnership()
        checkServer()
        checkErased()
        checkInventedFacts()
    }

    private static func purchaseKey(_ id: String) -> [UInt8] {
        Fact.purchase(
            Purchase(
                transaction: TransactionReference(store: .appStore, id: TransactionID(id)), product: "any", terms: nil,
                date: .earliest, stamp: Stamp(logicalTime: .zero))
        ).record.key
    }

    /// Checks that no transaction counts for two accounts, or for an account that never recorded it.
    private func checkOwnership() {
        var owners: [[UInt8]: Set<String>] = [:]
        // Facts in a restored store may be adopted a second time.
        let isAdoptedTwice = world.devices.contains(where: \.wasPutBack)
        for fact in acknowledged {
            let names = fact.account.map { [$0] } ?? adopters[fact.device].map(Array.init) ?? []
            owners[fact.record.key, default: []].formUnion(names)
        }
        var holders: [[UInt8]: Set<String>] = [:]
        // The server decides to whom these belong.
        let stated = Set(world.scenario.statedTransactions.map { Self.purchaseKey($0) })
        for device in world.devices.map({ Optional($0.index) }) + [nil] {
            for (place, ledger) in ledgers(on: device) {
                guard let name = place.name else { continue }
                for record in ledger.records where record.isPurchase && !stated.contains(record.key) {
                    holders[record.key, default: []].insert(name)
                }
            }
        }
        for (key, names) in holders.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            let words = ModelLedger.Record(key: key, order: [], payload: []).words
            let strangers = names.subtracting(owners[key] ?? names)
            let recorders = Set(acknowledged.filter { $0.record.key == key }.compactMap(\.account))
            if !strangers.isEmpty {
                report(.ownership, "\(strangers.sorted()) holds \(words) of another")
            } else if names.count > max(1, recorders.count), !isAdoptedTwice {
                report(.ownership, "\(names.sorted()) all hold \(words)")
            }
        }
    }

    /// Returns `true` if the device's session entry names this incarnation of an account.
    private func isLoggedIn(_ life: LedgerPlace, on device: SimulatedDevice) -> Bool {
        guard let note = device.contents.values.first(where: { $0.key.text == "device/session" })?.value else {
            return false
        }
        let lines = String(decoding: note, as: UTF8.self).split(separator: "\n").map(String.init)
        return lines.count == 4 && lines[1] == life.name && lines[2] == life.incarnation
    }

    private func checkErased() {
        guard !hasRemoteForgotten else { return }
        for life in erasedIncarnations.sorted(by: { $0.owner < $1.owner }) {
            if ledgers(on: nil).contains(where: { $0.place == life && !$0.ledger.isErased }) {
                report(.erased, "\(life.owner) is on the remote again")
            }
            for device in world.devices where !device.isLost {
                guard let name = life.name, isVisited(name, on: device) else { continue }
                let rest = ledgers(on: device.index).filter {
                    $0.place.name == name && $0.place.incarnation == life.incarnation && !$0.ledger.isErased
                        && !$0.ledger.records.isEmpty
                }
                if !rest.isEmpty { report(.erased, "\(life.owner) is still on the device", device) }
                if isLoggedIn(life, on: device) {
                    report(.erased, "\(life.owner) is still logged in on the device", device)
                }
            }
        }
    }
}
