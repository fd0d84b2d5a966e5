// Evidence that was verified on this device: it is kept, and its facts are recorded.
extension RecordingPlan {
    mutating func add(_ statement: VerifiedStatement) throws(RecordingError) {
        guard statement.evidence.data.count + statement.evidence.facts.byteCount <= VerifiedStatement.maximumByteCount
        else {
            throw RecordingError(
                .invalid, "evidence must have at most \(VerifiedStatement.maximumByteCount) bytes with its facts")
        }
        for case .purchase(let purchase) in statement.facts {
            try Self.check(purchase.transaction)
            do { try purchase.product.validate() } catch { throw RecordingError(.invalid, "product: \(error)") }
            guard Purchase.quantityRange.contains(purchase.quantity) else {
                throw RecordingError(.invalid, "quantity must be 1 to 10,000, not \(purchase.quantity)")
            }
        }
        verified.append(statement)
    }

    /// Returns `true` if the evidence may have to write to `target`.
    func hasEvidence(for target: DeviceLedgers.Target) -> Bool {
        switch target {
        case .device: return !verified.isEmpty
        case .account:
            let local = unitsOfDevice
            return verified.contains { $0.facts.contains { !$0.isAbout(local) } }
        }
    }

    /// The verified purchases whose units stay on this device. Their facts go to the device ledger, all others to the
    /// account's.
    private var unitsOfDevice: Set<TransactionReference> {
        guard catalog.policy.rules.consumables == .deviceLocal else { return [] }
        let units = verified.flatMap(\.facts).compactMap(\.purchase).filter { purchase in
            if case .consumable? = catalog.terms(of: purchase.product)?.kind { true } else { false }
        }
        return Set(units.map(\.transaction))
    }

    /// The facts that `target` lacks. The evidence itself goes to the device ledger.
    func evidenceFacts(
        for target: DeviceLedgers.Target, in ledgers: DeviceLedgers, replica: ReplicaID, time: inout LogicalTime,
        now: Timestamp
    ) -> [Fact] {
        guard !verified.isEmpty else { return [] }
        let ledger = ledgers[target]
        let held = ledger.factsByKey
        var facts: [Fact] = []
        if target == .device, !isCompletion { facts = evidenceToKeep(in: ledgers) }
        let local = unitsOfDevice
        for fact in verified.flatMap(\.facts) where fact.isAbout(local) == (target == .device) {
            if held[fact.record.key]?.covers(fact) ?? false { continue }
            time = time.next(at: now)
            facts += [fact.completed(by: catalog, known: ledgers.facts, at: time)]
            guard case .purchase(let purchase) = fact,
                !(ledgers.facts.recordings[purchase.transaction] ?? []).contains(where: { $0.replica == replica })
            else { continue }
            facts.append(
                .recording(
                    Recording(
                        transaction: purchase.transaction, replica: replica, recordedAt: now, knownEnd: nil,
                        logicalTime: time)))
        }
        return facts
    }

    /// The largest size of the evidence that waits for a server, in bytes. Recording must not fail one day because of
    /// evidence that is never sent, or that the server never answers.
    private var waitingByteCount: Int { LedgerLimits.standard.byteCount / (hasReceiver ? 2 : 4) }

    /// The evidence to keep until the server has answered it.
    private func evidenceToKeep(in ledgers: DeviceLedgers) -> [Fact] {
        let server = ledgers.server.factsByKey
        let waiting = ledgers.device.waitingEvidence
        var room = waitingByteCount - waiting.reduce(0) { $0 + $1.data.count }
        return verified.compactMap { statement in
            guard isRestore || !statement.isKnown(to: server, ledgers.device),
                room >= statement.evidence.data.count
            else { return nil }
            room -= statement.evidence.data.count
            return .evidence(statement.evidence)
        }
    }
}

extension Fact {
    /// Returns `true` for a purchase, or the revocation of a purchase, that `transactions` contains.
    fileprivate func isAbout(_ transactions: Set<TransactionReference>) -> Bool {
        switch self {
        case .purchase(let purchase): transactions.contains(purchase.transaction)
        case .revocation(let revocation): transactions.contains(revocation.transaction)
        default: false
        }
    }
}

extension Fact {
    /// The fact with the terms of its product and the logical time of its recording.
    fileprivate func completed(by catalog: Catalog, known facts: Facts, at time: LogicalTime) -> Fact {
        let fact = stamped(Stamp(signedDate: stamp?.signedDate, logicalTime: time))
        guard case .purchase(var purchase) = fact else { return fact }
        purchase.terms = facts[purchase.transaction]?.terms ?? catalog.terms(of: purchase.product)
        return .purchase(purchase)
    }
}
