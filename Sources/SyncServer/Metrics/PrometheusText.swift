/// Metrics in the Prometheus text format 0.0.4.
struct PrometheusText {
    /// The kind of a metric with single values.
    enum Kind: String {
        case counter, gauge
    }

    /// The text so far.
    private(set) var lines = ""

    /// Adds a metric, with its values in the order of their labels. Adds nothing without values.
    mutating func add(_ name: String, _ kind: Kind, _ values: [(labels: String, value: some CustomStringConvertible)]) {
        guard !values.isEmpty else { return }
        lines += "# TYPE \(name) \(kind.rawValue)\n"
        for (labels, value) in values.sorted(by: { $0.labels < $1.labels }) { addLine(name, labels, value) }
    }

    /// Adds a metric with histograms, in the order of their labels. Adds nothing without values.
    mutating func add(_ name: String, _ values: [(labels: String, value: Histogram)]) {
        guard !values.isEmpty else { return }
        lines += "# TYPE \(name) histogram\n"
        for (labels, histogram) in values.sorted(by: { $0.labels < $1.labels }) {
            var count = 0
            for (bound, more) in zip(Histogram.bounds.map { "\($0)" } + ["+Inf"], histogram.counts) {
                count += more
                addLine("\(name)_bucket", "\(labels),le=\"\(bound)\"", count)
            }
            addLine("\(name)_sum", labels, histogram.sum)
            addLine("\(name)_count", labels, count)
        }
    }

    private mutating func addLine(_ name: String, _ labels: String, _ value: some CustomStringConvertible) {
        lines += labels.isEmpty ? "\(name) \(value)\n" : "\(name){\(labels)} \(value)\n"
    }
}

/// A distribution of durations.
struct Histogram {
    /// Upper bounds in seconds, from a response out of the cache to a password hash on a busy machine.
    static let bounds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

    /// The number of durations up to each bound and above the one before, and of those above all bounds.
    private(set) var counts = [Int](repeating: 0, count: bounds.count + 1)
    /// The sum of all durations, in seconds.
    private(set) var sum = 0.0

    /// Adds a duration in seconds.
    mutating func add(_ seconds: Double) {
        counts[Self.bounds.firstIndex { seconds <= $0 } ?? Self.bounds.count] += 1
        sum += seconds
    }

    static func + (left: Histogram, right: Histogram) -> Histogram {
        var both = left
        for (index, count) in right.counts.enumerated() { both.counts[index] += count }
        both.sum += right.sum
        return both
    }
}
