package import Entitlements

/// The dates that one installation has been served and has written, most recent last.
///
/// An app keeps the last date that it knows on the device and adds to it, also after another user has logged in. So the
/// dates of all accounts of an installation count together.
package struct SeenDates: Hashable, Sendable, Codable {
    /// The number of dates that are kept of each kind.
    package static let capacity = 16

    /// A date and the time at which it was seen, in milliseconds since 1970 UTC.
    package struct Item: Hashable, Sendable, Codable {
        /// The date.
        package var date: Int64
        /// The time of the last request with the date.
        package var at: Int64
        /// The time of the first one; `nil` if there was one only.
        package var first: Int64?
    }

    /// The dates that were served.
    package private(set) var served: [Item] = []
    /// The dates that were written.
    package private(set) var written: [Item] = []

    /// No dates.
    package init() {}

    /// The dates of several accounts on one installation together.
    package init(joining parts: [SeenDates]) {
        served = Self.latest(parts.flatMap(\.served))
        written = Self.latest(parts.flatMap(\.written))
    }

    /// Returns `true` if the installation has been served `date` or has written it, up to one second.
    package func contains(_ date: Timestamp) -> Bool {
        (served + written).contains { abs($0.date - date.milliseconds) <= 1_000 }
    }

    /// Returns `true` if the installation had been served or had written a date that satisfies `condition` before
    /// `time`.
    func contains(before time: Timestamp, where condition: (Timestamp) -> Bool) -> Bool {
        (served + written).contains {
            ($0.first ?? $0.at) < time.milliseconds && condition(Timestamp(milliseconds: $0.date))
        }
    }

    /// The dates to which an app may have added a purchase: the later of the last served and the last written one
    /// first, then older ones, most recent first.
    package var bases: [Timestamp] {
        let last = [served.last, written.last].compactMap { $0 }.max { $0.date < $1.date }
        let older = (served + written).sorted { ($0.at, $0.date) > ($1.at, $1.date) }
        return ((last.map { [$0] } ?? []) + older).map { Timestamp(milliseconds: $0.date) }
    }

    /// Remembers a date that is served.
    ///
    /// - Returns: `false` if it is the one that was served last, so that nothing changes.
    package mutating func rememberServed(_ date: Timestamp, at now: Timestamp) -> Bool {
        Self.remember(date, at: now, in: &served)
    }

    /// Remembers a date that was written.
    ///
    /// - Returns: `false` if it is the one that was written last, so that nothing changes.
    package mutating func rememberWritten(_ date: Timestamp, at now: Timestamp) -> Bool {
        Self.remember(date, at: now, in: &written)
    }

    private static func remember(_ date: Timestamp, at now: Timestamp, in items: inout [Item]) -> Bool {
        guard items.last?.date != date.milliseconds else { return false }
        items = latest(items + [Item(date: date.milliseconds, at: now.milliseconds)])
        return true
    }

    /// The most recent items, one for each date.
    private static func latest(_ items: [Item]) -> [Item] {
        var kept: [Item] = []
        for item in items.sorted(by: { ($0.at, $0.date) > ($1.at, $1.date) }) {
            if let index = kept.firstIndex(where: { $0.date == item.date }) {
                kept[index].first = min(kept[index].first ?? kept[index].at, item.first ?? item.at)
            } else if kept.count < capacity {
                kept.append(item)
            }
        }
        return kept.reversed()
    }
}
