import HTTPTypes
import SyncService
import Testing

@testable import SyncServer

@Suite("Metrics and HTTP dates")
struct MetricsTests {
    @Test("Counters, gauges and histograms are written in the Prometheus text format")
    func text() {
        let metrics = ServerMetrics()
        metrics.beginStream()
        metrics.set(feedAge: .milliseconds(1_500), projectionLag: nil)
        metrics.count(.quota)
        for (status, elapsed) in [(.ok, .milliseconds(2)), (.notFound, .seconds(7))]
            as [(HTTPResponse.Status, Duration)]
        {
            metrics.count(method: .get, route: "/v1/kv/{key}", status: status, elapsed: elapsed, byteCount: 3)
        }
        let lines = metrics.text().split(separator: "\n").map(String.init)
        #expect(
            lines.prefix(6) == [
                "# TYPE change_feed_age_seconds gauge", "change_feed_age_seconds 1.5",
                "# TYPE http_server_open_requests gauge", "http_server_open_requests 0.0",
                "# TYPE http_server_open_streams gauge", "http_server_open_streams 1.0",
            ])
        #expect(lines.contains("# TYPE http_server_refusals_total counter"))
        #expect(lines.contains(#"http_server_refusals_total{reason="quota"} 1"#))
        #expect(lines.contains(#"http_server_refusals_total{reason="slow"} 0"#))
        let labels = #"method="GET",route="/v1/kv/{key}""#
        let name = "http_server_request_duration_seconds"
        #expect(lines.contains("# TYPE \(name) histogram"))
        #expect(lines.contains("\(name)_bucket{\(labels),le=\"0.001\"} 0"))
        #expect(lines.contains("\(name)_bucket{\(labels),le=\"0.0025\"} 1"))
        #expect(lines.contains("\(name)_bucket{\(labels),le=\"+Inf\"} 2"))
        #expect(lines.contains("\(name)_sum{\(labels)} 7.002") && lines.contains("\(name)_count{\(labels)} 2"))
        for status in ["2xx", "4xx"] {
            #expect(lines.contains("http_server_requests_total{\(labels),status=\"\(status)\"} 1"))
        }
        #expect(lines.contains("http_server_response_bytes_total{\(labels)} 6"))
        #expect(!lines.contains("# TYPE evidence_total counter"))
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
