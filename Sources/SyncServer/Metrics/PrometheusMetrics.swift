package import CoreMetrics
import Synchronization

/// A swift-metrics backend that exports its values in the Prometheus text format 0.0.4.
///
/// Counters and meters become counters and gauges. Timers (in seconds) and aggregated recorders become histograms.
package final class PrometheusMetrics: MetricsFactory {
    private struct Key: Hashable, Comparable {
        var name: String
        var labels: String

        static func < (left: Key, right: Key) -> Bool { (left.name, left.labels) < (right.name, right.labels) }
    }

    private let instruments = Mutex<[Key: any Instrument]>([:])

    /// Creates a factory without instruments.
    package init() {}

    /// Returns a counter. By convention its name ends in `_total`.
    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        instrument(label, dimensions, CounterInstrument())
    }

    /// Returns a gauge.
    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        instrument(label, dimensions, GaugeInstrument())
    }

    /// Returns a histogram, or a gauge if `aggregate` is false.
    package func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        if aggregate { return instrument(label, dimensions, HistogramInstrument()) }
        return instrument(label, dimensions, GaugeInstrument())
    }

    /// Returns a histogram of seconds.
    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        instrument(label, dimensions, HistogramInstrument())
    }

    /// Does nothing: a counter that was created again would restart at 0.
    package func destroyCounter(_ handler: any CounterHandler) {}
    /// Does nothing: gauges are kept.
    package func destroyMeter(_ handler: any MeterHandler) {}
    /// Does nothing: histograms are kept.
    package func destroyRecorder(_ handler: any RecorderHandler) {}
    /// Does nothing: histograms are kept.
    package func destroyTimer(_ handler: any TimerHandler) {}

    /// The text of all instruments, sorted by name.
    package func text() -> String {
        let all = instruments.withLock { Array($0) }.sorted { $0.key < $1.key }
        var text = ""
        var last = ""
        for (key, instrument) in all {
            if key.name != last {
                text += "# TYPE \(key.name) \(instrument.type)\n"
                last = key.name
            }
            instrument.write(name: key.name, labels: key.labels, to: &text)
        }
        return text
    }

    /// Returns the existing instrument of that name and labels, or registers `new`. If one of another kind has the name
    /// already, returns `new` unregistered: it works, but is not exported.
    private func instrument<New: Instrument>(_ label: String, _ dimensions: [(String, String)], _ new: New) -> New {
        let labels = dimensions.map { "\(PrometheusText.name($0))=\"\(PrometheusText.escaped($1))\"" }
        let key = Key(name: PrometheusText.name(label), labels: labels.sorted().joined(separator: ","))
        return instruments.withLock { instruments in
            if let known = instruments[key] { return known as? New ?? new }
            instruments[key] = new
            return new
        }
    }
}

/// An instrument that can write its value.
protocol Instrument: Sendable {
    /// The Prometheus type: `counter`, `gauge` or `histogram`.
    var type: String { get }
    func write(name: String, labels: String, to text: inout String)
}

enum PrometheusText {
    /// Replaces each character that is not allowed in a metric name with an underscore.
    static func name(_ text: String) -> String {
        let name = String(
            text.unicodeScalars.map { scalar -> Character in
                let isFine = scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
                return isFine || scalar == "_" || scalar == ":" ? Character(scalar) : "_"
            })
        return name.first?.isNumber ?? true ? "_" + name : name
    }

    static func escaped(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }

    static func line(_ name: String, _ labels: String, _ value: some CustomStringConvertible) -> String {
        labels.isEmpty ? "\(name) \(value)\n" : "\(name){\(labels)} \(value)\n"
    }
}
