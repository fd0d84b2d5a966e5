import SyncSimulation

/// A text on a lane, truncated to the available width.
struct DiagramLabel: Hashable, Sendable {
    /// The style of a label.
    enum Style: Hashable, Sendable {
        case plain
        case failure
        case trouble
        case violation
        /// A new expiry, in the colour of its bar.
        case belief(color: Int, isActive: Bool)
        /// An unchanged expiry, repeated after a pause.
        case reminder
    }

    var text: String
    var lane: Int
    var style: Style
    var left: Int
    var top: Int
    var width: Int
    var height: Int
    /// True if the text is aligned at the right edge.
    var endsRight: Bool
    /// The event that it belongs to.
    var event: Int

    var right: Int { left + width }
    var bottom: Int { top + height }

    /// The width of a character in tenths of a pixel: 0.602 em of 10.5 px, the widest of the usual monospaced fonts.
    private static let tenthsPerCell = 64
    static let lineHeight = 14

    /// A label in the range of `column`, centred vertically at `middle`, with `reserve` pixels kept free at the far
    /// end.
    init(
        _ text: String, _ style: Style, event: Int, lane: Int, in column: DiagramColumn, middle: Int, reserve: Int = 0
    ) {
        let room = column.labels.count - reserve
        let cells = room * 10 / Self.tenthsPerCell
        let fitting = Self.fit(text, cells: cells)
        self.text = fitting.text
        width = min((fitting.cells * Self.tenthsPerCell + 9) / 10, room)
        left = column.labelsEnd ? column.labels.upperBound - width : column.labels.lowerBound
        height = Self.lineHeight
        top = middle - Self.lineHeight / 2
        endsRight = column.labelsEnd
        self.lane = lane
        self.style = style
        self.event = event
    }

    /// The longest prefix of `text` that fits into `cells` character cells.
    static func fit(_ text: String, cells: Int) -> (text: String, cells: Int) {
        let text = Markup.visible(text)
        let total = text.reduce(0) { $0 + width(of: $1) }
        if total <= cells { return (text, total) }
        var (kept, used) = ("", 0)
        for character in text {
            let next = width(of: character)
            if used + next > cells - 1 { break }
            kept.append(character)
            used += next
        }
        return (kept + "\u{2026}", used + 1)
    }

    /// 1 for characters of the monospaced font, 2 for those that may come from a wider fallback font.
    private static func width(of character: Character) -> Int {
        guard let scalar = character.unicodeScalars.first else { return 0 }
        let isNarrow = scalar.value < 0x0500 || (0x2010...0x22FF).contains(scalar.value) || scalar.value == 0xFFFD
        let isArrowhead = scalar.value == 0x25B2 || scalar.value == 0x25BC
        return (isNarrow || isArrowhead) && character.unicodeScalars.count <= 2 ? 1 : 2
    }
}

extension DiagramLabel {
    /// All labels of a story, from top to bottom.
    static func all(
        _ story: DiagramStory, _ columns: DiagramColumns, _ rows: DiagramRows, _ beliefs: [DiagramBelief]
    ) -> [DiagramLabel] {
        let wording = DiagramWording(story: story)
        return rows.rows.flatMap { row -> [DiagramLabel] in
            switch row.content {
            case .pause(_, let next): return next == 0 ? [] : reminders(in: row, story, columns, beliefs)
            case .event(let index):
                guard let text = wording.label(for: index) else { return [] }
                let lane = lane(ofLabelFor: index, in: story)
                guard var column = columns[lane] else { return [] }
                if case .violated = story.events[index].kind { column.spreadLabels(over: columns.width) }
                let style = style(for: index, in: story, beliefs)
                let reserve = reserve(forLabelOf: index, in: story, columns, column)
                return [
                    DiagramLabel(
                        text, style, event: index, lane: lane, in: column, middle: row.middle, reserve: reserve)
                ]
            }
        }
    }

    /// The label for a lost message is at its end, near the target.
    private static func lane(ofLabelFor index: Int, in story: DiagramStory) -> Int {
        let event = story.events[index]
        guard case .lost(let message, _) = event.kind, let sending = story.sendings[message],
            case .sent(_, let target, _) = story.events[sending].kind
        else { return event.lane }
        return target
    }

    /// The width reserved for the cross of a lost message that comes from the side of the labels.
    private static func reserve(
        forLabelOf index: Int, in story: DiagramStory, _ columns: DiagramColumns, _ column: DiagramColumn
    ) -> Int {
        guard case .lost(let message, _) = story.events[index].kind, let sending = story.sendings[message],
            let start = columns[story.events[sending].lane]
        else { return 0 }
        return column.labels.contains(column.end(ofLostFrom: start.line)) ? 16 : 0
    }

    private static func style(for index: Int, in story: DiagramStory, _ beliefs: [DiagramBelief]) -> Style {
        switch story.events[index].kind {
        case .believes(_, _, let isActive):
            let color = beliefs.first { $0.event == index }?.color
            return color.map { .belief(color: $0, isActive: isActive) } ?? .plain
        case .ended(_, _, let isFailure): return isFailure ? .failure : .plain
        case .lost, .crashed, .disturbed, .clockMoved, .storeChanged: return .trouble
        case .violated: return .violation
        default: return .plain
        }
    }

    /// The expiries that are still in effect after a pause, so that the reader need not scroll back to the last
    /// change.
    private static func reminders(
        in row: DiagramRow, _ story: DiagramStory, _ columns: DiagramColumns, _ beliefs: [DiagramBelief]
    ) -> [DiagramLabel] {
        let wording = DiagramWording(story: story)
        return beliefs.filter { $0.top < row.top && $0.bottom > row.top }.compactMap { belief in
            guard let column = columns[belief.lane], let line = story.groups.firstIndex(of: belief.group)
            else { return nil }
            let words = wording.shortExpiry(belief.expires, isActive: belief.isActive, group: belief.group)
            let fromBottom = (story.groups.count - line) * DiagramRows.beliefHeight
            return DiagramLabel(
                words, .reminder, event: belief.event, lane: belief.lane,
                in: column, middle: row.bottom - 4 - fromBottom + DiagramRows.beliefHeight / 2)
        }
    }
}
