import SyncSimulation

/// The position of every element, in whole pixels from the top left corner of the lanes. A pure value.
struct DiagramLayout: Sendable {
    let columns: DiagramColumns
    let rows: DiagramRows
    let journeys: [DiagramJourney]
    let beliefs: [DiagramBelief]
    let bands: [DiagramBand]
    let lives: [DiagramLife]
    let activities: [DiagramActivity]
    let labels: [DiagramLabel]

    var width: Int { columns.width }
    var height: Int { rows.height }

    init(_ story: DiagramStory) {
        let columns = DiagramColumns(story)
        let rows = DiagramRows(story)
        let beliefs = DiagramBelief.all(in: story, columns, rows)
        self.columns = columns
        self.rows = rows
        self.beliefs = beliefs
        journeys = DiagramJourney.all(in: story, columns, rows)
        bands =
            story.lanes.indices.flatMap { DiagramBand.down(on: $0, story, columns, rows) }
            + DiagramBand.disturbances(story, columns, rows)
        lives = story.lanes.indices.flatMap { DiagramLife.all(on: $0, story, rows) }
        activities = DiagramActivity.all(story, rows)
        labels = DiagramLabel.all(story, columns, rows, beliefs)
    }
}
