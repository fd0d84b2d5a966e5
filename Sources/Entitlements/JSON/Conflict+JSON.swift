extension Conflict {
    /// The name of the kind of conflict in output.
    package var kindName: String {
        switch self {
        case .contradiction: "contradiction"
        case .redated: "redated"
        case .transferred: "transferred"
        case .refused: "refused"
        case .overridden: "overridden"
        case .unverified: "unverified"
        case .overspent: "overspent"
        }
    }

    /// The conflict on one line.
    package var summary: String {
        switch self {
        case .contradiction(let note): Fact.contradiction(note).summary
        case .redated(let purchase, let stated):
            "\(purchase.transaction.id)  counts as of \(purchase.date), not \(stated)"
        case .transferred(let purchase, let account):
            "\(purchase.transaction.id)  belongs to \"\(account.singleLine)\" now"
        case .refused(let purchase, let reason): "\(purchase.transaction.id)  \(reason.singleLine)"
        case .overridden(let fact, let replacement):
            "\(fact.kindName) \(fact.summary)  the server states: \(replacement.kindName) \(replacement.summary)"
        case .unverified(let fact): "\(fact.kindName) \(fact.summary)  the server has not verified it"
        case .overspent(let spend, let writtenOff):
            "\(spend.product)  \(writtenOff) \(writtenOff == 1 ? "unit" : "units") written off, "
                + "spent by \(spend.replica.short) at \(spend.date)"
        }
    }

    /// The conflict as a JSON object.
    package var json: JSON {
        .object([("kind", .string(kindName)), ("conflict", .string(summary))] + details)
    }

    private var details: [(String, JSON)] {
        switch self {
        case .contradiction(let note): [("transactionID", .string(note.kept.transaction.id.rawValue))]
        case .redated(let purchase, _), .transferred(let purchase, _), .refused(let purchase, _):
            [("transactionID", .string(purchase.transaction.id.rawValue))]
        case .overridden(let fact, _), .unverified(let fact):
            fact.transaction.map { [("transactionID", .string($0.id.rawValue))] } ?? []
        case .overspent(let spend, let writtenOff):
            [("spendID", .string(spend.id.rawValue)), ("writtenOff", .number(writtenOff))]
        }
    }
}
