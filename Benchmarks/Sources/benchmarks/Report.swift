import BenchmarkSupport

/// Prints measurements as text or as JSON.
struct Report {
    let measurements: [Measurement]
    let start: Measurement
    let kit: KitStartToAccess.Result
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
            kit.text,
            "simulation, \(SimulationPace.devices) devices that sync every hour for \(pace.days) days: "
                + "\(duration(pace.nanoseconds)); real time × "
                + "\(Int64(pace.virtualNanoseconds / pace.nanoseconds))",
            "medians; ratios are medians of rounds that took turns (checksum \(String(checksum, radix: 16)))",
        ]
        return lines.joined(separator: "\n")
    }

    var json: String {
        let rows =
            (measurements + [start] + kit.measurements).map {
                jsonRow($0.name, $0.size, $0.nanoseconds, floor: $0.floor, ratio: $0.ratio)
            }
            + [
                jsonRow(
                    "kit main to access", kit.againstTrue.size, kit.mainNanoseconds,
                    floor: kit.againstTrue.nanoseconds, ratio: kit.mainNanoseconds / kit.againstTrue.nanoseconds),
                jsonRow(
                    "simulation", SimulationPace.devices, pace.nanoseconds, floor: pace.virtualNanoseconds,
                    ratio: pace.virtualNanoseconds / pace.nanoseconds),
            ]
        return "[\n" + rows.joined(separator: ",\n") + "\n]"
    }

    private func jsonRow(_ name: String, _ size: Int, _ nanoseconds: Double, floor: Double, ratio: Double) -> String {
        "  {\"name\":\"\(name)\",\"records\":\(size),\"nanoseconds\":\(decimal(nanoseconds, places: 1)),"
            + "\"floorNanoseconds\":\(decimal(floor, places: 1)),\"ratio\":\(decimal(ratio, places: 3))}"
    }

    private func row(_ name: String, _ cells: String...) -> String {
        let widths = [9, 11, 11, 15, 9]
        return name.padded(to: 28) + zip(cells, widths).map { $0.padded(to: -$1) }.joined()
    }
}
