import Entitlements

extension Fact {
    /// The fact in answers: its kind and its content.
    var json: JSON {
        switch self {
        case .purchase(let purchase):
            .object(
                [("kind", .string("purchase"))] + purchase.transaction.members + [
                    ("productID", .string(purchase.product.rawValue)), ("purchaseDate", .string("\(purchase.date)")),
                    ("quantity", .number(purchase.quantity)),
                    ("originalTransactionID", JSON(purchase.originalID?.rawValue)),
                    ("expiresDate", JSON(purchase.storeExpiry?.description)),
                    ("signedDate", JSON(purchase.stamp.signedDate?.description)),
                ])
        case .revocation(let revocation):
            .object(
                [("kind", .string(revocation.revokedAt == nil ? "reinstatement" : "revocation"))]
                    + revocation.transaction.members + [
                        ("revokedAt", JSON(revocation.revokedAt?.description)), ("reason", .string(revocation.reason)),
                        ("signedDate", JSON(revocation.stamp.signedDate?.description)),
                    ])
        case .renewalState(let state):
            .object(
                [("kind", .string("renewal"))] + state.line.members + [
                    ("willRenew", .bool(state.willRenew)), ("graceEnd", JSON(state.graceEnd?.description)),
                    ("billingRetry", .bool(state.isInBillingRetry)),
                    ("pendingProductID", JSON(state.pendingProduct?.rawValue)),
                    ("signedDate", JSON(state.stamp.signedDate?.description)),
                ])
        case .recording(let recording):
            .object(
                [("kind", .string("recording"))] + recording.transaction.members + [
                    ("replica", .string("\(recording.replica)")), ("recordedAt", .string("\(recording.recordedAt)")),
                ])
        case .acceptance(let acceptance):
            .object(
                [("kind", .string("decision"))] + acceptance.transaction.members + [
                    ("decision", .string(acceptance.decision.words)), ("date", .string("\(acceptance.date)")),
                ])
        default: otherJSON
        }
    }

    private var otherJSON: JSON {
        switch self {
        case .assertion(let assertion):
            .object([
                ("kind", .string("assertion")), ("group", .string(assertion.reference.group.rawValue)),
                ("source", .string(assertion.reference.source.rawValue)),
                ("environment", .string(assertion.reference.environment.rawValue)),
                ("until", .string("\(assertion.reference.until)")), ("assertedAt", .string("\(assertion.assertedAt)")),
            ])
        case .flag(let flag):
            .object([
                ("kind", .string(flag.isSet ? "flag set" : "flag cleared")),
                ("productID", .string(flag.product.rawValue)), ("environment", .string(flag.environment.rawValue)),
                ("date", .string("\(flag.date)")), ("replica", .string("\(flag.replica)")),
            ])
        case .spend(let spend):
            .object([
                ("kind", .string("spend")), ("spendID", .string(spend.id.rawValue)),
                ("productID", .string(spend.product.rawValue)), ("units", .number(spend.units)),
                ("environment", .string(spend.environment.rawValue)), ("date", .string("\(spend.date)")),
            ])
        case .claim(let claim): .object([("kind", .string("claim")), ("date", .string("\(claim.date)"))])
        case .reset(let reset):
            .object([
                ("kind", .string("reset")), ("environment", .string(reset.environment.rawValue)),
                ("date", .string("\(reset.date)")),
            ])
        case .contradiction(let note):
            .object([
                ("kind", .string("contradiction")), ("kept", Fact.purchase(note.kept).json),
                ("dropped", Fact.purchase(note.dropped).json), ("noticedAt", .string("\(note.noticedAt)")),
            ])
        case .pending(let request):
            .object([
                ("kind", .string("pending")), ("productID", .string(request.product.rawValue)),
                ("requestedAt", .string("\(request.requestedAt)")),
            ])
        case .policy(let statement):
            .object([("kind", .string("policy")), ("policy", .string(statement.policy.rawValue))])
        default:
            .object([
                ("kind", .string("record")), ("key", .string(record.key.hexadecimal)),
                ("payload", .string(record.payload.hexadecimal)),
            ])
        }
    }
}

extension Acceptance.Decision {
    fileprivate var words: String {
        switch self {
        case .countsAsOf(let date): "counts as of \(date)"
        case .refused(let reason): "refused: \(reason)"
        case .transferred: "transferred to another account"
        case .accepted: "accepted"
        }
    }
}

extension [UInt8] {
    fileprivate var hexadecimal: String { Hexadecimal.text(self) }
}
