import SyncSimulation

/// The expiry that a replica derives for a group during a period, as a bar along its line.
struct DiagramBelief: Hashable, Sendable {
    var lane: Int
    var group: String
    var expires: Int64?
    var isActive: Bool
    /// The index of the colour. Equal expiries have the same colour on all lanes, so replicas that agree look alike.
    var color: Int
    var left: Int
    var top: Int
    var bottom: Int
    /// The event that started it.
    var event: Int

    /// The number of colours; the ninth expiry reuses the first one.
    static let colorCount = 8
}

extension DiagramBelief {
    /// All bars of a story, lane by lane.
    static func all(in story: DiagramStory, _ columns: DiagramColumns, _ rows: DiagramRows) -> [DiagramBelief] {
        var beliefs: [DiagramBelief] = []
        var expiries: [Int64?] = []
        for (index, event) in story.events.enumerated() {
            guard case .believes(let group, let expires, let isActive) = event.kind, story.isChange(index),
                let position = story.groups.firstIndex(of: group), let column = columns[event.lane],
                column.bars.indices.contains(position)
            else { continue }
            if !expiries.contains(expires) { expiries.append(expires) }
            let y = rows.middle(ofEvent: index)
            if let previous = beliefs.lastIndex(where: { $0.lane == event.lane && $0.group == group }) {
                beliefs[previous].bottom = y
            }
            beliefs.append(
                DiagramBelief(
                    lane: event.lane, group: group, expires: expires, isActive: isActive,
                    color: (expiries.firstIndex(of: expires) ?? 0) % colorCount, left: column.bars[position], top: y,
                    bottom: rows.height, event: index))
        }
        return beliefs
    }
}
