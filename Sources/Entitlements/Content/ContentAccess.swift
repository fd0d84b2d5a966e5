/// The content that a replay opens at one instant: see ``ContentRule``.
package struct ContentAccess: Hashable, Sendable {
    /// A period that a rule by period counts.
    package struct PaidPeriod: Hashable, Sendable {
        /// The group.
        package var group: GroupID
        /// The number of the period in its group, from 1.
        package var index: Int64
        /// The level of service, 1 for groups without levels.
        package var level: Int64
        package var start: Timestamp
        package var end: Timestamp
    }

    /// One for each rule of the catalogue, also for those that open nothing: a closed rule that is more specific than
    /// an open one keeps its paths closed.
    package var openings: [ContentOpening]
    /// The periods that have begun and were not revoked, by group and number.
    package var periods: [PaidPeriod]
    /// The next instant at which something may open or close; `nil` if there is none.
    package var nextBoundary: Timestamp?

    /// The periods that contain `instant`, the highest level first in each group.
    package func current(at instant: Timestamp) -> [PaidPeriod] {
        periods.filter { $0.start <= instant && instant < $0.end }
            .sorted { ($0.group, $0.level, $0.index) < ($1.group, $1.level, $1.index) }
    }

    /// The content that `replay` opens at `instant`.
    ///
    /// - Parameter isComplete: `false` if purchases may be missing from the facts. Then periods have no numbers, so
    ///   rules by period open nothing: otherwise a client that leaves purchases out would choose their sets.
    package init(_ replay: Replay, at instant: Timestamp, isComplete: Bool) {
        let rules = replay.catalog.content
        let groups = Set(rules.compactMap(\.source.group)).sorted()
        let paid = groups.flatMap { Self.paidPeriods(of: $0, in: replay) }
        let begun = paid.filter { $0.period.start <= instant && !$0.isRevoked }.map(\.period)
        periods = isComplete ? begun : []
        openings = rules.map { rule in
            Self.opening(rule, replay, at: instant, periods: isComplete ? begun : [])
        }
        let hasDates = rules.contains { $0.basis == .date }
        let timelines = groups.compactMap { replay.timelines[$0] }
        let instants =
            timelines.flatMap(\.contributions).flatMap { [$0.start, $0.end] } + paid.compactMap(\.revokedAt)
            + [replay.nextBoundary(after: instant)].compactMap { $0 }
            + (hasDates ? [Self.midnight(after: instant)] : [])
        nextBoundary = instants.filter { $0 > instant && $0 < .latest }.min()
    }

    private static let day: Int64 = 86_400_000

    /// The first instant of the day of `instant` (UTC).
    private static func midnight(before instant: Timestamp) -> Timestamp {
        Timestamp(milliseconds: instant.milliseconds.flooredQuotient(by: day) * day)
    }

    /// The first instant of the next day (UTC), which a rule by date may open.
    private static func midnight(after instant: Timestamp) -> Timestamp {
        Timestamp(milliseconds: midnight(before: instant).milliseconds + day)
    }

    private struct Contribution {
        var period: PaidPeriod
        var revokedAt: Timestamp?
        var isRevoked: Bool { revokedAt != nil }
    }

    /// The periods that purchases gave, with numbers. A revoked one keeps its number, so that a refund does not move
    /// the sets of the others. Grace and assertions have no number: nothing was paid for them as a period.
    private static func paidPeriods(of group: GroupID, in replay: Replay) -> [Contribution] {
        let purchases = (replay.timelines[group]?.contributions ?? []).filter { contribution in
            if case .purchase = contribution.origin { true } else { false }
        }
        let ordered = purchases.sorted { left, right in
            guard (left.start, left.end) == (right.start, right.end) else {
                return (left.start, left.end) < (right.start, right.end)
            }
            guard let first = left.transaction, let second = right.transaction else { return false }
            return first < second
        }
        return zip(Int64(1)..., ordered).map { index, period in
            let isUpgraded = period.revokedAt.map { isUpgrade(at: $0, of: period, to: ordered) } ?? false
            return Contribution(
                period: PaidPeriod(
                    group: group, index: index, level: period.level ?? 1, start: period.start, end: period.end),
                revokedAt: isUpgraded ? nil : period.revokedAt)
        }
    }

    /// The largest difference between the start of an upgrade and the cancellation that a receipt states for the
    /// upgraded purchase, in milliseconds.
    private static let upgradeTolerance: Int64 = 60_000

    /// Returns `true` if a purchase was cancelled because a later one of another product, at its level or a higher one,
    /// replaced it: receipts state a cancellation then, as for a refund.
    private static func isUpgrade(at date: Timestamp, of period: Period, to others: [Period]) -> Bool {
        others.contains { other in
            other.level ?? .max <= period.level ?? 0 && other.product != period.product && other.revokedAt == nil
                && other.start > period.start
                && abs(other.start.milliseconds - date.milliseconds) <= upgradeTolerance
        }
    }

    private static func opening(
        _ rule: ContentRule, _ replay: Replay, at instant: Timestamp, periods: [PaidPeriod]
    ) -> ContentOpening {
        func isHighEnough(_ level: Int64?) -> Bool { level ?? 1 <= rule.maximumLevel }
        switch (rule.source, rule.basis) {
        case (.entitlement(let id), _):
            return ContentOpening(path: rule.path, extent: .all(replay.access(to: id, at: instant)?.isGranted == true))
        case (.group(let group), .current):
            let isOpen = (replay.timelines[group]?.periods ?? []).contains {
                $0.contains(instant) && isHighEnough($0.level)
            }
            return ContentOpening(path: rule.path, extent: .all(isOpen))
        case (.group(let group), .date):
            let covered = (replay.timelines[group]?.periods ?? []).filter { isHighEnough($0.level) }
            // A day that has not begun is closed, though it may be paid. A day that is paid in part is open.
            let last = Timestamp(milliseconds: instant.milliseconds + 1)
            let chains = Timeline(covered).chains.filter { $0.start < last }
            return ContentOpening(
                path: rule.path, extent: .dates(chains.map { Self.midnight(before: $0.start)..<min($0.end, last) }))
        case (.group(let group), .period):
            let sets = periods.filter { $0.group == group && isHighEnough($0.level) }.map(\.index).sorted()
            return ContentOpening(path: rule.path, extent: .sets(ranges(of: sets)))
        }
    }

    /// The numbers, which are distinct and ascending, as ranges.
    private static func ranges(of numbers: [Int64]) -> [ClosedRange<Int64>] {
        var ranges: [ClosedRange<Int64>] = []
        for number in numbers {
            if let last = ranges.last, last.upperBound + 1 == number {
                ranges[ranges.count - 1] = last.lowerBound...number
            } else {
                ranges.append(number...number)
            }
        }
        return ranges
    }
}

/// A rule's path, and the part of it that is open.
package struct ContentOpening: Hashable, Sendable {
    /// The part of a path that is open.
    package enum Extent: Hashable, Sendable {
        /// All of it, or nothing.
        case all(Bool)
        /// The sets with these numbers.
        case sets([ClosedRange<Int64>])
        /// The days whose first instant is in one of these stretches.
        case dates([Range<Timestamp>])
    }

    /// The path of the rule.
    package let path: String
    /// The part that is open.
    package let extent: Extent
    private let segments: [ContentSegment]
    private let isPrefix: Bool

    /// - Parameter path: The path of a valid ``ContentRule``.
    package init(path: String, extent: Extent) {
        (self.path, self.extent) = (path, extent)
        let rule = ContentRule(path: path, source: .group(""), basis: .current)
        (segments, isPrefix) = (rule.segments, rule.isPrefix)
    }

    /// Returns `true` if the most specific of `openings` that matches `path` opens it, with and without its parameters.
    package static func open(_ path: ContentPath, in openings: [ContentOpening]) -> Bool {
        let plain = path.withoutParameters
        return isOpen(path, in: openings) && (plain == path || isOpen(plain, in: openings))
    }

    private static func isOpen(_ path: ContentPath, in openings: [ContentOpening]) -> Bool {
        var best: (opening: ContentOpening, number: Int64?, day: Timestamp?)?
        for opening in openings {
            guard let match = opening.match(path) else { continue }
            if let best, !opening.isMoreSpecific(than: best.opening) { continue }
            best = (opening, match.number, match.day)
        }
        guard let best else { return false }
        switch best.opening.extent {
        case .all(let isOpen): return isOpen
        case .sets(let ranges): return best.number.map { number in ranges.contains { $0.contains(number) } } ?? false
        case .dates(let ranges): return best.day.map { day in ranges.contains { $0.contains(day) } } ?? false
        }
    }

    /// The values of `{set}` and `{date}` if the path of the rule matches; `nil` if it does not.
    private func match(_ path: ContentPath) -> (number: Int64?, day: Timestamp?)? {
        let count = segments.count
        let isLongEnough =
            isPrefix
            ? path.segments.count > count || path.segments.count == count && path.isFolder
            : path.segments.count == count && !path.isFolder
        guard isLongEnough else { return nil }
        var (number, day): (Int64?, Timestamp?)
        for (segment, text) in zip(segments, path.segments) {
            switch segment {
            case .literal(let literal): guard literal.utf8.elementsEqual(text.utf8) else { return nil }
            case .set:
                guard let value = Self.number(text) else { return nil }
                number = value
            case .date:
                guard let value = Self.day(text) else { return nil }
                day = value
            }
        }
        return (number, day)
    }

    private func isMoreSpecific(than other: ContentOpening) -> Bool {
        guard segments.count == other.segments.count else { return segments.count > other.segments.count }
        for (left, right) in zip(segments, other.segments) where left != right {
            if case .literal = left { return true }
            return false
        }
        return !isPrefix && other.isPrefix
    }

    /// A number without leading zeros, 1 to 999,999,999.
    private static func number(_ text: String) -> Int64? {
        guard (1...9).contains(text.utf8.count), text.utf8.first != UInt8(ascii: "0"), text.utf8.allSatisfy(isDigit)
        else { return nil }
        return Int64(text)
    }

    /// The first instant (UTC) of a day in the form `YYYY-MM-DD`.
    private static func day(_ text: String) -> Timestamp? {
        let bytes = Array(text.utf8)
        guard bytes.count == 10, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            bytes.enumerated().allSatisfy({ [4, 7].contains($0) || isDigit($1) })
        else { return nil }
        return try? Timestamp(text + "T00:00:00Z")
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
