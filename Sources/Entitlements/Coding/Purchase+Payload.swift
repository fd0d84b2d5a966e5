import ProtoCoding

extension Purchase {
    var payload: [UInt8] {
        var writer = ProtoWriter()
        writer.text(product.rawValue, field: 1)
        if let terms { writer.message(field: 2) { terms.write(to: &$0) } }
        writer.timestamp(date, field: 3)
        writer.number(UInt64(clamping: quantity), field: 4)
        if let originalID { writer.text(originalID.rawValue, field: 5) }
        writer.timestamp(optional: storeExpiry, field: 6)
        writer.number(isIntroductory ? 1 : 0, field: 7)
        if let lineItemID { writer.text(lineItemID.rawValue, field: 8) }
        writer.number(isNonConsumable ? 1 : 0, field: 9)
        return writer.bytes
    }

    init(_ transaction: TransactionReference, _ record: RawRecord) throws(ProtoError) {
        self.init(
            transaction: transaction, product: "", terms: nil, date: Timestamp(milliseconds: 0), quantity: 0,
            stamp: try FactOrder.stamp(record.order))
        var reader = ProtoReader(record.payload)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: product = try value.identifier()
            case 2: terms = try Terms(try value.data())
            case 3: date = try value.timestamp()
            case 4: quantity = try value.count()
            case 5: originalID = try value.identifier()
            case 6: storeExpiry = try value.timestamp()
            case 7: isIntroductory = try value.number() != 0
            case 8: lineItemID = try value.identifier()
            case 9: isNonConsumable = try value.number() != 0
            default: break
            }
        }
        guard !product.rawValue.isEmpty else { throw ProtoError(reason: "a purchase lacks its product") }
    }
}

extension Terms {
    func write(to writer: inout ProtoWriter) {
        switch kind {
        case .consumable(let units):
            writer.message(field: 1) { $0.number(UInt64(clamping: units), field: 1) }
        case .nonConsumable:
            writer.message(field: 2) { _ in }
        case .nonRenewing(let group, let duration):
            writer.message(field: 3) {
                $0.text(group.rawValue, field: 1)
                $0.message(field: 2) { duration.write(to: &$0) }
            }
        case .autoRenewable(let group, let level, let duration, let introductory):
            writer.message(field: 4) {
                $0.text(group.rawValue, field: 1)
                $0.message(field: 2) { duration.write(to: &$0) }
                $0.number(UInt64(clamping: level), field: 3)
                if let introductory { $0.message(field: 4) { introductory.write(to: &$0) } }
            }
        }
        if bonus != .zero { writer.message(field: 15) { bonus.write(to: &$0) } }
    }

    /// Decodes terms; returns `nil` if their kind is unknown to this version.
    init?(_ bytes: RawBytes) throws(ProtoError) {
        var kind: ProductKind?
        var bonus = CalendarDuration.zero
        var reader = ProtoReader(bytes)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: kind = .consumable(units: try Self.units(try value.data()))
            case 2:
                _ = try value.data()
                kind = .nonConsumable
            case 3: kind = try Self.subscription(try value.data(), renews: false)
            case 4: kind = try Self.subscription(try value.data(), renews: true)
            case 15: bonus = try CalendarDuration(try value.data())
            default: break
            }
        }
        guard let kind else { return nil }
        self.init(kind: kind, bonus: bonus)
    }

    private static func units(_ bytes: RawBytes) throws(ProtoError) -> Int64 {
        var units: Int64 = 0
        var reader = ProtoReader(bytes)
        while let (field, value) = try reader.nextField() {
            if field == 1 { units = try value.count() }
        }
        return units
    }

    private static func subscription(_ bytes: RawBytes, renews: Bool) throws(ProtoError) -> ProductKind {
        var group: GroupID?
        var duration = CalendarDuration.zero
        var level: Int64 = 0
        var introductory: IntroductoryOffer?
        var reader = ProtoReader(bytes)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: group = try value.identifier()
            case 2: duration = try CalendarDuration(try value.data())
            case 3: level = try value.count()
            case 4: introductory = try IntroductoryOffer(try value.data())
            default: break
            }
        }
        guard let group else { throw ProtoError(reason: "a subscription lacks its group") }
        guard renews else { return .nonRenewing(group: group, duration: duration) }
        return .autoRenewable(group: group, level: level, duration: duration, introductory: introductory)
    }
}

extension CalendarDuration {
    /// Versions without ``forever`` read it as 100 years, the longest duration that counts there.
    func write(to writer: inout ProtoWriter) {
        let isForever = self == .forever
        writer.number(UInt64(clamping: isForever ? Self.longestYears * 12 : months), field: 1)
        writer.number(UInt64(clamping: days), field: 2)
        writer.number(UInt64(clamping: seconds), field: 3)
        writer.number(isForever ? 1 : 0, field: 4)
    }

    init(_ bytes: RawBytes) throws(ProtoError) {
        var (months, days, seconds): (Int64, Int64, Int64) = (0, 0, 0)
        var isForever = false
        var reader = ProtoReader(bytes)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: months = try value.count()
            case 2: days = try value.count()
            case 3: seconds = try value.count()
            case 4: isForever = try value.number() != 0
            default: break
            }
        }
        // Without the mark, a number of months is never read as forever: it is out of bounds and counts nothing.
        self = isForever ? .forever : Self(months: min(months, .max - 1), days: days, seconds: seconds)
    }
}

extension IntroductoryOffer {
    func write(to writer: inout ProtoWriter) {
        let modes: [Mode: UInt64] = [.free: 1, .payAsYouGo: 2, .payUpFront: 3]
        writer.number(modes[mode] ?? 0, field: 1)
        writer.message(field: 2) { duration.write(to: &$0) }
    }

    /// Decodes an offer; returns `nil` if its mode is unknown to this version.
    init?(_ bytes: RawBytes) throws(ProtoError) {
        let modes: [UInt64: Mode] = [1: .free, 2: .payAsYouGo, 3: .payUpFront]
        var mode: Mode?
        var duration = CalendarDuration.zero
        var reader = ProtoReader(bytes)
        while let (field, value) = try reader.nextField() {
            switch field {
            case 1: mode = modes[try value.number()]
            case 2: duration = try CalendarDuration(try value.data())
            default: break
            }
        }
        guard let mode else { return nil }
        self.init(mode: mode, duration: duration)
    }
}
