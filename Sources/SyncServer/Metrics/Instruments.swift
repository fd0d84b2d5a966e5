import CoreMetrics
import Synchronization

final class CounterInstrument: Instrument, CounterHandler {
    private let count = Atomic<Int64>(0)

    var type: String { "counter" }

    func increment(by amount: Int64) { count.wrappingAdd(amount, ordering: .relaxed) }
    func reset() { count.store(0, ordering: .relaxed) }

    func write(name: String, labels: String, to text: inout String) {
        text += PrometheusText.line(name, labels, count.load(ordering: .relaxed))
    }
}

final class GaugeInstrument: Instrument, MeterHandler, RecorderHandler {
    private let value = Mutex(0.0)

    var type: String { "gauge" }

    func set(_ value: Int64) { self.value.withLock { $0 = Double(value) } }
    func set(_ value: Double) { self.value.withLock { $0 = value } }
    func increment(by amount: Double) { value.withLock { $0 += amount } }
    func decrement(by amount: Double) { value.withLock { $0 -= amount } }
    func record(_ value: Int64) { set(value) }
    func record(_ value: Double) { set(value) }

    func write(name: String, labels: String, to text: inout String) {
        text += PrometheusText.line(name, labels, value.withLock { $0 })
    }
}

final class HistogramInstrument: Instrument, TimerHandler, RecorderHandler {
    /// Upper bounds in seconds, from an answer out of the cache to a password hash on a busy machine.
    private static let bounds = [
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5,
    ]

    private struct State {
        var counts = [Int](repeating: 0, count: HistogramInstrument.bounds.count + 1)
        var sum = 0.0
    }

    private let state = Mutex(State())

    var type: String { "histogram" }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }
    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        let index = Self.bounds.firstIndex { value <= $0 } ?? Self.bounds.count
        state.withLock { state in
            state.counts[index] += 1
            state.sum += value
        }
    }

    func write(name: String, labels: String, to text: inout String) {
        let state = state.withLock { $0 }
        let prefix = labels.isEmpty ? "" : labels + ","
        var count = 0
        for (bound, more) in zip(Self.bounds.map { "\($0)" } + ["+Inf"], state.counts) {
            count += more
            text += PrometheusText.line("\(name)_bucket", "\(prefix)le=\"\(bound)\"", count)
        }
        text += PrometheusText.line("\(name)_sum", labels, state.sum)
        text += PrometheusText.line("\(name)_count", labels, count)
    }
}
