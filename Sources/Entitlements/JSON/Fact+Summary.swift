extension Fact {
    /// The fact on one line.
    package var summary: String {
        switch self {
        case .purchase(let purchase):
            "\(purchase.transaction.id)  \(purchase.product)"
                + (purchase.quantity == 1 ? "" : " × \(purchase.quantity)") + "  \(purchase.date)"
        case .recording(let recording):
            "\(recording.transaction.id)  by \(recording.replica.short) at \(recording.recordedAt)"
                + (recording.knownEnd.map { ", known end \($0)" } ?? "")
        case .revocation(let revocation):
            "\(revocation.transaction.id)" + revocation.effect
                + (revocation.reason.isEmpty ? "" : " (\(revocation.reason))")
        case .flag(let flag): "\(flag.product)  by \(flag.replica.short) at \(flag.date)"
        case .spend(let spend): "\(spend.product)  \(spend.units) by \(spend.replica.short) at \(spend.date)"
        case .renewalState(let state): "\(state.line.id)  \(state.words)"
        case .assertion(let assertion):
            "\(assertion.reference.group)  until \(assertion.reference.until), stated by "
                + "\(assertion.reference.source) on \(assertion.assertedAt)"
        case .acceptance(let acceptance): "\(acceptance.transaction.id)  \(acceptance.words) on \(acceptance.date)"
        case .reset(let reset): "\(reset.environment)  at \(reset.date)"
        case .claim(let claim): "\(claim.account.singleLine)  at \(claim.date)"
        case .contradiction(let note):
            "\(note.kept.transaction.id)  kept \(note.kept.difference(from: note.dropped)), "
                + "dropped \(note.dropped.difference(from: note.kept)), noticed at \(note.noticedAt)"
        case .pending(let request): "\(request.product)  at \(request.requestedAt)"
        case .policy(let statement): statement.policy.rawValue
        case .evidence(let evidence): "\(evidence.kind)  \(evidence.data.count) bytes, waiting for the server's answer"
        case .unreadable(let record, let reason): "\(record.key.count) bytes of key: \(reason)"
        }
    }

    /// The JSON object of the fact, with the ledger that holds it.
    package func json(ledger: String) -> JSON {
        .object([("kind", .string(kindName)), ("ledger", .string(ledger))] + content)
    }
}

extension ReplicaID {
    /// The first 8 characters, which distinguish replicas in a listing.
    package var short: String { String("\(self)".prefix(8)) }
}

extension Revocation {
    fileprivate var effect: String {
        if let revokedAt { return "  at \(revokedAt)" }
        return upgradedAt.map { "  upgraded by \($0)" } ?? "  counts again"
    }
}

extension RenewalState {
    fileprivate var words: String {
        var words = [willRenew ? "renews" : "does not renew"]
        if let pendingProduct { words.append("as \(pendingProduct)") }
        if isInBillingRetry { words.append("payment failed") }
        if let graceEnd { words.append("grace until \(graceEnd)") }
        return words.joined(separator: ", ")
    }
}

extension Acceptance {
    fileprivate var words: String {
        switch decision {
        case .accepted: "accepted"
        case .countsAsOf(let date): "counts as of \(date)"
        case .refused(let reason): "refused (\(reason.singleLine))"
        case .transferred(let account): "transferred to \"\(account.singleLine)\""
        }
    }
}

extension Purchase {
    /// The fields in which this statement about a purchase differs from `other`.
    func difference(from other: Purchase) -> String {
        var parts: [String] = []
        if product != other.product { parts.append("\(product)") }
        if date != other.date { parts.append("\(date)") }
        if quantity != other.quantity { parts.append("quantity \(quantity)") }
        if storeExpiry != other.storeExpiry { parts.append("end \(storeExpiry.map { "\($0)" } ?? "not given")") }
        if originalID != other.originalID { parts.append("renewal of \(originalID.map { "\($0)" } ?? "nothing")") }
        if isIntroductory != other.isIntroductory { parts.append(isIntroductory ? "introductory" : "full price") }
        if lineItemID != other.lineItemID { parts.append("line item \(lineItemID.map { "\($0)" } ?? "not given")") }
        if terms != other.terms { parts.append("terms \(terms.map(\.summary) ?? "unknown")") }
        return parts.isEmpty ? "the same" : parts.joined(separator: ", ")
    }
}

extension Terms {
    fileprivate var summary: String {
        let extra = bonus == .zero ? "" : " + \(bonus)"
        return switch kind {
        case .consumable(let units): "\(units) units"
        case .nonConsumable: "for good"
        case .nonRenewing(let group, let duration): "\(duration)\(extra) in \(group)"
        case .autoRenewable(let group, let level, let duration, _): "\(duration)\(extra) in \(group), level \(level)"
        }
    }
}
