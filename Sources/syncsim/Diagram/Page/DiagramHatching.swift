/// The hatching of a band. Each kind has its own direction, so bands can be distinguished without colour. The lines are
/// clipped here, because an SVG pattern would need a reference by URL.
struct DiagramHatching: Sendable {
    let path: String

    private static let spacing = 9

    init(_ band: DiagramBand) {
        switch band.kind {
        case .cutOutgoing: path = Self.rising(band)
        case .cutIncoming: path = Self.falling(band)
        case .full: path = Self.level(band, spacing: 5)
        case .wrongClock: path = Self.level(band, spacing: 3)
        case .down: path = ""
        }
    }

    /// Lines where x + y is a multiple of the spacing.
    private static func rising(_ band: DiagramBand) -> String {
        multiples(of: spacing, from: band.left + band.top, to: band.right + band.bottom).map { sum in
            let (first, last) = (max(band.left, sum - band.bottom), min(band.right, sum - band.top))
            return "M\(first) \(sum - first)L\(last) \(sum - last)"
        }.joined()
    }

    /// Lines where y − x is a multiple of the spacing.
    private static func falling(_ band: DiagramBand) -> String {
        multiples(of: spacing, from: band.top - band.right, to: band.bottom - band.left).map { difference in
            let (first, last) = (max(band.left, band.top - difference), min(band.right, band.bottom - difference))
            return "M\(first) \(first + difference)L\(last) \(last + difference)"
        }.joined()
    }

    private static func level(_ band: DiagramBand, spacing: Int) -> String {
        multiples(of: spacing, from: band.top, to: band.bottom).map { "M\(band.left) \($0)H\(band.right)" }.joined()
    }

    private static func multiples(of spacing: Int, from first: Int, to last: Int) -> StrideTo<Int> {
        let (quotient, remainder) = first.quotientAndRemainder(dividingBy: spacing)
        return stride(from: (remainder < 0 ? quotient : quotient + 1) * spacing, to: last, by: spacing)
    }
}
