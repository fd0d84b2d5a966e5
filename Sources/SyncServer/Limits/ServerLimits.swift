package import SyncService

/// All limits of a server by name, as `syncd serve --limit NAME=VALUE` sets them and `syncd serve --limits` shows them.
package struct ServerLimits: Sendable {
    /// The limits of connections and requests.
    package var listener: ListenerConfiguration
    /// The limits per address and per account.
    package var callers: CallerLimits
    /// The approximate size of the entry cache of an SQLite store, in bytes.
    package var cachedByteCount = 64 << 20
    /// The approximate length at which the log of an SQLite store is checkpointed, in bytes.
    package var logByteCount = 64 << 20

    /// One row of the table that `syncd serve --limits` prints.
    package struct Row: Hashable, Sendable {
        /// The name.
        package var name: String
        /// The current value, in the syntax of ``ServerLimits/set(_:)``.
        package var value: String
        /// The unit and the range of the value.
        package var unit: String
        /// The meaning, and the answer or effect beyond the limit.
        package var meaning: String
    }

    /// Creates the limits of these configurations.
    package init(listener: ListenerConfiguration, callers: CallerLimits = CallerLimits()) {
        (self.listener, self.callers) = (listener, callers)
    }

    /// Sets one limit, written `NAME=VALUE`.
    ///
    /// - Throws: ``ListenerError`` for an unknown name or a value out of range; the limits are then unchanged.
    package mutating func set(_ text: String) throws(ListenerError) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, let setting = Self.settings.first(where: { $0.name == parts[0] }) else {
            throw ListenerError("must be NAME=VALUE with a name from --limits, not \"\(text)\"")
        }
        guard setting.property.set(parts[1], in: &self) else {
            throw ListenerError("\(setting.name) must be \(setting.property.unit), not \"\(parts[1])\"")
        }
    }

    /// All limits with their current values.
    package var rows: [Row] {
        Self.settings.map { setting in
            Row(
                name: setting.name, value: setting.property.text(in: self), unit: setting.property.unit,
                meaning: setting.meaning)
        }
    }
}

extension ServerLimits {
    private struct Setting {
        var name: String
        var property: Property
        var meaning: String

        init(_ name: String, _ property: Property, _ meaning: String) {
            (self.name, self.property, self.meaning) = (name, property, meaning)
        }
    }

    /// The property that holds a limit, and its range.
    private enum Property {
        case rate(WritableKeyPath<CallerLimits, Rate?>)
        case count(WritableKeyPath<CallerLimits, Int?>, ClosedRange<Int>)
        case size(WritableKeyPath<CallerLimits, Int?>)
        case number(WritableKeyPath<ListenerConfiguration, Int>, ClosedRange<Int>)
        case bytes(WritableKeyPath<ListenerConfiguration, Int>, ClosedRange<Int>)
        case seconds(WritableKeyPath<ListenerConfiguration, Int64>)
        case memory(WritableKeyPath<ServerLimits, Int>, ClosedRange<Int>)

        var unit: String {
            switch self {
            case .rate: "A_SECOND/AT_ONCE requests (such as 100/1000) or none"
            case .count(_, let range): "\(range.lowerBound) to \(range.upperBound) or none"
            case .size: "bytes (suffixes K, M, G: powers of 1,024) or none"
            case .number(_, let range): "\(range.lowerBound) to \(range.upperBound)"
            case .bytes(_, let range), .memory(_, let range):
                "\(ServerLimits.text(bytes: range.lowerBound)) to \(ServerLimits.text(bytes: range.upperBound)) bytes"
            case .seconds: "1 to 3600 seconds"
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

        /// Sets the limit to `text`.
        ///
        /// - Returns: `false` if `text` is malformed or out of range.
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
            Setting(
                "stranger-requests", .rate(\.unauthenticatedRequests), "unauthenticated requests of an address: 429"),
            Setting("log-ins", .rate(\.logIns), "log-ins and token refreshes of an address: 429"),
            Setting("sign-ups", .rate(\.signUps), "new accounts of an address: 429"),
            Setting("account-reads", .rate(\.accountReads), "reads of an account: 429"),
            Setting("account-writes", .rate(\.accountWrites), "writes of an account, one per 64 KiB: 429"),
            Setting("account-requests", .count(\.accountRequests, many), "concurrent requests of an account: 429"),
            Setting("account-streams", .count(\.accountStreams, many), "open event streams of an account: 429"),
            Setting("device-grants", .count(\.deviceGrants, many), "devices that wait for approval: 503"),
            Setting(
                "address-device-grants", .count(\.addressDeviceGrants, many),
                "devices of an address that wait for approval: 429"),
            Setting("account-keys", .count(\.accountKeys, 0...1_000_000), "keys of an account besides its ledger: 507"),
            Setting("account-bytes", .size(\.accountBytes), "total bytes of the values of those keys: 507"),
            Setting("requests", .number(\.requestCount, many), "concurrent requests: 503"),
            Setting(
                "address-open-requests", .number(\.addressRequestCount, many),
                "concurrent requests of an address: 429"),
            Setting("streams", .number(\.streamCount, many), "open event streams: 503"),
            Setting("address-streams", .number(\.addressStreamCount, many), "open event streams of an address: 429"),
            Setting("body-bytes", .bytes(\.bodyByteCount, 1_024...(1 << 30)), "bytes of a body: 413"),
            Setting(
                "total-body-bytes", .bytes(\.totalBodyByteCount, 1_024...(1 << 40)),
                "total bytes of bodies over 64K in flight: 503"),
            Setting(
                "total-answer-bytes", .bytes(\.totalAnswerByteCount, 1_024...(1 << 40)),
                "total bytes of answers over 64K in flight: 503"),
            Setting("body-seconds", .seconds(\.bodySeconds), "seconds for each part of a body: 408"),
            Setting(
                "body-rate", .bytes(\.minimumByteRate, 1...(1 << 30)), "minimum bytes a second of a body: 408"),
            Setting("late-body-seconds", .seconds(\.lateBodySeconds), "seconds for a body during shutdown: 408"),
            Setting(
                "header-bytes", .bytes(\.headerByteCount, 1_024...(1 << 20)),
                "bytes of an HTTP/1 request line and header: 431"),
            Setting("header-fields", .number(\.headerFieldCount, 10...10_000), "header fields: 431"),
            Setting("header-seconds", .seconds(\.headerSeconds), "seconds for an HTTP/1 header: closed"),
            Setting("handshake-seconds", .seconds(\.handshakeSeconds), "seconds for the TLS handshake: closed"),
            Setting("idle-seconds", .seconds(\.idleSeconds), "seconds between two requests: closed"),
            Setting("write-seconds", .seconds(\.writeSeconds), "seconds to read 64K of an answer: closed"),
            Setting(
                "silence-seconds", .seconds(\.silenceSeconds), "seconds without a byte in either direction: closed"),
            Setting("connections", .number(\.connectionCount, many), "open connections: closed when accepted"),
            Setting(
                "address-connections", .number(\.addressConnectionCount, many),
                "open connections of an address: closed when accepted"),
            Setting(
                "store-cache", .memory(\.cachedByteCount, 0...(1 << 40)),
                "bytes of the entry cache of an SQLite store"),
            Setting(
                "store-log", .memory(\.logByteCount, (1 << 20)...(1 << 30)),
                "bytes of the log of an SQLite store: checkpointed"),
            Setting(
                "shutdown-seconds", .seconds(\.shutdownSeconds),
                "seconds for requests in flight during shutdown: cut off"),
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
