import SyncSimulation

/// Draws a trace as one self-contained HTML page.
///
/// Time runs down the page. Each device has a column with its store beside it, and the remote has its own column. All
/// events have rows of equal height, so a burst of milliseconds is as readable as a year; where time passes without
/// events, the page says how much. On a phone the diagram scrolls in a container of its own. Equal input gives equal
/// bytes. The page loads nothing and is readable without JavaScript.
///
/// ```swift
/// let diagram = SpaceTimeDiagram(
///     trace, title: "Seed 42", subtitle: "latestExpiryWins", violations: violations, epoch: 1_767_225_600_000)
/// let page = diagram.html
/// ```
struct SpaceTimeDiagram: Sendable {
    private let title: String
    private let subtitle: String
    private let story: DiagramStory

    /// - Parameters:
    ///   - trace: The trace to draw. An event on a lane that the trace does not have is listed but not drawn.
    ///   - title: The page's heading.
    ///   - subtitle: A line below the heading, such as seed and rules.
    ///   - violations: The violations of the run. Those that are missing in the trace get an event at their time;
    ///     those that only the trace contains are listed too.
    ///   - epoch: The start of the run in milliseconds since 1970 UTC, for dates.
    init(_ trace: Trace, title: String, subtitle: String, violations: [Violation], epoch: Int64) {
        self.title = title
        self.subtitle = subtitle
        story = DiagramStory(trace, violations: violations, epoch: epoch)
    }

    /// The whole page.
    var html: String {
        let page = DiagramPage(title: title, subtitle: subtitle, story: story, layout: DiagramLayout(story))
        return page.html
    }
}
