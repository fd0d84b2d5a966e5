public import SyncService

/// Every limit of a server by its name, as `syncd serve --limit NAME=VALUE` sets it and `syncd serve --limits` shows
/// it.
public struct ServerLimits: Sendable {
    /// The limits of connections and requests.
    public var listener: ListenerConfiguration
    /// The limits of addresses and accounts.
    public var callers: CallerLimits
    /// The entries of an SQLite store that are kept in memory, in bytes, approximately.
    public var cachedByteCount = 64 << 20
    /// The length of an SQLite store's log before it is checkpointed, in bytes, approximately.
    public var logByteCount = 64 << 20

    /// One limit, for a table.
    public struct Row: Hashable, Sendable {
        /// The name.
        public var name: String
        /// The current value, as it is written.
        public var value: String
        /// The unit and the range of the value.
        public var unit: String
        /// The meaning, and what happens beyond it.
        public var meaning: String
    }

    /// The limits in these configurations.
    public init(listener: ListenerConfiguration, callers: CallerLimits = CallerLimits()) {
        (self.listener, self.callers) = (listener, callers)
    }

    /// Sets one limit, written `NAME=VALUE`.
    ///
    /// - Throws: ``ListenerError`` for an unknown name or a value out of range; nothing changes then.
    public mutating func set(_ text: String) throws(ListenerError) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, let setting = Self.settings.first(where: { $0.name == parts[0] }) else {
            throw ListenerError("must be NAME=VALUE with a name that --limits shows, not \"\(text)\"")
        }
        guard setting.place.set(parts[1], in: &self) else {
            throw ListenerError("\(setting.name) must be \(setting.place.unit), not \"\(parts[1])\"")
        }
    }

    /// All limits with their current values.
    public var rows: [Row] {
        Self.settings.map { setting in
            Row(
                name: setting.name, value: setting.place.text(in: self), unit: setting.place.unit,
                meaning: setting.meaning)
        }
    }
}

extension ServerLimits {
    private struct Setting {
        var name: String
        var place: Place
        var meaning: String

        init(_ name: String, _ place: Place, _ meaning: String) {
            (self.name, self.place, self.meaning) = (name, place, meaning)
        }
    }

    /// The place of a limit, and its range.
    private enum Place {
        case rate(WritableKeyPath<CallerLimits, Rate?>)
        case count(WritableKeyPath<CallerLimits, Int?>, ClosedRange<Int>)
        case size(WritableKeyPath<CallerLimits, Int?>)
        case number(WritableKeyPath<ListenerConfiguration, Int>, ClosedRange<Int>)
        case bytes(WritableKeyPath<ListenerConfiguration, Int>, ClosedRange<Int>)
        case seconds(WritableKeyPath<ListenerConfiguration, Int64>)
        case memory(WritableKeyPath<ServerLimits, Int>, ClosedRange<Int>)

        var unit: String {
            switch self {
            case .rate: "requests, A_SECOND/AT_ONCE (such as 100/1000) or none"
            case .count(_, let range): "a number from \(range.lowerBound) to \(range.upperBound) or none"
            case .size: "bytes (K, M, G for the 1,024 fold) or none"
            case .number(_, let range): "a number from \(range.lowerBound) to \(range.upperBound)"
            case .bytes(_, let range), .memory(_, let range):
                "bytes from \(ServerLimits.text(bytes: range.lowerBound)) to "
                    + ServerLimits.text(bytes: range.upperBound)
            case .seconds: "seconds from 1 to 3600"
            }
        }

        func text(in limits: ServerLimits) -> String {
            switch self {
            case .rate(let path): limits.callers[keyPath: path]?.description ?? "none"
            case .count(let path, _): limits.callers[keyPath: path].map { "\($0)" } ?? "none"
            case .size(let path): limits.callers[keyPath: path].map(ServerLimits.text(bytes:)) ?? "none"
            case .number(let path, _): "\(limits.listener[keyPath: path])"
            case .bytes(let path, _): ServerLimits.text(bytes: limits.listener[keyPath: path])
            case .seconds(let path): "\(limits.listener[keyPath: path])"
            case .memory(let path, _): ServerLimits.text(bytes: limits[keyPath: path])
            }
        }

        /// Sets the limit to `text`; `false` when it is out of range.
        func set(_ text: String, in limits: inout ServerLimits) -> Bool {
            let isNone = text == "none"
            switch self {
            case .rate(let path):
                guard let rate = isNone ? .some(nil) : Rate(text).map(Optional.some) else { return false }
                limits.callers[keyPath: path] = rate
            case .count(let path, let range):
                guard let count = isNone ? .some(nil) : ServerLimits.number(text, range).map(Optional.some) else {
                    return false
                }
                limits.callers[keyPath: path] = count
            case .size(let path):
                guard let size = isNone ? .some(nil) : ServerLimits.bytes(text, 0...(1 << 50)).map(Optional.some) else {
                    return false
                }
                limits.callers[keyPath: path] = size
            case .number(let path, let range):
                guard let number = ServerLimits.number(text, range) else { return false }
                limits.listener[keyPath: path] = number
            case .bytes(let path, let range):
                guard let bytes = ServerLimits.bytes(text, range) else { return false }
                limits.listener[keyPath: path] = bytes
            case .seconds(let path):
                guard let seconds = ServerLimits.number(text, 1...3_600) else { return false }
                limits.listener[keyPath: path] = Int64(seconds)
            case .memory(let path, let range):
                guard let bytes = ServerLimits.bytes(text, range) else { return false }
                limits[keyPath: path] = bytes
            }
            return true
        }
    }

    private static var settings: [Setting] {
        let many = 1...1_000_000
        return [
            Setting("address-requests", .rate(\.addressRequests), "requests of an address: 429"),
            Setting("stranger-requests", .rate(\.strangerRequests), "of an address, without a token that counts: 429"),
            Setting("log-ins", .rate(\.logIns), "log-ins and refreshes of an address: 429"),
            Setting("sign-ups", .rate(\.signUps), "new accounts of an address: 429"),
            Setting("account-reads", .rate(\.accountReads), "reads of an account: 429"),
            Setting("account-writes", .rate(\.accountWrites), "writes of an account, one for each 64 KiB: 429"),
            Setting("account-requests", .count(\.accountRequests, many), "of an account at once: 429"),
            Setting("account-streams", .count(\.accountStreams, many), "open event streams of an account: 429"),
            Setting("device-grants", .count(\.deviceGrants, many), "devices that wait for approval: 503"),
            Setting(
                "address-device-grants", .count(\.addressDeviceGrants, many),
                "of an address that wait for approval: 429"),
            Setting("account-keys", .count(\.accountKeys, 0...1_000_000), "keys of an account beside its ledger: 507"),
            Setting("account-bytes", .size(\.accountBytes), "values under those keys together: 507"),
            Setting("requests", .number(\.requestCount, many), "under way at once: 503"),
            Setting("address-open-requests", .number(\.addressRequestCount, many), "of an address at once: 429"),
            Setting("streams", .number(\.streamCount, many), "open event streams: 503"),
            Setting("address-streams", .number(\.addressStreamCount, many), "open event streams of an address: 429"),
            Setting("body-bytes", .bytes(\.bodyByteCount, 1_024...(1 << 30)), "a body: 413"),
            Setting(
                "total-body-bytes", .bytes(\.totalBodyByteCount, 1_024...(1 << 40)),
                "all bodies of more than 64K under way: 503"),
            Setting(
                "total-answer-bytes", .bytes(\.totalAnswerByteCount, 1_024...(1 << 40)),
                "all answers of more than 64K under way: 503"),
            Setting("body-seconds", .seconds(\.bodySeconds), "a body, and each further part of it: 408"),
            Setting(
                "body-rate", .bytes(\.leastByteRate, 1...(1 << 30)), "least bytes a second after body-seconds: 408"),
            Setting("late-body-seconds", .seconds(\.lateBodySeconds), "a body, when the server is to end: 408"),
            Setting(
                "header-bytes", .bytes(\.headerByteCount, 1_024...(1 << 20)), "request line and header of HTTP/1: 431"),
            Setting("header-fields", .number(\.headerFieldCount, 10...10_000), "fields in it: 431"),
            Setting("header-seconds", .seconds(\.headerSeconds), "a header of HTTP/1: closed"),
            Setting("handshake-seconds", .seconds(\.handshakeSeconds), "until it is encrypted: closed"),
            Setting("idle-seconds", .seconds(\.idleSeconds), "between two requests: closed"),
            Setting("write-seconds", .seconds(\.writeSeconds), "for a reader of 64K of an answer: closed"),
            Setting("silence-seconds", .seconds(\.silenceSeconds), "without anything in either direction: closed"),
            Setting("connections", .number(\.connectionCount, many), "open at once: closed when accepted"),
            Setting(
                "address-connections", .number(\.addressConnectionCount, many), "of an address: closed when accepted"),
            Setting(
                "store-cache", .memory(\.cachedByteCount, 0...(1 << 40)),
                "entries of an SQLite store in memory: read from the file"),
            Setting(
                "store-log", .memory(\.logByteCount, (1 << 20)...(1 << 30)),
                "log of an SQLite store: taken into the database"),
            Setting("shutdown-seconds", .seconds(\.shutdownSeconds), "for what is under way at the end: cut"),
        ]
    }

    private static func number(_ text: String, _ range: ClosedRange<Int>) -> Int? {
        guard let number = Int(text), range.contains(number), !text.hasPrefix("+") else { return nil }
        return number
    }

    private static let units: [(name: String, shift: Int)] = [("G", 30), ("M", 20), ("K", 10)]

    private static func bytes(_ text: String, _ range: ClosedRange<Int>) -> Int? {
        let unit = units.first { text.hasSuffix($0.name) }
        guard let number = number(String(text.dropLast(unit == nil ? 0 : 1)), 0...(1 << 50)) else { return nil }
        let (bytes, overflow) = number.multipliedReportingOverflow(by: 1 << (unit?.shift ?? 0))
        return !overflow && range.contains(bytes) ? bytes : nil
    }

    private static func text(bytes: Int) -> String {
        let unit = units.first { bytes > 0 && bytes % (1 << $0.shift) == 0 }
        return "\(bytes >> (unit?.shift ?? 0))\(unit?.name ?? "")"
    }
}
