extension [Double] {
    /// The median. The array must not be empty.
    package var median: Double { sorted()[count / 2] }
}

extension Duration {
    /// The duration in nanoseconds.
    package var nanoseconds: Double { Double(components.seconds) * 1e9 + Double(components.attoseconds) / 1e9 }
}

/// Formats a duration with a suitable unit.
package func duration(_ nanoseconds: Double) -> String {
    switch nanoseconds {
    case ..<1_000: decimal(nanoseconds, places: 1) + " ns"
    case ..<1_000_000: decimal(nanoseconds / 1_000, places: 1) + " µs"
    default: decimal(nanoseconds / 1_000_000, places: 1) + " ms"
    }
}

/// Formats a non-negative number with the given number of decimals.
package func decimal(_ value: Double, places: Int) -> String {
    var scale = 1.0
    for _ in 0..<places { scale *= 10 }
    let scaled = Int64((value * scale).rounded())
    let (whole, part) = scaled.quotientAndRemainder(dividingBy: Int64(scale))
    guard places > 0 else { return "\(whole)" }
    let digits = String(part)
    return "\(whole)." + String(repeating: "0", count: places - digits.count) + digits
}

extension String {
    /// Pads the text to a width. A negative width aligns to the right.
    package func padded(to width: Int) -> String {
        let spaces = String(repeating: " ", count: max(0, abs(width) - count))
        return width < 0 ? spaces + self : self + spaces
    }
}
