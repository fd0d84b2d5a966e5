package import Entitlements

extension Timestamp {
    /// Often the end of a month or a leap day, where calendars fail; otherwise any instant of the years 1 to 9999.
    package static func random(using random: inout SplitMix64) -> Timestamp {
        guard random.chance(3, in: 4) else {
            return Timestamp(milliseconds: random.int(earliest.milliseconds...latest.milliseconds))
        }
        return near(Timestamp(milliseconds: 0), using: &random)
    }

    /// An instant within a few decades of 2026, near the end of a month half of the time.
    package static func near(_ center: Timestamp, years: Int64 = 40, using random: inout SplitMix64) -> Timestamp {
        let start = center.adding(CalendarDuration(months: random.int(0...years * 12)))
        let day = random.chance(1, in: 2) ? random.int(27...31) : random.int(0...27)
        let timeOfDay = random.pick([0, 1, 43_200_000, 86_399_999, random.int(0...86_399_999)])
        return Timestamp(milliseconds: start.milliseconds + day * 86_400_000 + timeOfDay)
    }
}

extension CalendarDuration {
    package static func random(using random: inout SplitMix64) -> CalendarDuration {
        CalendarDuration(
            months: random.pick([0, 1, 1, 2, 3, 6, 12, random.int(0...1_200)]),
            days: random.pick([0, 0, 1, 7, random.int(0...400)]),
            seconds: random.pick([0, 0, 0, 1, 3_600, random.int(0...100_000)]))
    }
}

extension Identifier {
    /// One of a few ids, so that random facts share ids: plain, with a slash, an emoji, and two canonically equal
    /// spellings.
    package static func random(using random: inout SplitMix64) -> Identifier {
        Identifier(random.pick(["a", "b", "c/d", "🦉", "caf\u{E9}", "cafe\u{301}", "\u{301}x", " "]))
    }
}

extension TransactionReference {
    package static func random(using random: inout SplitMix64) -> TransactionReference {
        TransactionReference(
            store: random.pick([.reported, .appStore]), environment: random.pick([.production, .sandbox]),
            id: .random(using: &random))
    }
}

extension LogicalTime {
    package static func random(using random: inout SplitMix64) -> LogicalTime {
        LogicalTime(rawValue: random.pick([0, 1, 255, 256, 65_536, .max, random.next(), UInt64(random.int(0...20))]))
    }
}

extension Stamp {
    package static func random(using random: inout SplitMix64) -> Stamp {
        Stamp(
            signedDate: random.chance(1, in: 2) ? nil : .random(using: &random), logicalTime: .random(using: &random))
    }
}

extension Terms {
    package static func random(using random: inout SplitMix64) -> Terms {
        let offer = IntroductoryOffer(
            mode: random.pick(IntroductoryOffer.Mode.allCases), duration: .random(using: &random))
        let kinds: [ProductKind] = [
            .consumable(units: random.pick([0, 1, 5, 1_000_000, .max])), .nonConsumable,
            .nonRenewing(
                group: .random(using: &random), duration: random.pick([.forever, .random(using: &random)])),
            .autoRenewable(
                group: .random(using: &random), level: random.int(0...9), duration: .random(using: &random),
                introductory: random.chance(1, in: 2) ? offer : nil),
        ]
        return Terms(kind: random.pick(kinds), bonus: random.chance(1, in: 2) ? .zero : .random(using: &random))
    }
}

extension Fact {
    /// A fact of any kind that this version writes.
    package static func random(using random: inout SplitMix64) -> Fact {
        let time = LogicalTime.random(using: &random)
        let date = Timestamp.random(using: &random)
        let replica = ReplicaID.random(using: &random)
        if random.chance(1, in: 3) { return .randomStatement(at: date, time, by: replica, using: &random) }
        switch random.int(0...6) {
        case 0:
            return .purchase(
                Purchase(
                    transaction: .random(using: &random), product: .random(using: &random),
                    terms: random.chance(1, in: 3) ? nil : .random(using: &random), date: date,
                    quantity: random.pick([0, 1, 2, 10_000, .max]),
                    originalID: random.chance(1, in: 2) ? nil : .random(using: &random),
                    storeExpiry: random.chance(1, in: 2) ? nil : .random(using: &random),
                    isIntroductory: random.chance(1, in: 3),
                    lineItemID: random.chance(1, in: 2) ? nil : .random(using: &random),
                    isNonConsumable: random.chance(1, in: 3), stamp: .random(using: &random)))
        case 1:
            return .recording(
                Recording(
                    transaction: .random(using: &random), replica: replica, recordedAt: date,
                    knownEnd: random.chance(1, in: 2) ? nil : .random(using: &random), logicalTime: time))
        case 2:
            return .revocation(
                Revocation(
                    transaction: .random(using: &random), revokedAt: random.chance(1, in: 3) ? nil : date,
                    reason: random.pick(["", "refund", "🧾"]),
                    upgradedAt: random.chance(1, in: 3) ? .random(using: &random) : nil, stamp: .random(using: &random))
            )
        case 3:
            return .flag(
                Flag(
                    product: .random(using: &random), environment: random.pick([.production, .sandbox]), isSet: true,
                    date: date, replica: replica, logicalTime: time))
        case 4:
            return .flag(
                Flag(
                    product: .random(using: &random), environment: random.pick([.production, .sandbox]), isSet: false,
                    date: date, replica: replica, logicalTime: time))
        case 5:
            return .spend(
                Spend(
                    id: .random(using: &random), product: .random(using: &random),
                    units: random.pick([0, 1, 3, .max]), environment: random.pick([.production, .sandbox]), date: date,
                    replica: replica, logicalTime: time))
        default:
            return .pending(
                PendingPurchase(
                    product: .random(using: &random), requestedAt: date, isWithdrawn: random.chance(1, in: 2),
                    logicalTime: time))
        }
    }

    /// A statement of a store, a server or a system that keeps no purchases.
    private static func randomStatement(
        at date: Timestamp, _ time: LogicalTime, by replica: ReplicaID, using random: inout SplitMix64
    ) -> Fact {
        switch random.int(0...7) {
        case 6: return .policy(PolicyStatement(random.pick(TrustPolicy.allCases), logicalTime: time))
        case 7:
            return .evidence(
                StoredEvidence(
                    kind: random.pick(["app-store-transaction", "google-play"]),
                    subject: random.pick(["", "1", "🦉"]),
                    data: random.pick([[], [0, 255]]), facts: Ledger([Fact.random(using: &random).record]),
                    stamp: .random(using: &random)))
        case 0:
            return .renewalState(
                RenewalState(
                    line: .random(using: &random), willRenew: random.chance(1, in: 2),
                    graceEnd: random.chance(1, in: 2) ? nil : date, isInBillingRetry: random.chance(1, in: 2),
                    pendingProduct: random.chance(1, in: 2) ? nil : .random(using: &random),
                    stamp: .random(using: &random)))
        case 1:
            return .assertion(
                Assertion(
                    Assertion.Reference(
                        group: .random(using: &random), source: .random(using: &random),
                        until: random.pick([date, Timestamp(milliseconds: 0)]),
                        environment: random.pick([.production, .sandbox])),
                    assertedAt: .random(using: &random), recordedAt: date, replica: replica, logicalTime: time))
        case 2:
            let decisions: [Acceptance.Decision] = [
                .accepted, .countsAsOf(date), .refused(random.pick(["", "no"])), .transferred(to: "bob"),
            ]
            return .acceptance(
                Acceptance(
                    transaction: .random(using: &random), decision: random.pick(decisions), date: date,
                    logicalTime: time))
        case 3:
            let transaction = TransactionReference.random(using: &random)
            let kept = Purchase(
                transaction: transaction, product: .random(using: &random), terms: nil, date: date,
                stamp: .random(using: &random))
            var dropped = kept
            dropped.quantity = random.int(2...4)
            dropped.stamp = .random(using: &random)
            return .contradiction(
                Contradiction(kept: kept, dropped: dropped, noticedAt: date, logicalTime: time))
        case 4:
            return .claim(Claim(account: "alice", incarnation: "1", date: date, logicalTime: time))
        default:
            return .reset(
                EnvironmentReset(
                    environment: random.pick([.production, .sandbox]), date: date, logicalTime: time))
        }
    }
}

extension Record {
    /// A record of any kind: one that this version writes, one with unknown fields, one of an unknown kind, or random
    /// bytes.
    package static func random(using random: inout SplitMix64) -> Record {
        switch random.int(0...3) {
        case 0:
            return Fact.random(using: &random).record
        case 1:
            var record = Fact.random(using: &random).record
            record.payload += [0xFA, 0x07, 0x03, 0x66, 0x6F, random.pick([0x6F, 0x70])]  // field 127
            return record
        case 2:
            // Kinds 16, 17 and 200 are not defined.
            let tag = random.pick([[0x82, 0x01], [0x8A, 0x01], [0xC2, 0x0C]] as [[UInt8]])
            let id = random.bytes(1...2)
            return Record(
                key: tag + [UInt8(id.count)] + id, order: random.bytes(0...3), payload: random.bytes(0...3))
        default:
            return Record(key: random.bytes(1...2), order: random.bytes(0...2), payload: random.bytes(0...2))
        }
    }
}

extension Ledger {
    package static func random(upTo count: Int = 12, using random: inout SplitMix64) -> Ledger {
        var records: [Record] = []
        for _ in 0..<random.int(0...Int64(count)) { records.append(.random(using: &random)) }
        return Ledger(records)
    }
}
