import Entitlements

// Evidence that was verified on this device: it is kept, and its facts are recorded.
extension RecordingPlan {
    mutating func add(_ statement: VerifiedStatement) throws(EntitlementError) {
        guard statement.evidence.data.count + statement.evidence.facts.byteCount <= VerifiedStatement.maximumByteCount
        else {
            throw EntitlementError(
                .invalid, "evidence must have at most \(VerifiedStatement.maximumByteCount) bytes with its facts")
        }
        verified.append(statement)
    }

    /// Returns the ledger for a fact of verified evidence. Units that stay on this device go to the device ledger.
    private func target(of fact: Fact) -> LocalLedgers.Target {
        let transaction: TransactionReference
        switch fact {
        case .purchase(let purchase): transaction = purchase.transaction
        case .revocation(let revocation): transaction = revocation.transaction
        default: return .account
        }
        let products = verified.lazy.flatMap(\.facts).compactMap { fact -> ProductID? in
            guard case .purchase(let purchase) = fact, purchase.transaction == transaction else { return nil }
            return purchase.product
        }
        guard let product = products.first, case .consumable? = catalog.terms(of: product)?.kind else {
            return .account
        }
        return catalog.policy.rules.consumables == .deviceLocal ? .device : .account
    }

    /// Returns `true` if the evidence may have to write to `target`.
    func hasEvidence(for target: LocalLedgers.Target) -> Bool {
        switch target {
        case .device: !verified.isEmpty
        case .account: verified.contains { $0.facts.contains { self.target(of: $0) == .account } }
        }
    }

    /// The facts that `target` lacks. The evidence itself goes to the device ledger.
    func evidenceFacts(
        for target: LocalLedgers.Target, in state: LocalLedgers.State, replica: ReplicaID, time: inout LogicalTime,
        now: Timestamp
    ) -> [Fact] {
        guard !verified.isEmpty else { return [] }
        let ledger = state[target].ledger
        let held = Dictionary(uniqueKeysWithValues: ledger.records.map { ($0.key, Fact($0)) })
        var facts: [Fact] = []
        for statement in verified {
            if target == .device, !isCompletion,
                isRestore || !statement.isKnown(to: state.decisions.ledger, ledger)
            {
                facts.append(.evidence(statement.evidence))
            }
            for fact in statement.facts where self.target(of: fact) == target {
                if let known = held[fact.record.key], known.saysTheSame(fact) { continue }
                time = time.next(at: now)
                facts += [fact.completed(by: catalog, known: state.facts, at: time)]
                guard case .purchase(let purchase) = fact,
                    !(state.facts.recordings[purchase.transaction] ?? []).contains(where: { $0.replica == replica })
                else { continue }
                facts.append(
                    .recording(
                        Recording(
                            transaction: purchase.transaction, replica: replica, recordedAt: now, knownEnd: nil,
                            logicalTime: time)))
            }
        }
        return facts
    }
}

extension Fact {
    /// The fact with the terms of its product and the logical time of its recording.
    fileprivate func completed(by catalog: Catalog, known facts: Facts, at time: LogicalTime) -> Fact {
        switch self {
        case .purchase(var purchase):
            purchase.terms = facts[purchase.transaction]?.terms ?? catalog.terms(of: purchase.product)
            purchase.stamp.logicalTime = time
            return .purchase(purchase)
        case .revocation(var revocation):
            revocation.stamp.logicalTime = time
            return .revocation(revocation)
        case .renewalState(var state):
            state.stamp.logicalTime = time
            return .renewalState(state)
        default: return self
        }
    }
}
