package import Entitlements

/// Decides about an expiry date that an app has written: a purchase, an assertion, or nothing. Pure.
///
/// An app of the tutorials keeps no purchases. It adds the months that it sold to a date that it knows, and writes the
/// sum. The rules find that date and the product. Their numbers are those of Docs/Parse.md.
package struct ExpiryRules: Sendable {
    /// The products of one group, with their durations, shortest first.
    private let products: [(id: ProductID, duration: CalendarDuration)]
    /// The largest difference between a written date and a sum that still is that sum, in milliseconds. Apps add months
    /// in their own time zone and calendar.
    let tolerance: Int64
    /// A day in milliseconds.
    private static let day: Int64 = 86_400_000
    /// Half the smallest difference between two products, or between a product and none, in milliseconds.
    private let halfGap: Int64

    /// The rules for the non-renewing products of `group` in `catalog`; `nil` if it has none whose time ends. An app
    /// writes no date for a product that never ends.
    package init?(_ catalog: Catalog, group: GroupID) {
        let products = catalog.products.compactMap { product -> (ProductID, CalendarDuration)? in
            guard case .nonRenewing(group, let duration) = product.kind, duration != .forever else { return nil }
            return (product.id, duration)
        }
        guard !products.isEmpty else { return nil }
        let start = Timestamp(milliseconds: 0)
        let lengths = Set(products.map { start.adding($0.1).milliseconds }).union([0]).sorted()
        halfGap = (zip(lengths, lengths.dropFirst()).map { $1 - $0 }.min() ?? 0) / 2
        tolerance = min(4 * Self.day, halfGap)
        self.products = products.sorted { (start.adding($0.1), $0.0) < (start.adding($1.1), $1.0) }
    }

    /// The facts from which a written date is judged.
    package struct Situation: Sendable {
        /// The dates of the installation that writes, in all accounts.
        package var own: SeenDates
        /// The dates of the other installations of the account.
        package var others: [SeenDates] = []
        /// The derived end of the group; `nil` if nothing was ever bought.
        package var end: Timestamp?
        /// The ends of the account's assertions in the group, such as imported dates.
        package var asserted: [Timestamp] = []
        /// The dates of the account that were imported. Writing one of them again is an echo of the old server.
        package var imported: [Timestamp] = []
        /// True if the installation has written this date to the account before.
        package var isRepeated = false
        /// The server's time.
        package var now: Timestamp

        /// The situation of an installation.
        package init(own: SeenDates, now: Timestamp) { (self.own, self.now) = (own, now) }
    }

    /// The meaning of a written date.
    package enum Outcome: Hashable, Sendable {
        /// It adds nothing, for this reason.
        case nothing(Reason)
        /// A purchase of a product, dated now.
        case purchase(ProductID)
        /// An assertion until a date, made now. `isConflict` is true if no sum of products explains the written date.
        case assertion(until: Timestamp, isConflict: Bool)

        /// The reason for which a date adds nothing.
        package enum Reason: Hashable, Sendable { case repeated, echo, lower }
    }

    /// The meaning of `written`.
    package func outcome(of written: Timestamp, in situation: Situation) -> Outcome {
        // R1, R2.
        if situation.isRepeated { return .nothing(.repeated) }
        let isImported = situation.imported.contains { abs($0.milliseconds - written.milliseconds) <= 1_000 }
        if isImported || situation.own.contains(written) { return .nothing(.echo) }
        // R3. The order matters: the same sum may be reached from two dates, from one of them by chance.
        let (now, end) = (situation.now, situation.end)
        let own = situation.own.bases + situation.imported + [now]
        let known = [end].compactMap { $0 } + situation.asserted
        let others = situation.others.flatMap(\.bases)
        let product =
            product(from: own, to: written, where: Self.isCalendarStep)
            ?? recentProduct(to: written, now)
            ?? product(from: own + known + others, to: written) { _ in true }
        if let product { return .purchase(product) }
        let current = max(end ?? now, now)
        // R4. An earlier purchase of the installation never arrived.
        for base in own + known {
            for (index, first) in products.enumerated() {
                for second in products[index...] where isSum(base.adding(first.duration), second.duration, written) {
                    let until = current.adding(first.duration).adding(second.duration)
                    return .assertion(until: until, isConflict: false)
                }
            }
        }
        // R5. The clock of the device is wrong.
        let nearest = products.map { ($0.id, abs(now.adding($0.duration).milliseconds - written.milliseconds)) }
            .min { $0.1 < $1.1 }
        if let nearest, nearest.1 < halfGap { return .purchase(nearest.0) }
        // R6, R8.
        let longest = products.last?.duration ?? .zero
        let until = min(written, current.adding(longest))
        return until > current ? .assertion(until: until, isConflict: true) : .nothing(.lower)
    }

    /// The product whose duration leads from the first possible date of `bases` to `written`.
    ///
    /// - Parameter isPossible: Accepts a difference in milliseconds.
    private func product(
        from bases: [Timestamp], to written: Timestamp, where isPossible: (Int64) -> Bool
    ) -> ProductID? {
        for base in bases {
            let near = products.map { ($0.id, abs(base.adding($0.duration).milliseconds - written.milliseconds)) }
                .filter { $0.1 <= tolerance && isPossible($0.1) }.min { $0.1 < $1.1 }
            if let near { return near.0 }
        }
        return nil
    }

    /// Returns `true` for the difference between two calendars that add the same months to the same date: whole days,
    /// or an hour of daylight saving time, up to a second.
    private static func isCalendarStep(_ difference: Int64) -> Bool {
        let second: Int64 = 1_000
        let part = difference % day
        return min(part, day - part) <= second || abs(difference - 3_600 * second) <= second
    }

    /// The product of a purchase in the last day, up to ten minutes, whose date arrives late.
    private func recentProduct(to written: Timestamp, _ now: Timestamp) -> ProductID? {
        let (earliest, slack) = (Timestamp(milliseconds: now.milliseconds - Self.day), Int64(600_000))
        return products.first { product in
            let first = earliest.adding(product.duration).milliseconds - slack
            return (first...now.adding(product.duration).milliseconds + slack).contains(written.milliseconds)
        }?.id
    }

    private func isSum(_ base: Timestamp, _ duration: CalendarDuration, _ written: Timestamp) -> Bool {
        abs(base.adding(duration).milliseconds - written.milliseconds) <= tolerance
    }
}
