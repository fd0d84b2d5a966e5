import EntitlementSync
import Entitlements
import SyncCore

/// A refusal by the simulated server.
struct Refusal: Hashable {
    var data: [UInt8]
    var name: String?
    /// The record under which devices keep the evidence; `nil` if the store did not sign it.
    var record: ModelRecord?
}

// The outbox: evidence stays on its device until the server ledger has what it proves, or the server has refused it.
extension Auditor {
    /// Records that the server refused evidence of a client of `account`.
    func didRefuse(_ data: [UInt8], _ statement: StoreStatement?, of account: Account, _ mark: Mark?) {
        refusals.insert(Refusal(data: data, name: account.name, record: statement?.record()))
        if let mark { world.marks.reach(mark) }
    }

    /// Checks that evidence is kept once its recording was acknowledged, and remembers it.
    ///
    /// A store signs anew at each delivery, so a device does not keep a later signature of what it keeps or has from
    /// the server already. A concurrent call may then replace what it keeps.
    func didPresent(_ statement: StoreStatement, in call: World.Call) {
        let (name, device) = (call.account.name, call.device)
        let record = statement.record()
        // Evidence in the anonymous ledger is not kept for the account that is logged in.
        let ledgers = ledgers(on: device.index).filter { isOwner($0.place, of: name, device) }
        let isKept =
            isSettled(record, for: owners(name, device.index)) || hasRemoteForgotten
            || ledgers.contains { $0.ledger.isErased || $0.ledger.covers(record) }
        guard isKept else {
            let earlier = acknowledged.filter { $0.device == device.index && $0.record.key == record.key }
            let waiting = ledgers.compactMap { $0.ledger[record.key] }
            let same = (waiting + earlier.map(\.record)).compactMap { $0.evidence?.facts } + copies(on: device.index)
            guard !same.contains(where: { $0.saysTheSame(as: record.provenFacts) }) else { return }
            return report(.evidence, "evidence of \(statement.words) was acknowledged and is not kept", device)
        }
        remember(
            record, "evidence of \(statement.words)", call, isOnDevice: true, isExempt: hasRemoteForgotten)
    }

    private func isOwner(_ place: LedgerPlace, of name: String?, _ device: SimulatedDevice) -> Bool {
        place.name == name || (name == nil && place.name.map { adopters[device.index]?.contains($0) == true } == true)
    }

    /// The accounts to which a device may have sent evidence recorded for `name`.
    func owners(_ name: String?, _ device: Int) -> Set<String> { name.map { [$0] } ?? adopters[device] ?? [] }

    private func copies(on device: Int) -> [ModelLedger] { serverLedgers(on: device).map(\.ledger) }

    /// Returns `true` if the server ledger of one of these accounts has what the evidence proves, or the server has
    /// refused it or later evidence about its subject, which replaces it on a device.
    func isSettled(_ record: ModelRecord, for names: Set<String>) -> Bool {
        guard let evidence = record.evidence else { return false }
        return names.contains { name in
            refusals.contains { refusal in
                refusal.name == name
                    && (refusal.data == evidence.data
                        || refusal.record.map { ModelLedger([$0]).covers(record) } == true)
            }
                || serverLedgers(on: nil).contains { $0.name == name && $0.ledger.has(evidence.facts) }
        }
    }

    /// Exempts the evidence that the remote has recorded, before the remote forgets it: the devices may remove it
    /// until they learn of that.
    func exemptSettledEvidence() {
        for index in acknowledged.indices where !acknowledged[index].isExempt {
            let fact = acknowledged[index]
            acknowledged[index].isExempt = isSettled(fact.record, for: owners(fact.account, fact.device))
        }
    }

    /// The server ledgers on the remote, or a device's copies of them.
    func serverLedgers(on device: Int?) -> [(name: String, incarnation: String, ledger: ModelLedger)] {
        let contents = device.map { world.devices[$0].contents } ?? world.remote.contents
        return contents.keys.filter(StoreContents.isServerLedger).compactMap { key in
            var parts = key.text.split(separator: "/").map(String.init)
            if parts.first == "device" { parts.removeFirst() }
            guard parts.count == 4, let ledger = ledger(key, on: device) else { return nil }
            return (parts[1], parts[2], ledger)
        }
    }

    /// The server ledger of an account as a device knows it, or as the remote has it.
    func serverLedger(of account: Account, on device: Int?) -> ModelLedger {
        guard let name = account.name else { return ModelLedger() }
        return serverLedgers(on: device).first { $0.name == name && $0.incarnation == account.incarnation }?.ledger
            ?? ModelLedger()
    }

    /// Checks evidence that has left a device's own ledger: its fate must be known.
    ///
    /// - Returns: `true` if nothing but evidence has left.
    func didSend(_ old: ModelLedger, _ new: ModelLedger, from place: LedgerPlace, on device: Int) -> Bool {
        let gone = old.records.filter { !new.covers($0) }
        guard place.kind == .device, gone.allSatisfy(\.isEvidence) else { return false }
        for record in gone where !mayLeave(record, place.name, device) {
            report(.evidence, "\(record.words) left the device before the server had it", world.devices[device])
        }
        return true
    }

    func mayLeave(_ record: ModelRecord, _ name: String?, _ device: Int) -> Bool {
        let names = owners(name, device)
        return hasRemoteForgotten || isSettled(record, for: names) || !erasedNames.isDisjoint(with: names)
    }

    /// Records a crash between the write of evidence and the write of its facts.
    func reachIfInterrupted(_ statement: StoreStatement, _ call: World.Call) {
        guard !call.process.isAlive, let purchase = statement.facts.first,
            ledger(of: call.account, onDevice: true, on: call.device.index)?.covers(statement.record()) == true,
            ledger(of: call.account, on: call.device.index)?[purchase.record.key] == nil
        else { return }
        world.marks.reach(.evidenceInterrupted)
    }

    /// Records that evidence moved from the anonymous ledger of a device to an account.
    func reachIfAdopted(_ old: ModelLedger, _ new: ModelLedger) {
        if old.records.contains(where: { $0.isEvidence && !new.covers($0) }) { world.marks.reach(.evidenceAdopted) }
    }

    /// Checks that after healing no evidence waits on synced devices.
    func checkOutboxes() {
        guard world.remote.server != nil else { return }
        for device in world.devices where !device.isLost {
            for (place, ledger) in ledgers(on: device.index) where place.kind == .device {
                guard isCurrent(place), let name = place.name, isVisited(name, on: device),
                    let waiting = ledger.records.first(where: \.isEvidence)
                else { continue }
                report(.evidence, "\(place.owner): \(waiting.words) still waits", device)
            }
        }
    }
}

extension ModelRecord {
    /// The evidence in the record; `nil` for any other record.
    var evidence: ModelEvidence? { isEvidence ? ModelLedger([self]).facts.evidence.first : nil }

    fileprivate var provenFacts: ModelLedger { evidence?.facts ?? ModelLedger() }
}

extension ModelLedger {
    /// Returns `true` if this ledger states the same purchases and revocations, whatever their stamps and terms.
    fileprivate func saysTheSame(as other: ModelLedger) -> Bool {
        let (mine, theirs) = (facts, other.facts)
        return theirs.purchases.allSatisfy { purchase in
            mine.purchases.contains {
                $0.transaction == purchase.transaction && $0.product == purchase.product && $0.date == purchase.date
                    && $0.storeExpiry == purchase.storeExpiry && $0.originalID == purchase.originalID
            }
        }
            && theirs.revocations.allSatisfy { revocation in
                mine.revocations.contains {
                    $0.transaction == revocation.transaction && $0.revokedAt == revocation.revokedAt
                }
            }
    }

    /// Returns `true` if this server ledger has these facts, or later statements about their subjects.
    func has(_ facts: ModelLedger) -> Bool {
        facts.records.allSatisfy { fact in
            self[fact.key].map { !$0.order.lexicographicallyPrecedes(fact.order) } ?? false
        }
    }
}
