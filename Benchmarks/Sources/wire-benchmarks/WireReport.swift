import BenchmarkSupport

/// Prints measurements as text or as JSON.
struct WireReport {
    let wires: [WireMeasurement]

    var text: String {
        var lines: [String] = []
        for wire in wires {
            lines += [
                row(wire.name, "requests", "time", "p99", "raw libcurl", "p99", "ratio"),
                String(repeating: "-", count: 104),
            ]
            lines += wire.rows.map { row in
                self.row(
                    row.name, "\(row.requests)", duration(row.median), duration(row.percentile99),
                    duration(row.floorMedian), duration(row.floorPercentile99), decimal(row.ratio, places: 2))
            }
            lines.append("")
        }
        let counts = wires.map { "\($0.byteCount)" }.joined(separator: " and ")
        lines += [
            "\(WireAccount.purchaseCount) purchases, a ledger of \(counts) bytes; a server over SQLite on 127.0.0.1; "
                + "connections are kept;",
            "medians; ratios are medians of rounds that took turns; raw libcurl makes as many GETs of the ledger,",
            "answered by 304 for what finds nothing new and by 200 for the others; for the operator's entitlements it",
            "makes the account's own GET /v1/entitlements",
        ]
        return lines.joined(separator: "\n")
    }

    var json: String {
        let rows = wires.flatMap { wire in wire.rows.map { json($0, wire) } }
        return "[\n" + rows.joined(separator: ",\n") + "\n]"
    }

    private func json(_ row: WireRow, _ wire: WireMeasurement) -> String {
        let times = [
            ("nanoseconds", row.median), ("p99Nanoseconds", row.percentile99), ("floorNanoseconds", row.floorMedian),
            ("floorP99Nanoseconds", row.floorPercentile99),
        ]
        let figures = times.map { name, value in "\"\(name)\":" + decimal(value, places: 1) }.joined(separator: ",")
        return "  {\"wire\":\"\(wire.name)\",\"name\":\"\(row.name)\",\"requests\":\(row.requests),\(figures),"
            + "\"ratio\":\(decimal(row.ratio, places: 3))}"
    }

    private func row(_ name: String, _ cells: String...) -> String {
        name.padded(to: 32) + cells.map { $0.padded(to: -12) }.joined()
    }
}
