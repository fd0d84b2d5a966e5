extension Fact {
    /// The name of the kind of fact in output.
    package var kindName: String {
        switch self {
        case .purchase: "purchase"
        case .recording: "recording"
        case .revocation(let revocation): revocation.revokedAt == nil ? "reinstatement" : "revocation"
        case .renewalState: "renewal"
        case .assertion: "assertion"
        case .acceptance: "acceptance"
        case .reset: "reset"
        case .claim: "claim"
        case .contradiction: "contradiction"
        case .flag(let flag): flag.isSet ? "flag set" : "flag cleared"
        case .spend: "spend"
        case .pending(let request): request.isWithdrawn ? "withdrawn" : "pending"
        case .policy: "policy"
        case .evidence: "evidence"
        case .unreadable: "unreadable"
        }
    }

    /// The fact as a JSON object: its kind and its content.
    package var json: JSON { .object([("kind", .string(kindName))] + content) }

    /// The members of the JSON object after the kind.
    package var content: [(String, JSON)] {
        switch self {
        case .purchase(let purchase): purchase.content
        case .recording(let recording): recording.content
        case .revocation(let revocation): revocation.content
        case .renewalState(let state): state.content
        case .assertion(let assertion): assertion.content
        case .flag(let flag): flag.content
        case .spend(let spend): spend.content
        case .acceptance(let acceptance):
            acceptance.transaction.members + [
                ("decision", .string(acceptance.decision.words)), ("date", .string("\(acceptance.date)")),
            ]
        case .contradiction(let note):
            note.kept.transaction.members + [
                ("kept", Fact.purchase(note.kept).json), ("dropped", Fact.purchase(note.dropped).json),
                ("noticedAt", .string("\(note.noticedAt)")),
            ]
        case .pending(let request):
            [("productID", .string(request.product.rawValue)), ("requestedAt", .string("\(request.requestedAt)"))]
        case .claim(let claim): [("account", .string(claim.account)), ("date", .string("\(claim.date)"))]
        case .reset(let reset):
            [("environment", .string(reset.environment.rawValue)), ("date", .string("\(reset.date)"))]
        case .policy(let statement): [("policy", .string(statement.policy.rawValue))]
        case .evidence(let evidence):
            [("evidence", .string(evidence.kind)), ("bytes", .number(Int64(evidence.data.count)))]
        case .unreadable(let record, let reason):
            [
                ("reason", .string(reason)), ("key", .string(record.key.hexadecimal)),
                ("payload", .string(record.payload.hexadecimal)),
            ]
        }
    }
}

extension Purchase {
    fileprivate var content: [(String, JSON)] {
        transaction.members + [
            ("productID", .string(product.rawValue)), ("purchaseDate", .string("\(date)")),
            ("quantity", .number(quantity)), ("originalTransactionID", JSON(originalID?.rawValue)),
            ("expiresDate", JSON(storeExpiry?.description)), ("terms", JSON(terms?.kind.name)),
            ("signedDate", JSON(stamp.signedDate?.description)),
        ] + (lineItemID.map { [("lineItemID", .string($0.rawValue))] } ?? [])
    }
}

extension Recording {
    fileprivate var content: [(String, JSON)] {
        transaction.members + [
            ("replica", .string("\(replica)")), ("recordedAt", .string("\(recordedAt)")),
            ("knownEnd", JSON(knownEnd?.description)),
        ]
    }
}

extension Revocation {
    fileprivate var content: [(String, JSON)] {
        transaction.members + [
            ("revokedAt", JSON(revokedAt?.description)), ("reason", .string(reason)),
            ("signedDate", JSON(stamp.signedDate?.description)),
        ] + (upgradedAt.map { [("upgradedAt", .string("\($0)"))] } ?? [])
    }
}

extension RenewalState {
    fileprivate var content: [(String, JSON)] {
        line.members + [
            ("willRenew", .bool(willRenew)), ("graceEnd", JSON(graceEnd?.description)),
            ("billingRetry", .bool(isInBillingRetry)), ("pendingProductID", JSON(pendingProduct?.rawValue)),
            ("signedDate", JSON(stamp.signedDate?.description)),
        ]
    }
}

extension Assertion {
    fileprivate var content: [(String, JSON)] {
        [
            ("group", .string(reference.group.rawValue)), ("source", .string(reference.source.rawValue)),
            ("environment", .string(reference.environment.rawValue)), ("until", .string("\(reference.until)")),
            ("assertedAt", .string("\(assertedAt)")), ("replica", .string("\(replica)")),
        ]
    }
}

extension Flag {
    fileprivate var content: [(String, JSON)] {
        [
            ("productID", .string(product.rawValue)), ("environment", .string(environment.rawValue)),
            ("replica", .string("\(replica)")), ("date", .string("\(date)")),
        ]
    }
}

extension Spend {
    fileprivate var content: [(String, JSON)] {
        [
            ("spendID", .string(id.rawValue)), ("productID", .string(product.rawValue)), ("units", .number(units)),
            ("environment", .string(environment.rawValue)), ("replica", .string("\(replica)")),
            ("date", .string("\(date)")),
        ]
    }
}

extension Acceptance.Decision {
    /// The decision without the name of another account, which the reader must not learn.
    fileprivate var words: String {
        switch self {
        case .countsAsOf(let date): "counts as of \(date)"
        case .refused(let reason): "refused (\(reason.singleLine))"
        case .transferred: "transferred to another account"
        case .accepted: "accepted"
        }
    }
}
