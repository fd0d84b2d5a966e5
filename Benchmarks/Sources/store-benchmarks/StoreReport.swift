import BenchmarkSupport

/// Prints measurements as text or as JSON.
struct StoreReport {
    let small: [Measurement]
    let large: LargeStore.Figures

    var text: String {
        var lines = [row("what", "time", "bare calls", "ratio"), String(repeating: "-", count: 74)]
        for measurement in small {
            lines.append(
                row(
                    measurement.name, duration(measurement.nanoseconds), duration(measurement.floor),
                    decimal(measurement.ratio, places: 2)))
        }
        lines += [
            "",
            "SQLite, \(large.count) keys: first answer after opening \(duration(large.open)); listing all of them "
                + "\(duration(large.list)), memory \(megabytes(large.memoryAtFirst)) after the first page, "
                + "\(megabytes(large.memoryAtMost)) at most",
            "values of \(StoreBenchmarks.valueByteCount) bytes, for record the bytes of the ledger;",
            "medians; ratios are medians of rounds that took turns;",
            "for the writers, \"bare calls\" is the same number of writes by one of them",
        ]
        return lines.joined(separator: "\n")
    }

    var json: String {
        let rows =
            small.map { measurement in
                "  {\"name\":\"\(measurement.name)\",\"nanoseconds\":\(decimal(measurement.nanoseconds, places: 1)),"
                    + "\"floorNanoseconds\":\(decimal(measurement.floor, places: 1)),"
                    + "\"ratio\":\(decimal(measurement.ratio, places: 3))}"
            }
            + [
                "  {\"name\":\"SQLite: large store\",\"keys\":\(large.count),"
                    + "\"openNanoseconds\":\(decimal(large.open, places: 1)),"
                    + "\"listNanoseconds\":\(decimal(large.list, places: 1)),"
                    + "\"bytesAtFirstPage\":\(large.memoryAtFirst),\"bytesAtMost\":\(large.memoryAtMost)}"
            ]
        return "[\n" + rows.joined(separator: ",\n") + "\n]"
    }

    private func row(_ name: String, _ cells: String...) -> String {
        name.padded(to: 41) + cells.map { $0.padded(to: -11) }.joined()
    }

    private func megabytes(_ bytes: Int) -> String { decimal(Double(bytes) / 1_048_576, places: 1) + " MiB" }
}
