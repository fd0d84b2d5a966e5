import EntitlementSync
import Entitlements
import SyncCore

extension World {
    /// Records evidence that the device has verified.
    func present(
        _ statement: StoreStatement, isForged: Bool = false, _ call: Call
    ) async throws(EntitlementError) -> String {
        guard isSigned(statement) else { return "not signed yet" }
        auditor.didSeeSignature(on: call.device)
        let receipt: RecordingReceipt
        do throws(EntitlementError) {
            receipt = try await call.store.record(.verified(statement.verified(isForged: isForged)))
        } catch {
            auditor.reachIfInterrupted(statement, call)
            throw error
        }
        guard call.process.isAlive else {
            auditor.reachIfInterrupted(statement, call)
            return ""
        }
        auditor.didSeeSignature(on: call.device)
        auditor.didAcknowledge(receipt.newFacts, in: call)
        if !isForged { auditor.didPresent(statement, in: call) }
        return receipt.newFacts.isEmpty ? "known" : "recorded"
    }

    /// Restores, and presents evidence that the device has verified.
    func restore(presenting statement: StoreStatement, _ call: Call) async throws(EntitlementError) -> String {
        guard isSigned(statement) else { return "not signed yet" }
        auditor.didSeeSignature(on: call.device)
        let report = try await syncing(call) { () async throws(EntitlementError) in
            try await call.store.restore(presenting: [.verified(statement.verified())])
        }
        guard call.process.isAlive else { return "" }
        auditor.didSeeSignature(on: call.device)
        auditor.didPresent(statement, in: call)
        auditor.didSync(report.sync, in: call)
        marks.reach(.evidenceRestored)
        return "restored \(report.purchases.count)"
    }

    /// Returns `true` once the date of the signature has come. The shrinker may move steps before it.
    private func isSigned(_ statement: StoreStatement) -> Bool { trueTime - Self.epoch >= statement.signedAt }

    /// Delivers a statement that the store signed to the server.
    func notify(_ statement: StoreStatement) async {
        guard let server = remote.server, isSigned(statement) else { return }
        server.sign(statement)
        do throws(BackendError) { try await server.notify(statement) } catch {
            report(.execution, "a notification failed: \(error)", lane: remote.lane)
        }
    }

    /// Lets a client of an account state something false, past the app and its checks.
    func perform(_ claim: ClientClaim, of name: String) async {
        guard let server = remote.server, let account = server.account(name) else { return }
        auditor.didClaim(claim)
        do throws(BackendError) {
            if case .evidence(let statement) = claim {
                _ = try await server.submit([statement.data(isForged: true)], account: account)
            } else {
                try await join(claim.fact(at: Timestamp(milliseconds: trueTime)), to: try LedgerKeys(account).ledger)
            }
        } catch {
            report(.execution, "a claim failed: \(error)", lane: remote.lane)
        }
    }

    private func join(_ fact: Fact?, to key: EntryKey) async throws(BackendError) {
        guard let fact else { return }
        while true {
            do throws(BackendError) {
                guard case .found(let entry) = try await remote.contents.read(key, unless: nil).outcome else { return }
                // A malicious client may have made the ledger unreadable.
                guard let document = try? LedgerDocument(decoding: entry.value), !document.ledger.isErased else {
                    return
                }
                let ledger = document.ledger.joined(with: Ledger([fact.record]))
                let bytes = LedgerDocument(ledger: ledger, localSection: document.localSection).encoded()
                let outcome = try await remote.contents.write(bytes, to: key, if: .matches(entry.version)).outcome
                if case .written = outcome { return }
            } catch {
                try await recover(from: error)
            }
        }
    }

    /// Waits a second before a server repeats a request to its cluster. Throws errors that repeating does not solve.
    func recover(from error: BackendError) async throws(BackendError) {
        guard cluster != nil, error.disposition != .permanent else { throw error }
        // The tasks of the run's servers are never cancelled, so they sleep to the end.
        do { try await scheduler.sleep(until: scheduler.now + 1_000_000) } catch {}
    }
}

extension ClientClaim {
    /// The fact that the client writes; `nil` for evidence.
    fileprivate func fact(at now: Timestamp) -> Fact? {
        let time = LogicalTime.zero.next(at: now)
        let last = Stamp(signedDate: .latest, logicalTime: time)
        guard let replica = ReplicaID(bytes: [UInt8](repeating: 0xEE, count: 16)) else { return nil }
        func reference(_ id: String) -> TransactionReference {
            TransactionReference(store: .appStore, id: TransactionID(id))
        }
        func later(_ days: Int64) -> Timestamp { Timestamp(milliseconds: now.milliseconds + days * World.day) }
        switch self {
        case .purchase(let id, let product):
            let terms = Catalog.simulated.terms(of: ProductID(product))
            return .purchase(
                Purchase(
                    transaction: reference(id), product: ProductID(product), terms: terms, date: now, stamp: last))
        case .flag(let product):
            return .flag(
                Flag(
                    product: ProductID(product), isSet: true, date: now, replica: replica, logicalTime: time))
        case .expiry(let group):
            let claim = Assertion.Reference(group: GroupID(group), source: "claimed", until: later(400))
            return .assertion(
                Assertion(claim, assertedAt: now, recordedAt: now, replica: replica, logicalTime: time))
        case .reversal(let id):
            return .revocation(Revocation(transaction: reference(id), revokedAt: nil, stamp: last))
        case .refund(let id):
            return .revocation(
                Revocation(
                    transaction: reference(id), revokedAt: now, stamp: Stamp(signedDate: now, logicalTime: time)))
        case .grace(let id):
            return .renewalState(
                RenewalState(line: reference(id), willRenew: true, graceEnd: later(300), stamp: last))
        case .evidence: return nil
        }
    }
}

extension StoreStatement {
    /// The statement in words, for the trace.
    var words: String {
        let state = revokedAt == nil ? "" : ", refunded"
        let line = original.map { " of \($0)" } ?? ""
        return "\(product) as \(transaction)\(line)\(state), signed \(Timestamp(milliseconds: World.epoch + signedAt))"
    }
}
