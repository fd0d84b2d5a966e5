import Entitlements
import Foundation
import SwiftProtobuf
import Testing

@Suite("Payloads written by swift-protobuf are read with equal values, in any field order and with unknown fields")
struct WrittenByOthersTests {
    private static let transaction = TransactionReference(store: "s", environment: "e", id: "1")

    /// Reads a fact from a payload of swift-protobuf with shuffled fields and added unknown fields.
    private func read(
        _ message: some Message, as kind: (Wire.Key) -> Wire.Key, order: [UInt8], using random: inout SplitMix64
    ) throws -> Fact {
        let key = try kind(Wire.Key()).serializedBytes() as [UInt8]
        let payload = try shuffled(message.serializedBytes() as [UInt8], using: &random)
        return Fact(Record(key: key, order: order, payload: payload))
    }

    private static var wireTransaction: Wire.Transaction {
        .with {
            $0.store = "s"
            $0.environment = "e"
            $0.id = "1"
        }
    }

    private static let unsigned: [UInt8] = [0, 0x80] + [UInt8](repeating: 0, count: 14) + [7]
    private static let stamp = Stamp(logicalTime: LogicalTime(rawValue: 7))
    private static let time = [UInt8](repeating: 0, count: 7) + [7]

    @Test("Purchases are read with any optional fields and every kind of terms")
    func purchases() throws {
        try forAll("purchases by others", cases: 5_000) { random, place in
            let wire = Wire.Purchase.random(using: &random)
            let fact = try read(
                wire, as: { key in with(key) { $0.purchase = Self.wireTransaction } }, order: Self.unsigned,
                using: &random)
            let expected = Purchase(
                transaction: Self.transaction, product: ProductID(wire.product),
                terms: wire.hasTerms ? Terms(wire.terms) : nil, date: Timestamp(wire: wire.date),
                quantity: Int64(wire.quantity), originalID: wire.hasOriginalID ? TransactionID(wire.originalID) : nil,
                storeExpiry: wire.hasStoreExpiry ? Timestamp(wire: wire.storeExpiry) : nil,
                isIntroductory: wire.introductory,
                lineItemID: wire.hasLineItemID ? TransactionID(wire.lineItemID) : nil,
                isNonConsumable: wire.nonConsumable,
                stamp: Self.stamp)
            try #require(fact == .purchase(expected), "\(place)")
        }
    }

    @Test("Recordings and revocations are read")
    func recordingsAndRevocations() throws {
        try forAll("recordings and revocations by others", cases: 2_000) { random, place in
            let replica = ReplicaID.random(using: &random)
            let recording = Wire.Recording.with {
                $0.recordedAt = Timestamp.random(using: &random).milliseconds
                if random.chance(1, in: 2) { $0.knownEnd = random.pick([0, -1, 1_767_225_600_000]) }
            }
            let recordingKey = Wire.RecordingKey.with {
                $0.transaction = Self.wireTransaction
                $0.replica = Data(replica.bytes)
            }
            let complement = [UInt8](repeating: 0xFF, count: 7) + [0xF8]
            var fact = try read(
                recording, as: { key in with(key) { $0.recording = recordingKey } }, order: complement, using: &random)
            let expected = Recording(
                transaction: Self.transaction, replica: replica, recordedAt: Timestamp(wire: recording.recordedAt),
                knownEnd: recording.hasKnownEnd ? Timestamp(wire: recording.knownEnd) : nil,
                logicalTime: Self.stamp.logicalTime)
            try #require(fact == .recording(expected), "\(place)")

            let revocation = Wire.Revocation.with {
                if random.chance(1, in: 2) {
                    $0.revokedAt = random.pick([0, Timestamp.random(using: &random).milliseconds])
                } else {
                    $0.reinstated = true
                    if random.chance(1, in: 2) { $0.upgradedAt = random.pick([0, 1_767_225_600_000]) }
                }
                $0.reason = random.pick(["", "refund", "🧾"])
            }
            fact = try read(
                revocation, as: { key in with(key) { $0.revocation = Self.wireTransaction } }, order: Self.unsigned,
                using: &random)
            let revoked = Revocation(
                transaction: Self.transaction,
                revokedAt: revocation.hasRevokedAt ? Timestamp(wire: revocation.revokedAt) : nil,
                reason: revocation.reason,
                upgradedAt: revocation.hasUpgradedAt ? Timestamp(wire: revocation.upgradedAt) : nil, stamp: Self.stamp)
            try #require(fact == .revocation(revoked), "\(place)")
        }
    }

    @Test("Flags, spends and requests are read")
    func smallFacts() throws {
        try forAll("small facts by others", cases: 2_000) { random, place in
            let replica = ReplicaID.random(using: &random)
            let date = Timestamp.random(using: &random)
            let flag = Wire.Flag.with {
                $0.replica = Data(replica.bytes)
                $0.date = date.milliseconds
            }
            let flagKey = Wire.FlagKey.with {
                $0.product = "owl"
                $0.environment = "e"
            }
            for isSet in [true, false] {
                let fact = try read(
                    flag,
                    as: { key in with(key) { if isSet { $0.flagSet = flagKey } else { $0.flagCleared = flagKey } } },
                    order: Self.time + replica.bytes, using: &random)
                let expected = Flag(
                    product: "owl", environment: "e", isSet: isSet, date: date, replica: replica,
                    logicalTime: Self.stamp.logicalTime)
                try #require(fact == .flag(expected), "\(place)")
            }

            let spend = Wire.Spend.with {
                $0.product = "coins"
                $0.units = UInt64(random.pick([0, 1, .max]))
                $0.replica = Data(replica.bytes)
                $0.date = date.milliseconds
                $0.environment = "e"
            }
            var fact = try read(
                spend, as: { key in with(key) { $0.spend = "🧾/1" } }, order: Self.time, using: &random)
            let spent = Spend(
                id: "🧾/1", product: "coins", units: Int64(spend.units), environment: "e", date: date,
                replica: replica, logicalTime: Self.stamp.logicalTime)
            try #require(fact == .spend(spent), "\(place)")

            let pending = Wire.Pending.with {
                $0.requestedAt = date.milliseconds
                $0.withdrawn = random.chance(1, in: 2)
            }
            fact = try read(pending, as: { key in with(key) { $0.pending = "owl" } }, order: Self.time, using: &random)
            let asked = PendingPurchase(
                product: "owl", requestedAt: date, isWithdrawn: pending.withdrawn,
                logicalTime: Self.stamp.logicalTime)
            try #require(fact == .pending(asked), "\(place)")
        }
    }

    @Test("Renewal states and assertions are read")
    func statements() throws {
        try forAll("statements by others", cases: 2_000) { random, place in
            let date = Timestamp.random(using: &random)
            let state = Wire.RenewalState.with {
                $0.willRenew = random.chance(1, in: 2)
                if random.chance(1, in: 2) { $0.graceEnd = random.pick([0, -1, date.milliseconds]) }
                $0.billingRetry = random.chance(1, in: 2)
                $0.pendingProduct = random.pick(["", "owl"])
            }
            var fact = try read(
                state, as: { key in with(key) { $0.renewalState = Self.wireTransaction } }, order: Self.unsigned,
                using: &random)
            let stated = RenewalState(
                line: Self.transaction, willRenew: state.willRenew,
                graceEnd: state.hasGraceEnd ? Timestamp(wire: state.graceEnd) : nil,
                isInBillingRetry: state.billingRetry, pendingProduct: state.pendingProduct == "owl" ? "owl" : nil,
                stamp: Self.stamp)
            try #require(fact == .renewalState(stated), "\(place)")

            let replica = ReplicaID.random(using: &random)
            let key = Wire.AssertionKey.with {
                $0.group = "random"
                $0.source = "parse"
                $0.until = random.pick([0, date.milliseconds])
                $0.environment = "e"
            }
            let assertion = Wire.Assertion.with {
                $0.replica = Data(replica.bytes)
                $0.recordedAt = date.milliseconds
                $0.logicalTime = random.pick([0, .max, random.next()])
            }
            // 1970-01-01T00:00:00.007Z, its sign bit flipped, complemented.
            let seventh = [0x7F] + [UInt8](repeating: 0xFF, count: 6) + [0xF8]
            fact = try read(
                assertion, as: { other in with(other) { $0.assertion = key } }, order: seventh, using: &random)
            let asserted = Assertion(
                Assertion.Reference(
                    group: "random", source: "parse", until: Timestamp(wire: key.until), environment: "e"),
                assertedAt: Timestamp(milliseconds: 7), recordedAt: date, replica: replica,
                logicalTime: LogicalTime(rawValue: assertion.logicalTime))
            try #require(fact == .assertion(asserted), "\(place)")
        }
    }

    @Test("Acceptances and resets are read")
    func decisions() throws {
        try forAll("decisions by others", cases: 2_000) { random, place in
            let date = Timestamp.random(using: &random)
            let acceptance = Wire.Acceptance.with {
                $0.date = date.milliseconds
                switch random.int(0...3) {
                case 0: $0.countsAsOf = random.pick([0, date.milliseconds])
                case 1: $0.refused = random.pick(["", "no"])
                case 2: $0.transferredTo = random.pick(["", "🦉"])
                default: break
                }
            }
            var fact = try read(
                acceptance, as: { key in with(key) { $0.acceptance = Self.wireTransaction } }, order: Self.time,
                using: &random)
            let accepted = Acceptance(
                transaction: Self.transaction, decision: Acceptance.Decision(acceptance), date: date,
                logicalTime: Self.stamp.logicalTime)
            try #require(fact == .acceptance(accepted), "\(place)")

            let reset = Wire.Reset.with { $0.date = date.milliseconds }
            fact = try read(reset, as: { key in with(key) { $0.reset = "e" } }, order: Self.time, using: &random)
            let putBack = EnvironmentReset(environment: "e", date: date, logicalTime: Self.stamp.logicalTime)
            try #require(fact == .reset(putBack), "\(place)")
        }
    }

    @Test("Counts beyond 63 bits make a record unreadable, not negative")
    func hugeCounts() throws {
        var random = SplitMix64(seed: 1)
        let wire = Wire.Purchase.with {
            $0.product = "owl"
            $0.quantity = UInt64.max
        }
        let fact = try read(
            wire, as: { key in with(key) { $0.purchase = Self.wireTransaction } }, order: Self.unsigned, using: &random)
        guard case .unreadable(_, let reason) = fact else {
            Issue.record("\(fact) must be unreadable")
            return
        }
        #expect(reason == "a count is out of range")
    }

    private func with(_ key: Wire.Key, _ change: (inout Wire.Key) -> Void) -> Wire.Key {
        var key = key
        change(&key)
        return key
    }

    /// The fields of a message in another order, with undefined fields between them.
    private func shuffled(_ bytes: [UInt8], using random: inout SplitMix64) -> [UInt8] {
        var fields: [[UInt8]] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            var field = rest
            let tag = varint(&field)
            switch tag & 7 {
            case 0: _ = varint(&field)
            case 2:
                let count = varint(&field)
                field = field.dropFirst(Int(count))
            default: field = []
            }
            fields.append(Array(rest[..<field.startIndex]))
            rest = rest[field.startIndex...]
        }
        // Numbers 16 to 19 in each wire type: a varint, eight bytes, a text, four bytes.
        let strangers: [[UInt8]] = [
            [0x80, 0x01, 0xFF, 0x01], [0x89, 0x01] + random.bytes(8...8), [0x92, 0x01, 2, 0xFF, 0xFE],
            [0x9D, 0x01] + random.bytes(4...4),
        ]
        for stranger in strangers where random.chance(1, in: 2) { fields.append(stranger) }
        return fields.shuffled(using: &random).flatMap { $0 }
    }

    private func varint(_ bytes: inout ArraySlice<UInt8>) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while let byte = bytes.popFirst() {
            value |= UInt64(byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 { break }
        }
        return value
    }
}

extension Wire.Purchase {
    fileprivate static func random(using random: inout SplitMix64) -> Wire.Purchase {
        var wire = Wire.Purchase()
        wire.product = ProductID.random(using: &random).rawValue
        wire.date = random.pick([0, Timestamp.random(using: &random).milliseconds])
        wire.quantity = UInt64(random.pick([0, 1, 2, 10_000, .max]))
        if random.chance(1, in: 2) { wire.originalID = "42" }
        if random.chance(1, in: 2) {
            wire.storeExpiry = random.pick([0, Timestamp.random(using: &random).milliseconds])
        }
        wire.introductory = random.chance(1, in: 2)
        if random.chance(1, in: 2) { wire.lineItemID = "300" }
        wire.nonConsumable = random.chance(1, in: 4)
        if random.chance(3, in: 4) { wire.terms = .random(using: &random) }
        return wire
    }
}

extension Wire.Terms {
    fileprivate static func random(using random: inout SplitMix64) -> Wire.Terms {
        var wire = Wire.Terms()
        switch random.int(0...4) {
        case 0: wire.consumable.units = UInt64(random.pick([0, 5, .max]))
        case 1: wire.nonConsumable = .init()
        case 2:
            wire.nonRenewing.group = "random"
            if random.chance(3, in: 4) { wire.nonRenewing.duration = .random(using: &random) }
        case 3:
            wire.autoRenewable.group = "all"
            wire.autoRenewable.level = UInt64(random.int(0...3))
            if random.chance(3, in: 4) { wire.autoRenewable.duration = .random(using: &random) }
            if random.chance(1, in: 2) {
                // Mode 9 is not defined: such an offer is dropped.
                wire.autoRenewable.introductory.mode = random.pick([
                    .unspecified, .free, .payAsYouGo, .payUpFront, .UNRECOGNIZED(9),
                ])
                if random.chance(1, in: 2) { wire.autoRenewable.introductory.duration = .random(using: &random) }
            }
        default: break  // An undefined kind: the terms are unknown.
        }
        if random.chance(1, in: 2) { wire.bonus = .random(using: &random) }
        return wire
    }
}

extension Wire.Duration {
    fileprivate static func random(using random: inout SplitMix64) -> Wire.Duration {
        .with {
            $0.months = UInt64(random.pick([0, 1, 3, 128, .max]))
            $0.days = UInt64(random.pick([0, 7, .max]))
            $0.seconds = UInt64(random.pick([0, 1, 86_400]))
            $0.forever = random.chance(1, in: 4)
        }
    }
}
