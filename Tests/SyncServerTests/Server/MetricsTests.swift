import CoreMetrics
import HTTPTypes
import Testing

@testable import SyncServer

@Suite("Metrics and HTTP dates")
struct MetricsTests {
    @Test("Counters, gauges and histograms are written in the Prometheus text format")
    func text() {
        let metrics = PrometheusMetrics()
        let counter = Counter(label: "b.total", dimensions: [("z", "1"), ("a", "x\"y\\z\nw")], factory: metrics)
        counter.increment(by: 2)
        Counter(label: "b.total", dimensions: [("a", "x\"y\\z\nw"), ("z", "1")], factory: metrics).increment()
        Meter(label: "9lives", factory: metrics).set(1.5)
        let timer = CoreMetrics.Timer(label: "c_seconds", factory: metrics)
        timer.recordNanoseconds(2_000_000)
        timer.recordNanoseconds(7_000_000_000)
        let lines = metrics.text().split(separator: "\n").map(String.init)
        #expect(lines[0] == "# TYPE _9lives gauge")
        #expect(lines[1] == "_9lives 1.5")
        #expect(lines[2] == "# TYPE b_total counter")
        #expect(lines[3] == #"b_total{a="x\"y\\z\nw",z="1"} 3"#)
        #expect(lines[4] == "# TYPE c_seconds histogram")
        #expect(lines.contains(#"c_seconds_bucket{le="0.001"} 0"#))
        #expect(lines.contains(#"c_seconds_bucket{le="0.0025"} 1"#))
        #expect(lines.contains(#"c_seconds_bucket{le="+Inf"} 2"#))
        #expect(lines.suffix(2) == ["c_seconds_sum 7.002", "c_seconds_count 2"])
    }

    @Test("An instrument is not exported if its name belongs to an instrument of another kind")
    func clash() {
        let metrics = PrometheusMetrics()
        Counter(label: "a", factory: metrics).increment()
        Meter(label: "a", factory: metrics).set(7)
        #expect(metrics.text() == "# TYPE a counter\na 1\n")
    }

    @Test("Unknown methods share one label")
    func methods() throws {
        #expect(ServerMetrics.name(of: .get) == "GET")
        #expect(ServerMetrics.name(of: try #require(HTTPRequest.Method("BREW"))) == "other")
    }

    @Test("Dates have the format of RFC 9110, including in leap years and at the end of a year")
    func dates() {
        for (seconds, text) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"), (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] as [(Int64, String)] {
            #expect(DateField.text(milliseconds: seconds * 1_000 + 999) == text)
        }
        #expect(DateField.text(milliseconds: -1) == "Thu, 01 Jan 1970 00:00:00 GMT")
    }
}
