import SyncSimulation

/// A shaded part of a lane: a period with a fault.
struct DiagramBand: Hashable, Sendable {
    /// The kind of fault.
    enum Kind: String, Hashable, Sendable, CaseIterable {
        case cutOutgoing, cutIncoming, full, wrongClock
        /// No process runs.
        case down
    }

    var kind: Kind
    var lane: Int
    var left: Int
    var right: Int
    var top: Int
    var bottom: Int
    /// The event that started it.
    var event: Int
}

/// A period in which a process runs, or does not run.
struct DiagramLife: Hashable, Sendable {
    var lane: Int
    var process: Int
    var isAlive: Bool
    var top: Int
    var bottom: Int
}

/// A step, from its start to its end.
struct DiagramActivity: Hashable, Sendable {
    var lane: Int
    var step: Int
    var isFailure: Bool
    var top: Int
    var bottom: Int
}

extension DiagramBand {
    /// The bands of declared disturbances, and of clocks that were moved and not moved back.
    static func disturbances(_ story: DiagramStory, _ columns: DiagramColumns, _ rows: DiagramRows) -> [DiagramBand] {
        var bands: [DiagramBand] = []
        for (index, event) in story.events.enumerated() {
            guard case .disturbed(let disturbance, let end, _) = event.kind, let column = columns[event.lane],
                let kind = Kind(rawValue: disturbance.rawValue)
            else { continue }
            let top = rows.middle(ofEvent: index)
            let bottom = max(top + 4, rows.position(of: end, in: story) ?? rows.height)
            bands.append(
                DiagramBand(
                    kind: kind, lane: event.lane, left: column.left,
                    right: kind == .wrongClock ? column.left + DiagramColumns.stripWidth : column.right, top: top,
                    bottom: bottom,
                    event: index))
        }
        let declared = Set(bands.filter { $0.kind == .wrongClock }.map(\.lane))
        for lane in story.lanes.indices where !declared.contains(lane) {
            bands += movedClocks(on: lane, story, columns, rows)
        }
        return bands
    }

    private static func movedClocks(
        on lane: Int, _ story: DiagramStory, _ columns: DiagramColumns, _ rows: DiagramRows
    ) -> [DiagramBand] {
        guard let column = columns[lane] else { return [] }
        var bands: [DiagramBand] = []
        var offset: Int64 = 0
        for (index, event) in story.events.enumerated() where event.lane == lane {
            guard case .clockMoved(let amount) = event.kind else { continue }
            let y = rows.middle(ofEvent: index)
            if offset != 0 { bands[bands.count - 1].bottom = y }
            offset = offset.addingReportingOverflow(amount).partialValue
            guard offset != 0 else { continue }
            bands.append(
                DiagramBand(
                    kind: .wrongClock, lane: lane, left: column.left, right: column.left + DiagramColumns.stripWidth,
                    top: y,
                    bottom: rows.height, event: index))
        }
        return bands
    }
}

extension DiagramLife {
    /// The lifelines of the processes on a lane. A process whose first event is not its start runs from the beginning;
    /// a lane without such events has one lifeline without an end.
    static func all(on lane: Int, _ story: DiagramStory, _ rows: DiagramRows) -> [DiagramLife] {
        var lives: [DiagramLife] = []
        for (index, event) in story.events.enumerated() where event.lane == lane {
            let (process, isStart): (Int, Bool)
            switch event.kind {
            case .started(let number): (process, isStart) = (number, true)
            case .crashed(let number): (process, isStart) = (number, false)
            default: continue
            }
            let y = rows.middle(ofEvent: index)
            if let last = lives.lastIndex(where: { $0.process == process }) {
                lives[last].bottom = y
            } else if process == 0 || !isStart {
                lives.append(DiagramLife(lane: lane, process: process, isAlive: !isStart, top: 0, bottom: y))
            }
            lives.append(DiagramLife(lane: lane, process: process, isAlive: isStart, top: y, bottom: rows.height))
        }
        if lives.isEmpty { lives = [DiagramLife(lane: lane, process: 0, isAlive: true, top: 0, bottom: rows.height)] }
        return lives.filter { $0.bottom > $0.top }
    }
}

extension DiagramBand {
    /// The periods between a crash and the next start in which no process of a lane runs.
    static func down(on lane: Int, _ story: DiagramStory, _ columns: DiagramColumns, _ rows: DiagramRows)
        -> [DiagramBand]
    {
        guard let column = columns[lane] else { return [] }
        var bands: [DiagramBand] = []
        var running: Set<Int>?
        for (index, event) in story.events.enumerated() where event.lane == lane {
            let y = rows.middle(ofEvent: index)
            switch event.kind {
            case .started(let process):
                if running?.isEmpty == true, !bands.isEmpty { bands[bands.count - 1].bottom = y }
                running = (running ?? []).union([process])
            case .crashed(let process):
                running = (running ?? []).subtracting([process])
                guard running?.isEmpty == true else { continue }
                if let last = bands.last, last.bottom == rows.height { continue }
                bands.append(
                    DiagramBand(
                        kind: .down, lane: lane, left: column.left, right: column.right, top: y, bottom: rows.height,
                        event: index))
            default: continue
            }
        }
        return bands
    }
}

extension DiagramActivity {
    /// The steps that started and ended on the same lane.
    static func all(_ story: DiagramStory, _ rows: DiagramRows) -> [DiagramActivity] {
        var begun: [Int: (lane: Int, top: Int)] = [:]
        var activities: [DiagramActivity] = []
        for (index, event) in story.events.enumerated() {
            switch event.kind {
            case .begun(let step, _): begun[step] = (event.lane, rows.middle(ofEvent: index))
            case .ended(let step, _, let isFailure):
                guard let start = begun.removeValue(forKey: step), start.lane == event.lane else { continue }
                activities.append(
                    DiagramActivity(
                        lane: event.lane, step: step, isFailure: isFailure, top: start.top,
                        bottom: rows.middle(ofEvent: index)))
            default: continue
            }
        }
        return activities
    }
}
