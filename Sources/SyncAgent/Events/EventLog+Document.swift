import Entitlements

// The stored form: a line with a JSON object, then a line with the JSON of each event.
extension EventLog {
    /// The reasons why bytes are no event log.
    package enum Defect: Error {
        case damaged
        /// A later version has written it.
        case newer
    }

    private static let format: Int64 = 1

    package var bytes: [UInt8] {
        let header = JSON.object([
            ("format", .number(Self.format)), ("last", .number(Int64(last))), ("delivered", .number(Int64(delivered))),
            ("lost", .number(Int64(lostCount))), ("failing", .bool(isFailing)),
            ("kinds", .array(events.map { .string($0.kind) })), ("seen", seen?.json ?? .null),
        ])
        return Array(([header.line] + events.map(\.json)).joined(separator: "\n").utf8)
    }

    package init(_ bytes: [UInt8]) throws(Defect) {
        var lines = bytes.split(separator: UInt8(ascii: "\n"))
        guard !lines.isEmpty, let header = try? JSON(parsing: lines.removeFirst()),
            case .number(let format)? = header["format"]
        else { throw .damaged }
        guard format == Self.format else { throw format > Self.format ? .newer : .damaged }
        guard case .number(let last)? = header["last"], case .number(let delivered)? = header["delivered"],
            case .number(let lost)? = header["lost"], case .bool(let isFailing)? = header["failing"],
            let kinds = header["kinds"]?.texts, kinds.count == lines.count, lost >= 0, delivered >= 0,
            last >= kinds.count, delivered <= last
        else { throw .damaged }
        self.init()
        (self.last, self.delivered, lostCount) = (UInt64(last), UInt64(delivered), UInt64(lost))
        self.isFailing = isFailing
        if let seen = header["seen"], seen != .null {
            guard let seen = Seen(seen) else { throw .damaged }
            self.seen = seen
        }
        for (index, (kind, line)) in zip(kinds, lines).enumerated() {
            let number = self.last - UInt64(kinds.count) + UInt64(index) + 1
            events.append(Event(number: number, kind: kind, json: String(decoding: line, as: UTF8.self)))
        }
    }
}

extension EventLog.Seen {
    fileprivate var json: JSON {
        func list(_ texts: [String]) -> JSON { .array(texts.map { .string($0) }) }
        return .object([
            ("account", .string(account)), ("purchases", list(purchases)), ("revoked", list(revoked)),
            ("active", list(active)),
            ("announced", .object(announced.sorted { $0.key < $1.key }.map { ($0.key, .string($0.value)) })),
        ])
    }

    fileprivate init?(_ value: JSON) {
        guard let account = value["account"]?.string,
            let purchases = value["purchases"]?.texts, let revoked = value["revoked"]?.texts,
            let active = value["active"]?.texts, let announced = value["announced"]?.members
        else { return nil }
        self.init(
            account: account, purchases: purchases, revoked: revoked, active: active,
            announced: announced.compactMapValues(\.string))
    }
}

extension JSON {
    /// The texts of an array of texts; `nil` for any other value.
    fileprivate var texts: [String]? {
        let texts = elements?.compactMap(\.string)
        return texts?.count == elements?.count ? texts : nil
    }
}
