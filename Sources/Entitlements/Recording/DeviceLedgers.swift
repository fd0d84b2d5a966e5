/// The ledgers of one account on a device, and their replay: all that recording depends on.
package struct DeviceLedgers: Sendable {
    /// The ledger to write to.
    package enum Target: Sendable {
        /// The ledger that is synced.
        case account
        /// The ledger that stays on this device.
        case device
    }

    let account: Ledger
    let device: Ledger
    /// The server ledger, as far as this device has received it.
    let server: Ledger
    let replay: Replay

    var facts: Facts { replay.facts }

    package init(account: Ledger, device: Ledger, server: Ledger, replay: Replay) {
        (self.account, self.device, self.server, self.replay) = (account, device, server, replay)
    }

    subscript(target: Target) -> Ledger {
        switch target {
        case .account: account
        case .device: device
        }
    }
}

extension Ledger {
    /// Returns the ledger with `facts` added; `nil` if it contains all of them already.
    ///
    /// - Throws: ``RecordingError`` of kind `ledgerFull` if the result would exceed `LedgerLimits.standard`.
    package func adding(_ facts: [Fact]) throws(RecordingError) -> Ledger? {
        let join = Ledger.join(self, Ledger(facts.map(\.record)))
        guard join.leftLacks else { return nil }
        let limits = LedgerLimits.standard
        guard join.ledger.count <= limits.recordCount, join.ledger.byteCount <= limits.byteCount else {
            throw RecordingError(
                .ledgerFull,
                "the ledger is full: at most \(limits.recordCount) records and \(limits.byteCount) bytes")
        }
        return join.ledger
    }

    /// The evidence in this device ledger that waits for an answer of the account's server.
    package var waitingEvidence: [StoredEvidence] {
        records.compactMap { record in
            if case .evidence(let evidence) = Fact(record) { evidence } else { nil }
        }
    }
}
