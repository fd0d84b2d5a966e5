public import CoreMetrics
import Synchronization

/// Keeps what swift-metrics is told, and writes it as Prometheus reads it (text exposition format 0.0.4).
///
/// Counters and gauges stand as they are; timers and aggregated recorders are histograms, timers in seconds.
public final class PrometheusMetrics: MetricsFactory {
    private struct Key: Hashable, Comparable {
        var name: String
        var labels: String

        static func < (left: Key, right: Key) -> Bool { (left.name, left.labels) < (right.name, right.labels) }
    }

    private let instruments = Mutex<[Key: any Instrument]>([:])

    /// Nothing has been counted yet.
    public init() {}

    /// A counter; its name should end in `_total`.
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        instrument(label, dimensions, CounterInstrument())
    }

    /// A gauge.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        instrument(label, dimensions, GaugeInstrument())
    }

    /// A histogram, or a gauge where nothing is to be aggregated.
    public func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        if aggregate { return instrument(label, dimensions, HistogramInstrument()) }
        return instrument(label, dimensions, GaugeInstrument())
    }

    /// A histogram of seconds.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        instrument(label, dimensions, HistogramInstrument())
    }

    /// Counters are kept, or they would begin anew.
    public func destroyCounter(_ handler: any CounterHandler) {}
    /// Gauges are kept.
    public func destroyMeter(_ handler: any MeterHandler) {}
    /// Histograms are kept.
    public func destroyRecorder(_ handler: any RecorderHandler) {}
    /// Histograms are kept.
    public func destroyTimer(_ handler: any TimerHandler) {}

    /// Everything, in the order of the names.
    public func text() -> String {
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

    /// The instrument of that name; one of another kind that has the name already goes on alone, and is not shown.
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

/// Something that is measured.
protocol Instrument: Sendable {
    /// As Prometheus calls it.
    var type: String { get }
    func write(name: String, labels: String, to text: inout String)
}

enum PrometheusText {
    /// `text` with an underscore for everything that a name cannot have.
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
