package import SyncService

/// All limits of a server by name, as `syncd serve --limit NAME=VALUE` sets them and `syncd serve --limits` shows them.
package struct ServerLimits: Sendable {
    /// The limits of connections and requests.
    package var listener: ListenerConfiguration
    /// The limits per address and per account.
    package var callers: CallerLimits
    /// The approximate size of the page caches of an SQLite store, in bytes.
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
        guard setting.set(parts[1], &self) else {
            throw ListenerError("\(setting.name) must be \(setting.unit), not \"\(parts[1])\"")
        }
    }

    /// All limits with their current values.
    package var rows: [Row] {
        Self.settings.map { Row(name: $0.name, value: $0.text(self), unit: $0.unit, meaning: $0.meaning) }
    }
}

extension ServerLimits {
    /// The text form of a limit, and its range.
    private struct Format<Value> {
        var unit: String
        var text: (Value) -> String
        /// Returns `nil` for a text that is malformed or out of range.
        var parse: (String) -> Value?

        /// The form of a limit that can be `none`.
        var orNone: Format<Value?> {
            Format<Value?>(unit: "\(unit) or none", text: { $0.map(text) ?? "none" }) { text in
                text == "none" ? .some(nil) : parse(text).map(Optional.some)
            }
        }
    }

    private struct Setting {
        let name: String
        let meaning: String
        let unit: String
        let text: (ServerLimits) -> String
        /// Returns `false` for a text that is malformed or out of range.
        let set: (String, inout ServerLimits) -> Bool

        init<Value>(
            _ name: String, _ path: WritableKeyPath<ServerLimits, Value>, _ format: Format<Value>, _ meaning: String
        ) {
            (self.name, self.meaning, unit) = (name, meaning, format.unit)
            text = { format.text($0[keyPath: path]) }
            set = { text, limits in
                guard let value = format.parse(text) else { return false }
                limits[keyPath: path] = value
                return true
            }
        }
    }

    private static var rate: Format<Rate?> {
        Format(unit: "A_SECOND/AT_ONCE requests (such as 100/1000)", text: \.description, parse: { Rate($0) }).orNone
    }

    private static var seconds: Format<Int64> {
        Format(unit: "1 to 3600 seconds", text: { "\($0)" }, parse: { number($0, 1...3_600).map(Int64.init) })
    }

    private static var size: Format<Int?> {
        Format(
            unit: "bytes (suffixes K, M, G: powers of 1,024)", text: text(bytes:), parse: { bytes($0, 0...(1 << 50)) }
        ).orNone
    }

    private static func count(_ range: ClosedRange<Int> = 1...1_000_000) -> Format<Int> {
        Format(unit: "\(range.lowerBound) to \(range.upperBound)", text: { "\($0)" }, parse: { number($0, range) })
    }

    private static func memory(_ range: ClosedRange<Int>) -> Format<Int> {
        Format(
            unit: "\(text(bytes: range.lowerBound)) to \(text(bytes: range.upperBound)) bytes", text: text(bytes:),
            parse: { bytes($0, range) })
    }

    private static var settings: [Setting] {
        [
            Setting("address-requests", \.callers.addressRequests, rate, "requests of an address: 429"),
            Setting(
                "stranger-requests", \.callers.unauthenticatedRequests, rate,
                "unauthenticated requests of an address: 429"),
            Setting("log-ins", \.callers.logIns, rate, "log-ins and token refreshes of an address: 429"),
            Setting("sign-ups", \.callers.signUps, rate, "new accounts of an address: 429"),
            Setting("account-reads", \.callers.accountReads, rate, "reads of an account: 429"),
            Setting("account-writes", \.callers.accountWrites, rate, "writes of an account, one per 64 KiB: 429"),
            Setting(
                "account-requests", \.callers.accountRequests, count().orNone,
                "concurrent requests of an account: 429"),
            Setting(
                "account-streams", \.callers.accountStreams, count().orNone, "open event streams of an account: 429"),
            Setting("device-grants", \.callers.waitingDevices, count().orNone, "devices that wait for approval: 503"),
            Setting(
                "address-device-grants", \.callers.addressWaitingDevices, count().orNone,
                "devices of an address that wait for approval: 429"),
            Setting(
                "account-keys", \.callers.accountKeys, count(0...1_000_000).orNone,
                "keys of an account besides its ledger: 507"),
            Setting("account-bytes", \.callers.accountBytes, size, "total bytes of the values of those keys: 507"),
            Setting("requests", \.listener.requestCount, count(), "concurrent requests: 503"),
            Setting(
                "address-open-requests", \.listener.addressRequestCount, count(),
                "concurrent requests of an address: 429"),
            Setting("streams", \.listener.streamCount, count(), "open event streams: 503"),
            Setting("address-streams", \.listener.addressStreamCount, count(), "open event streams of an address: 429"),
            Setting("body-bytes", \.listener.bodyByteCount, memory(1_024...(1 << 30)), "bytes of a body: 413"),
            Setting(
                "total-body-bytes", \.listener.totalBodyByteCount, memory(1_024...(1 << 40)),
                "total bytes of bodies over 64K in flight: 503"),
            Setting(
                "total-answer-bytes", \.listener.totalAnswerByteCount, memory(1_024...(1 << 40)),
                "total bytes of answers over 64K in flight: 503"),
            Setting("body-seconds", \.listener.bodySeconds, seconds, "seconds for each part of a body: 408"),
            Setting(
                "body-rate", \.listener.minimumByteRate, memory(1...(1 << 30)),
                "minimum bytes a second of a body: 408"),
            Setting(
                "late-body-seconds", \.listener.lateBodySeconds, seconds, "seconds for a body during shutdown: 408"),
            Setting(
                "header-bytes", \.listener.headerByteCount, memory(1_024...(1 << 20)),
                "bytes of an HTTP/1 request line and header: 431"),
            Setting("header-fields", \.listener.headerFieldCount, count(10...10_000), "header fields: 431"),
            Setting("header-seconds", \.listener.headerSeconds, seconds, "seconds for an HTTP/1 header: closed"),
            Setting("handshake-seconds", \.listener.handshakeSeconds, seconds, "seconds for the TLS handshake: closed"),
            Setting("idle-seconds", \.listener.idleSeconds, seconds, "seconds between two requests: closed"),
            Setting("write-seconds", \.listener.writeSeconds, seconds, "seconds to read 64K of an answer: closed"),
            Setting(
                "silence-seconds", \.listener.silenceSeconds, seconds,
                "seconds without a byte in either direction: closed"),
            Setting("connections", \.listener.connectionCount, count(), "open connections: closed when accepted"),
            Setting(
                "address-connections", \.listener.addressConnectionCount, count(),
                "open connections of an address: closed when accepted"),
            Setting(
                "store-cache", \.cachedByteCount, memory(0...(1 << 40)),
                "bytes of the page caches of an SQLite store"),
            Setting(
                "store-log", \.logByteCount, memory((1 << 20)...(1 << 30)),
                "bytes of the log of an SQLite store: checkpointed"),
            Setting(
                "shutdown-seconds", \.listener.shutdownSeconds, seconds,
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
