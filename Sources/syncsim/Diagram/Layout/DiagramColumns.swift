import SyncSimulation

/// The horizontal position of a lane, in whole pixels from the left edge of the first lane.
struct DiagramColumn: Hashable, Sendable {
    var left: Int
    var right: Int
    /// The lane's line.
    var line: Int
    /// The left edge of the bar of each group.
    var bars: [Int] = []
    /// The range for labels. Labels of a device's store use the device's range, since no two events share a row.
    var labels: Range<Int>
    /// True if labels are to the left of the line, aligned at their end.
    var labelsEnd = false
    /// The index of its panel. A device and its store share one.
    var panel: Int

    /// The end of a lost message that comes from `x`: before the line, and not across a label.
    func end(ofLostFrom x: Int) -> Int {
        guard (x > line) != labelsEnd else { return x > line ? line + 20 : line - 20 }
        return labelsEnd ? labels.lowerBound + 6 : labels.upperBound - 6
    }

    /// Extends a label over other lanes, on the side with more room.
    mutating func spreadLabels(over width: Int) {
        labelsEnd = line > width - line
        labels = labelsEnd ? min(4, line - 18)..<line - 18 : line + 18..<max(width - 4, line + 18)
    }
}

/// A device with its store, or the remote, drawn as one block.
struct DiagramPanel: Hashable, Sendable {
    var lanes: [Int]
    var left: Int
    var right: Int
}

/// The columns of all lanes.
struct DiagramColumns: Sendable {
    private(set) var columns: [DiagramColumn] = []
    private(set) var panels: [DiagramPanel] = []
    private(set) var width = 0

    static let barWidth = 8
    private static let gap = 7
    /// The width of the strip at the left edge that marks a wrong clock.
    static let stripWidth = 7
    /// The width of a date in labels, with what precedes it.
    private static let dateRoom = 92

    init(_ story: DiagramStory) {
        let replicas = story.lanes.count { $0.kind == .replica }
        let room = Self.dateRoom + (story.groups.count > 1 ? 14 : 0) + (replicas > 2 ? 0 : 24)
        for (index, lane) in story.lanes.enumerated() {
            let follows = index > 0 && story.lanes[index - 1].kind == .replica
            switch lane.kind {
            case .replica: addReplica(index, bars: story.groups.count, room: room)
            case .localStore where follows: addStore(index)
            case .localStore, .remote: addAlone(index, room: room)
            }
        }
    }

    private mutating func addReplica(_ lane: Int, bars count: Int, room: Int) {
        let left = start()
        let firstBar = left + Self.stripWidth + 3
        let bars = (0..<count).map { firstBar + $0 * (Self.barWidth + 1) }
        let line = firstBar + count * (Self.barWidth + 1) + 9
        let labels = line + 11..<line + 11 + room
        append(
            lane,
            DiagramColumn(left: left, right: labels.upperBound + 4, line: line, bars: bars, labels: labels, panel: 0))
    }

    private mutating func addStore(_ lane: Int) {
        guard let device = columns.last else { return }
        let line = device.right + 7
        width = line + 8
        columns.append(
            DiagramColumn(
                left: device.right, right: width, line: line, labels: device.labels, labelsEnd: true,
                panel: panels.count - 1))
        panels[panels.count - 1].lanes.append(lane)
        panels[panels.count - 1].right = width
    }

    private mutating func addAlone(_ lane: Int, room: Int) {
        let left = start()
        let line = left + 28
        let labels = line + 11..<line + 11 + room
        append(lane, DiagramColumn(left: left, right: labels.upperBound + 4, line: line, labels: labels, panel: 0))
    }

    private func start() -> Int { columns.isEmpty ? 0 : width + Self.gap }

    private mutating func append(_ lane: Int, _ column: DiagramColumn) {
        var column = column
        column.panel = panels.count
        columns.append(column)
        panels.append(DiagramPanel(lanes: [lane], left: column.left, right: column.right))
        width = column.right
    }

    /// The column of a lane; `nil` if the trace has no such lane.
    subscript(lane: Int) -> DiagramColumn? { columns.indices.contains(lane) ? columns[lane] : nil }
}
