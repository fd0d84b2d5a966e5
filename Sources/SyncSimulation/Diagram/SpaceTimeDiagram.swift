/// Draws a trace as one self-contained HTML page.
///
/// Time goes down the page. Each device has a column with the store on it beside it, and the remote has its own.
/// Each event has a row of equal height, so that a burst of milliseconds is as readable as a year; where time passes
/// without events, the page says how much. Equal input gives equal bytes. The page loads nothing from anywhere, and can
/// be read without JavaScript.
///
/// ```swift
/// let diagram = SpaceTimeDiagram(
///     trace, title: "Seed 42", subtitle: "latestExpiryWins", violations: violations, epoch: 1_767_225_600_000)
/// let page = diagram.html
/// ```
public struct SpaceTimeDiagram: Sendable {
    private let title: String
    private let subtitle: String
    private let story: DiagramStory

    /// - Parameters:
    ///   - trace: what happened. An event on a lane that the trace does not have is told and not drawn.
    ///   - title: the page's heading.
    ///   - subtitle: seed, rules, what was violated: a line below the heading.
    ///   - violations: what must not have happened. Those that the trace does not contain get an event of their own at
    ///     their time; those that only the trace contains are listed all the same.
    ///   - epoch: the beginning of the run in milliseconds since 1970 UTC, for dates.
    public init(_ trace: Trace, title: String, subtitle: String, violations: [Violation], epoch: Int64) {
        self.title = title
        self.subtitle = subtitle
        story = DiagramStory(trace, violations: violations, epoch: epoch)
    }

    /// The whole page.
    public var html: String {
        let page = DiagramPage(title: title, subtitle: subtitle, story: story, layout: DiagramLayout(story))
        return page.html
    }
}
