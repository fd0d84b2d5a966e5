import SyncSimulation

/// A run as one self-contained HTML page: a static page, and the run as JSON in it.
///
/// The page draws the run with JavaScript and loads nothing. Equal input gives equal bytes.
struct Drawing: Codable {
    /// The heading of the page.
    var title: String
    /// A line below the heading.
    var subtitle: String
    /// The start of the run in milliseconds since 1970 UTC, for dates.
    var epoch = Simulation.epoch
    /// An event on a lane that the trace does not have is listed but not drawn.
    var trace: Trace
    /// Those that are missing in the trace get an event at their time.
    var violations: [Violation]

    /// The whole page.
    func html() throws -> String {
        // Only strings contain `<`. Escaped, no text can end the element or start a comment in it.
        let run = try json([]).replacing("<", with: #"\u003c"#)
        let start = #"<script type="application/json" id="run">"#
        return String(decoding: PackageResources.diagram_html, as: UTF8.self)
            .replacing(start, with: start + run, maxReplacements: 1)
    }
}
