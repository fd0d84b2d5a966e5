import BenchmarkSupport
import Foundation
import LoadTesting

/// The results of a run, as text and as JSON.
struct LoadOutcome: Sendable {
    let report: LoadReport
    var wasInterrupted = false
    /// A description of the accounts that could not be erased.
    var remainder: String?

    /// The reason for which the run has failed; `nil` if it has not.
    var problem: String? {
        if wasInterrupted { return "interrupted" }
        if let remainder { return remainder }
        guard !report.isSound else { return nil }
        let count = report.unexpected.values.reduce(0, +) + report.troubles.values.reduce(0, +)
        return "\(count) requests were not answered as expected"
    }

    fileprivate var rows: [(name: String, latencies: LatencyHistogram)] {
        (report.kinds.map { ($0.name, $0.latencies) } + [
            ("event after its write", report.heard), ("stream open again", report.reopened),
            ("write meanwhile", report.meanwhile),
        ]).filter { $0.1.count > 0 }
    }

    private static let fractions = [("median", 0.5), ("99 %", 0.99), ("99.9 %", 0.999)]

    func text(_ settings: LoadSettings) -> [String] {
        var lines = ["\(settings.origin): \(settings.summary)", ""]
        lines += aligned(
            [["", "count"] + Self.fractions.map(\.0) + ["most"]]
                + rows.map { name, latencies in
                    let figures = Self.fractions.map { latencies.percentile($0.1) } + [latencies.maximum]
                    return [name, grouped(latencies.count)] + figures.map(milliseconds)
                })
        lines += [
            "",
            "\(grouped(UInt64(report.answeredInTime))) answers in \(decimal(report.seconds, places: 1)) s: "
                + "\(grouped(UInt64(report.rate.rounded()))) a second",
        ]
        if settings.rate != nil, report.late + report.unsent > 0 {
            lines.append(
                "\(report.late) requests were sent more than 1 ms after they were due, \(report.unsent) never; their "
                    + "latencies contain the time that they waited")
        }
        lines += report.unexpected.sorted { $0.key < $1.key }.map { status, count in
            "unexpected: \(count) answers \(status)" + (Self.hints[status].map { ": \($0)" } ?? "")
        }
        lines += LoadReport.Trouble.allCases.compactMap { trouble in
            report.troubles[trouble].map { "failed: \($0) × \(trouble.rawValue)" }
        }
        return lines + (remainder.map { [$0] } ?? [])
    }

    private static let hints = [
        401: "a session has ended and could not be renewed",
        429: "a limit of the server is lower than the load; raise it for a test (syncd serve --limits)",
        503: "the server or its store is overloaded",
    ]

    func json(_ settings: LoadSettings) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(Figures(self, settings)), as: UTF8.self)
    }
}

/// The JSON document.
private struct Figures: Encodable {
    struct Latencies: Encodable {
        var count: UInt64
        var medianMicroseconds: UInt64?
        var p99Microseconds: UInt64?
        var p999Microseconds: UInt64?
        var mostMicroseconds: UInt64

        init(_ latencies: LatencyHistogram) {
            func microseconds(_ nanoseconds: UInt64) -> UInt64 { (nanoseconds + 500) / 1_000 }
            count = latencies.count
            medianMicroseconds = latencies.percentile(0.5).map(microseconds)
            p99Microseconds = latencies.percentile(0.99).map(microseconds)
            p999Microseconds = latencies.percentile(0.999).map(microseconds)
            mostMicroseconds = microseconds(latencies.maximum)
        }
    }

    var server: String
    var work: String
    var connections: Int
    var rate: Double?
    var seconds: Double
    var answers: Int
    var perSecond: Double
    var sent: Int
    var late: Int
    var unsent: Int
    var latencies: [String: Latencies]
    var statuses: [String: Int]
    var unexpected: [String: Int]
    var failures: [String: Int]
    var interrupted: Bool
    var remainder: String?

    init(_ outcome: LoadOutcome, _ settings: LoadSettings) {
        let report = outcome.report
        (server, work, connections) = (settings.origin, settings.name, settings.connectionCount)
        (rate, seconds) = (settings.rate, report.seconds)
        (answers, perSecond) = (report.answeredInTime, report.rate)
        (sent, late, unsent) = (report.sent, report.late, report.unsent)
        latencies = Dictionary(uniqueKeysWithValues: outcome.rows.map { ($0, Latencies($1)) })
        func named(_ counts: [Int: Int]) -> [String: Int] {
            Dictionary(uniqueKeysWithValues: counts.map { ("\($0)", $1) })
        }
        (statuses, unexpected) = (named(report.statuses), named(report.unexpected))
        failures = Dictionary(uniqueKeysWithValues: report.troubles.map { ($0.rawValue, $1) })
        (interrupted, remainder) = (outcome.wasInterrupted, outcome.remainder)
    }
}

extension LoadSettings {
    fileprivate var name: String { requestFile == nil ? work.rawValue : "requests" }

    fileprivate var summary: String {
        var parts = [name, "\(connectionCount) connections"]
        if requestFile == nil { parts.append("\(accountCount) accounts") }
        if requestFile == nil, work != .logIn { parts.append("documents of \(byteCount) bytes") }
        parts.append(rate.map { "\(decimal($0, places: 1)) requests a second" } ?? "as fast as the server answers")
        return parts.joined(separator: ", ")
    }
}

/// Rows as columns of equal width.
private func aligned(_ rows: [[String]]) -> [String] {
    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
        let cells = zip(row, widths).map { $0.padded(to: $1) }.joined(separator: "  ")
        return "  " + cells.replacing(#/ +$/#, with: "")
    }
}

private func grouped(_ number: UInt64) -> String {
    number.formatted(.number.locale(Locale(identifier: "en_US")))
}

private func milliseconds(_ nanoseconds: UInt64?) -> String {
    nanoseconds.map { decimal(Double($0) / 1e6, places: 3) + " ms" } ?? "–"
}
