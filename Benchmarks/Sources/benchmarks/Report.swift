import BenchmarkSupport

/// Prints measurements as text or as JSON.
struct Report {
    let measurements: [Measurement]
    let start: Measurement
    let checksum: UInt64
    /// The real and virtual nanoseconds of the simulation.
    let pace: SimulationPace.Result

    var text: String {
        var lines = [
            row("what", "records", "time", "a record", "memcmp+memcpy", "ratio"),
            String(repeating: "-", count: 83),
        ]
        for measurement in measurements {
            lines.append(
                row(
                    measurement.name, String(measurement.size), duration(measurement.nanoseconds),
                    duration(measurement.nanoseconds / Double(measurement.size)), duration(measurement.floor),
                    decimal(measurement.ratio, places: 2)))
        }
        lines += [
            "",
            "process start to access answered, \(start.size) purchases: \(duration(start.nanoseconds)); "
                + "/bin/true: \(duration(start.floor)); ratio \(decimal(start.ratio, places: 2))",
            "simulation, \(SimulationPace.devices) devices that sync every hour for \(pace.days) days: "
                + "\(duration(pace.nanoseconds)); real time × "
                + "\(Int64(pace.virtualNanoseconds / pace.nanoseconds))",
            "medians; ratios are medians of rounds that took turns (checksum \(String(checksum, radix: 16)))",
        ]
        return lines.joined(separator: "\n")
    }

    var json: String {
        let rows =
            (measurements + [start]).map { measurement in
                "  {\"name\":\"\(measurement.name)\",\"records\":\(measurement.size),"
                    + "\"nanoseconds\":\(decimal(measurement.nanoseconds, places: 1)),"
                    + "\"floorNanoseconds\":\(decimal(measurement.floor, places: 1)),"
                    + "\"ratio\":\(decimal(measurement.ratio, places: 3))}"
            }
            + [
                "  {\"name\":\"simulation\",\"records\":\(SimulationPace.devices),"
                    + "\"nanoseconds\":\(decimal(pace.nanoseconds, places: 1)),"
                    + "\"floorNanoseconds\":\(decimal(pace.virtualNanoseconds, places: 1)),"
                    + "\"ratio\":\(decimal(pace.virtualNanoseconds / pace.nanoseconds, places: 3))}"
            ]
        return "[\n" + rows.joined(separator: ",\n") + "\n]"
    }

    private func row(_ name: String, _ cells: String...) -> String {
        let widths = [9, 11, 11, 15, 9]
        return name.padded(to: 28) + zip(cells, widths).map { $0.padded(to: -$1) }.joined()
    }
}
