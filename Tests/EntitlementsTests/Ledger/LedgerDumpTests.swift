import Checksums
import Entitlements
import EntitlementsTestSupport
import Foundation
import Testing

/// Writes random records with their content for `.ci/check-ledger-format`, which reads the records with another
/// implementation of protobuf.
@Suite("A dump of records and their content")
struct LedgerDumpTests {
    private static let path = ProcessInfo.processInfo.environment["LEDGER_DUMP"]

    @Test(
        "10,000 records of every kind, and a document of all of them", .enabled(if: path != nil, "LEDGER_DUMP is unset")
    )
    func dump() throws {
        var random = SplitMix64(seed: .random(in: 0...UInt64.max))
        var kinds: Set<String> = []
        var lines: [String] = []
        var records: [Record] = []
        for _ in 0..<10_000 {
            let fact = Fact.random(using: &random)
            let record = fact.record
            let content = try #require(Content(fact), "\(fact)")
            kinds.insert(content.kind)
            records.append(record)
            lines.append(
                try line([
                    "kind": content.kind, "key": base64(record.key), "order": base64(record.order),
                    "payload": base64(record.payload), "key_content": [content.kind: content.key],
                    "payload_content": content.payload, "signed": content.signed, "time": content.time,
                ]))
        }
        #expect(kinds.count == 15, "\(kinds.sorted())")
        let ledger = Ledger(records)
        lines.append(
            try line([
                "document": base64(LedgerDocument(ledger: ledger, localSection: [7]).encoded()),
                "records": ledger.records.map { [base64($0.key), base64($0.order), base64($0.payload)] },
            ]))
        let text = lines.joined(separator: "\n") + "\n"
        try Data(text.utf8).write(to: URL(filePath: try #require(Self.path)))
    }

    private func line(_ object: [String: Any?]) throws -> String {
        let data = try JSONSerialization.data(withJSONObject: object.compactMapValues(\.self))
        return String(decoding: data, as: UTF8.self)
    }
}

private func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

/// The content of a record in the JSON that protobuf defines for the messages of `Docs/ledger.proto`.
private struct Content {
    /// The field of the message `Key`.
    let kind: String
    /// The value of that field.
    let key: Any
    let payload: [String: Any]
    /// The date in the order, in milliseconds.
    var signed: Int64?
    /// The logical time in the order.
    var time: UInt64?

    private init(_ kind: String, key: Any, _ payload: [String: Any?], signed: Timestamp? = nil, _ time: LogicalTime?) {
        self.kind = kind
        self.key = key
        self.payload = payload.compactMapValues(\.self)
        self.signed = signed?.milliseconds
        self.time = time?.rawValue
    }

    private init(_ kind: String, key: Any, _ payload: [String: Any?], _ stamp: Stamp) {
        self.init(kind, key: key, payload, signed: stamp.signedDate, stamp.logicalTime)
    }

    /// Returns `nil` if the fact is unreadable.
    init?(_ fact: Fact) {
        switch fact {
        case .purchase(let fact): self.init("purchase", key: fact.transaction.content, fact.content, fact.stamp)
        case .recording(let fact):
            self.init(
                "recording",
                key: ["transaction": fact.transaction.content, "replica": base64(fact.replica.bytes)],
                ["recorded_at": fact.recordedAt.milliseconds, "known_end": fact.knownEnd?.milliseconds],
                fact.logicalTime)
        case .revocation(let fact):
            self.init(
                "revocation", key: fact.transaction.content,
                [
                    "revoked_at": fact.revokedAt?.milliseconds, "reason": fact.reason,
                    "reinstated": fact.revokedAt == nil, "upgraded_at": fact.upgradedAt?.milliseconds,
                ], fact.stamp)
        case .flag(let fact):
            self.init(
                fact.isSet ? "flag_set" : "flag_cleared",
                key: ["product": fact.product.rawValue, "environment": fact.environment.rawValue],
                ["replica": base64(fact.replica.bytes), "date": fact.date.milliseconds], fact.logicalTime)
        case .spend(let fact):
            self.init(
                "spend", key: fact.id.rawValue,
                [
                    "product": fact.product.rawValue, "units": fact.units, "replica": base64(fact.replica.bytes),
                    "date": fact.date.milliseconds, "environment": fact.environment.rawValue,
                ], fact.logicalTime)
        case .pending(let fact):
            self.init(
                "pending", key: fact.product.rawValue,
                ["requested_at": fact.requestedAt.milliseconds, "withdrawn": fact.isWithdrawn], fact.logicalTime)
        default: self.init(statement: fact)
        }
    }

    private init?(statement fact: Fact) {
        switch fact {
        case .renewalState(let fact):
            self.init(
                "renewal_state", key: fact.line.content,
                [
                    "will_renew": fact.willRenew, "grace_end": fact.graceEnd?.milliseconds,
                    "billing_retry": fact.isInBillingRetry, "pending_product": fact.pendingProduct?.rawValue,
                ], fact.stamp)
        case .assertion(let fact):
            let named = fact.reference
            self.init(
                "assertion",
                key: [
                    "group": named.group.rawValue, "source": named.source.rawValue,
                    "until": named.until.milliseconds, "environment": named.environment.rawValue,
                ] as [String: Any],
                [
                    "replica": base64(fact.replica.bytes), "recorded_at": fact.recordedAt.milliseconds,
                    "logical_time": fact.logicalTime.rawValue,
                ], signed: fact.assertedAt, nil)
        case .acceptance(let fact):
            var payload: [String: Any?] = ["date": fact.date.milliseconds]
            switch fact.decision {
            case .accepted: break
            case .countsAsOf(let date): payload["counts_as_of"] = date.milliseconds
            case .refused(let reason): payload["refused"] = reason
            case .transferred(let account): payload["transferred_to"] = account
            }
            self.init("acceptance", key: fact.transaction.content, payload, fact.logicalTime)
        case .claim(let fact):
            self.init(
                "claim", key: [String: Any](),
                ["account": fact.account, "incarnation": fact.incarnation, "date": fact.date.milliseconds],
                fact.logicalTime)
        case .contradiction(let fact):
            let (kept, dropped) = (Fact.purchase(fact.kept).record, Fact.purchase(fact.dropped).record)
            let digest = withUnsafeBytes(of: XXHash64.digest(of: dropped.payload).bigEndian) { [UInt8]($0) }
            self.init(
                "contradiction",
                key: ["transaction": fact.kept.transaction.content, "dropped": base64(digest)],
                [
                    "kept": ["purchase": fact.kept.content.compactMapValues(\.self), "order": base64(kept.order)],
                    "dropped": [
                        "purchase": fact.dropped.content.compactMapValues(\.self), "order": base64(dropped.order),
                    ],
                    "noticed_at": fact.noticedAt.milliseconds,
                ], fact.logicalTime)
        case .policy(let fact):
            self.init("policy", key: [String: Any](), ["policy": fact.policy.rawValue], fact.logicalTime)
        case .evidence(let fact):
            self.init(
                "evidence", key: ["kind": fact.kind, "subject": fact.subject],
                ["data": base64(fact.data), "facts": base64(LedgerDocument(ledger: fact.facts).encoded())],
                fact.stamp)
        case .reset(let fact):
            self.init("reset", key: fact.environment.rawValue, ["date": fact.date.milliseconds], fact.logicalTime)
        default: return nil
        }
    }
}

extension TransactionReference {
    fileprivate var content: [String: Any] {
        ["store": store.rawValue, "environment": environment.rawValue, "id": id.rawValue]
    }
}

extension Purchase {
    fileprivate var content: [String: Any?] {
        [
            "product": product.rawValue, "terms": terms?.content, "date": date.milliseconds, "quantity": quantity,
            "original_id": originalID?.rawValue, "store_expiry": storeExpiry?.milliseconds,
            "introductory": isIntroductory, "line_item_id": lineItemID?.rawValue, "non_consumable": isNonConsumable,
        ]
    }
}

extension Terms {
    fileprivate var content: [String: Any] {
        var content: [String: Any] = [:]
        switch kind {
        case .consumable(let units): content["consumable"] = ["units": units]
        case .nonConsumable: content["non_consumable"] = [String: Any]()
        case .nonRenewing(let group, let duration):
            content["non_renewing"] = ["group": group.rawValue, "duration": duration.content] as [String: Any]
        case .autoRenewable(let group, let level, let duration, let introductory):
            let modes: [IntroductoryOffer.Mode: String] = [
                .free: "MODE_FREE", .payAsYouGo: "MODE_PAY_AS_YOU_GO", .payUpFront: "MODE_PAY_UP_FRONT",
            ]
            var terms: [String: Any] = ["group": group.rawValue, "level": level, "duration": duration.content]
            if let introductory {
                terms["introductory"] =
                    ["mode": modes[introductory.mode] ?? "", "duration": introductory.duration.content] as [String: Any]
            }
            content["auto_renewable"] = terms
        }
        if bonus != .zero { content["bonus"] = bonus.content }
        return content
    }
}

extension CalendarDuration {
    fileprivate var content: [String: Any] {
        self == .forever
            ? ["months": 1_200, "forever": true] : ["months": months, "days": days, "seconds": seconds]
    }
}
