import Entitlements

/// A drawing of a group's periods in 80 columns: a bar for each purchase, a cross at a revocation, dots for gaps, and a
/// mark for the current time.
struct TimelineDrawing {
    let subscription: Snapshot.Subscription
    let timeline: Timeline
    let now: Timestamp

    private static let width = 80
    private static let labelWidth = 18
    private static let barWidth = 60

    var text: String {
        let summary = ": \(subscription.summary)"
        let head = subscription.group.rawValue.fitting(columns: Self.width - summary.columnCount) + summary
        guard let span else { return head }
        var lines = [head, ""]
        lines += axis(span)
        for period in timeline.contributions { lines.append(row(for: period, span)) }
        lines.append(label("covered") + coverage(span))
        if span.contains(now) { lines.append(label("now") + marker(at: column(of: now, span), date(now, span))) }
        lines += ["", "█ a period   × revoked   · a gap"]
        return lines.map { line in String(line.reversed().drop { $0 == " " }.reversed()) }.joined(separator: "\n")
    }

    /// The time that the drawing covers: all periods, and the current time unless it is far away. A period that never
    /// ends is drawn to a month after the last known instant.
    private var span: ClosedRange<Timestamp>? {
        var instants = timeline.contributions.flatMap { period in
            [period.start, period.end] + [period.revokedAt].compactMap { $0 }
        }
        if instants.contains(.latest) {
            instants.removeAll { $0 == .latest }
            instants.append(max(now, instants.max() ?? now).adding(CalendarDuration(months: 1)))
        }
        guard let first = instants.min(), let last = instants.max() else { return nil }
        // A distant current time would compress the periods into a few columns.
        let reach = max((last.milliseconds - first.milliseconds) / 4, 86_400_000)
        let isNear = now.milliseconds >= first.milliseconds - reach && now.milliseconds <= last.milliseconds + reach
        return isNear ? min(first, now)...max(last, now) : first...max(last, first)
    }

    private func column(of instant: Timestamp, _ span: ClosedRange<Timestamp>) -> Int {
        let whole = Double(max(1, span.upperBound.milliseconds - span.lowerBound.milliseconds))
        let part = Double(instant.milliseconds - span.lowerBound.milliseconds)
        return min(Self.barWidth - 1, max(0, Int((part / whole * Double(Self.barWidth)).rounded(.down))))
    }

    private func axis(_ span: ClosedRange<Timestamp>) -> [String] {
        var dates = ""
        var ticks = ""
        for step in 0..<4 {
            let part = Int64(step) * (span.upperBound.milliseconds - span.lowerBound.milliseconds) / 4
            let instant = Timestamp(milliseconds: span.lowerBound.milliseconds + part)
            let width = Self.barWidth / 4
            dates += padded(date(instant, span), to: width)
            ticks += padded("┬", to: width, with: "─")
        }
        return [label("") + dates, label("") + ticks]
    }

    private func row(for period: Period, _ span: ClosedRange<Timestamp>) -> String {
        var cells = [Character](repeating: " ", count: Self.barWidth)
        if !period.isEmpty { fill(&cells, from: period.start, to: period.end, span) }
        if let revokedAt = period.revokedAt, span.contains(revokedAt) { cells[column(of: revokedAt, span)] = "×" }
        return label(period.label) + String(cells)
    }

    private func coverage(_ span: ClosedRange<Timestamp>) -> String {
        var cells = [Character](repeating: " ", count: Self.barWidth)
        let chains = timeline.chains
        for (chain, next) in zip(chains, chains.dropFirst()) {
            for cell in column(of: chain.end, span)...column(of: next.start, span) { cells[cell] = "·" }
        }
        for chain in chains { fill(&cells, from: chain.start, to: chain.end, span) }
        return String(cells)
    }

    private func fill(
        _ cells: inout [Character], from start: Timestamp, to end: Timestamp, _ span: ClosedRange<Timestamp>
    ) {
        let first = column(of: start, span)
        let last = column(of: Timestamp(milliseconds: end.milliseconds - 1), span)
        for cell in first...max(first, last) { cells[cell] = "█" }
    }

    /// The mark under a column, with the date on the side that has enough space.
    private func marker(at column: Int, _ date: String) -> String {
        column + 2 + date.count <= Self.barWidth
            ? padded("", to: column) + "▲ \(date)" : padded("", to: column - date.count - 1) + "\(date) ▲"
    }

    private func label(_ text: String) -> String {
        padded(text.fitting(columns: Self.labelWidth - 1), to: Self.labelWidth)
    }

    private func padded(_ text: String, to width: Int, with filler: Character = " ") -> String {
        text + String(repeating: filler, count: max(0, width - text.columnCount))
    }

    /// The day, or in a drawing of less than a day, as accelerated time gives it, the time of day.
    private func date(_ instant: Timestamp, _ span: ClosedRange<Timestamp>) -> String {
        let length = span.upperBound.milliseconds - span.lowerBound.milliseconds
        return (1..<86_400_000).contains(length)
            ? String("\(instant)".dropFirst(11).prefix(8)) : String("\(instant)".prefix(10))
    }
}
