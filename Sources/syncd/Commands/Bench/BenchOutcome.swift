import Entitlements
import Foundation
import LoadTesting

/// What a bench has seen, for a person and for a program.
struct BenchOutcome: Sendable {
    let report: LoadReport
    /// What could not be erased, in words.
    var leftOver: String?
    var wasInterrupted = false

    init(_ report: LoadReport) { self.report = report }

    /// What there is to be measured, named.
    private var rows: [(name: String, latencies: LatencyHistogram)] {
        report.kinds.map { ($0.name, $0.latencies) }.filter { $0.1.count > 0 }
            + [
                ("event after its write", report.heard), ("stream open again", report.reopened),
                ("write meanwhile", report.meanwhile),
            ]
            .filter { $0.1.count > 0 }
    }

    private static let fractions = [("median", 0.5), ("99 %", 0.99), ("99.9 %", 0.999)]

    func text(_ origin: String, _ settings: BenchSettings) -> [String] {
        var lines = ["\(origin): \(settings.summary)", ""]
        lines += aligned(
            [["", "count"] + Self.fractions.map(\.0) + ["most"]]
                + rows.map { name, latencies in
                    [name, grouped(latencies.count)] + Self.fractions.map { milliseconds(latencies.percentile($0.1)) }
                        + [milliseconds(latencies.most)]
                })
        lines += [
            "", "\(grouped(UInt64(report.answeredInTime))) answers in \(seconds) s: \(grouped(perSecond)) a second",
        ]
        if settings.rate != nil, report.late + report.unsent > 0 {
            lines.append(
                "\(report.late) requests were sent more than 1 ms after they were due, \(report.unsent) never; all of "
                    + "them count with the time they waited")
        }
        return lines + complaints
    }

    /// What is not as it should be.
    private var complaints: [String] {
        var lines = report.unexpected.sorted { $0.key < $1.key }.map { status, count in
            "unexpected: \(count) answers \(status)" + (Self.hints[status].map { ": \($0)" } ?? "")
        }
        for trouble in LoadReport.Trouble.allCases {
            if let count = report.troubles[trouble] { lines.append("failed: \(count) × \(trouble.rawValue)") }
        }
        if let leftOver { lines.append(leftOver) }
        return lines
    }

    private static let hints = [
        401: "the sessions ended and could not be renewed",
        429: "the server limits how much an address or an account may ask; its operator can raise that for a test",
        503: "the server is overloaded, or its store is",
    ]

    private var seconds: String { String(format: "%.1f", report.seconds) }
    private var perSecond: UInt64 { UInt64(report.rate.rounded()) }

    func json(_ origin: String, _ settings: BenchSettings) -> JSON {
        .object([
            ("server", .string(origin)), ("work", .string(settings.name)),
            ("connections", .number(Int64(settings.connectionCount))),
            ("rate", settings.rate.map { .number(Int64($0.rounded())) } ?? .null),
            ("milliseconds", .number(Int64((report.seconds * 1_000).rounded()))),
            ("answers", .number(Int64(report.answeredInTime))), ("perSecond", .number(Int64(perSecond))),
            ("sent", .number(Int64(report.sent))), ("late", .number(Int64(report.late))),
            ("unsent", .number(Int64(report.unsent))),
            ("latencies", .object(rows.map { ($0, Self.json($1)) })),
            ("statuses", Self.json(report.statuses)), ("unexpected", Self.json(report.unexpected)),
            (
                "failures",
                .object(
                    LoadReport.Trouble.allCases.compactMap { trouble in
                        report.troubles[trouble].map { (trouble.rawValue, .number(Int64($0))) }
                    })
            ),
            ("interrupted", .bool(wasInterrupted)), ("leftOver", JSON(leftOver)),
        ])
    }

    private static func json(_ counts: [Int: Int]) -> JSON {
        .object(counts.sorted { $0.key < $1.key }.map { ("\($0.key)", .number(Int64($0.value))) })
    }

    private static func json(_ latencies: LatencyHistogram) -> JSON {
        func microseconds(_ nanoseconds: UInt64?) -> JSON { .number(Int64(((nanoseconds ?? 0) + 500) / 1_000)) }
        return .object([
            ("count", .number(Int64(latencies.count))),
            ("medianMicroseconds", microseconds(latencies.percentile(0.5))),
            ("p99Microseconds", microseconds(latencies.percentile(0.99))),
            ("p999Microseconds", microseconds(latencies.percentile(0.999))),
            ("mostMicroseconds", microseconds(latencies.most)),
        ])
    }

    /// Fails unless everything was answered as it should be, and nothing is left.
    func check() throws(Failure) {
        if wasInterrupted { throw Failure(.failed, leftOver ?? "interrupted") }
        if let leftOver { throw Failure(.failed, leftOver) }
        guard !report.isSound else { return }
        let wrong = report.unexpected.values.reduce(0, +) + report.troubles.values.reduce(0, +)
        throw Failure(.failed, "\(wrong) requests were not answered as they should be (see above)")
    }
}

extension BenchSettings {
    fileprivate var name: String { isGiven ? "requests" : work.rawValue }

    fileprivate var summary: String {
        var parts = [name, plural(connectionCount, "connection")]
        if !isGiven { parts.append(plural(accountCount, "account")) }
        if !isGiven, work != .logIn { parts.append("documents of \(plural(byteCount, "byte"))") }
        parts.append(
            rate.map { "\($0.formatted(.number.grouping(.never))) requests due a second" } ?? "as fast as it answers")
        return parts.joined(separator: ", ")
    }
}

private func grouped(_ number: UInt64) -> String {
    var (text, digits) = ("", String(number)[...])
    while digits.count > 3 {
        text = "," + digits.suffix(3) + text
        digits = digits.dropLast(3)
    }
    return digits + text
}

private func milliseconds(_ nanoseconds: UInt64?) -> String {
    nanoseconds.map { String(format: "%.3f ms", Double($0) / 1e6) } ?? "–"
}
