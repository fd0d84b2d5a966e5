import Entitlements

extension String {
    /// The width of the text on a terminal, in columns.
    var columnCount: Int { reduce(0) { $0 + $1.columnCount } }

    /// The text on one line, truncated to at most `columns`, 1 or more.
    func fitting(columns: Int) -> String {
        let line = singleLine
        if line.columnCount <= columns { return line }
        var short = ""
        for character in line where short.columnCount + character.columnCount < columns { short.append(character) }
        return short + "…"
    }
}

extension Character {
    /// 2 for emoji and wide characters of East Asian scripts (Unicode Standard Annex 11), otherwise 1.
    fileprivate var columnCount: Int {
        let scalars = unicodeScalars
        if scalars.count > 1, scalars.contains("\u{FE0F}") { return 2 }
        return scalars.contains { $0.properties.isEmojiPresentation || Self.isWide($0) } ? 2 : 1
    }

    private static func isWide(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
            0xFE30...0xFE6F, 0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x1F200...0x1F2FF, 0x20000...0x3FFFD:
            true
        default: false
        }
    }
}

/// Formats rows as aligned columns, separated by two spaces and indented by two.
func aligned(_ rows: [[String]]) -> [String] {
    let columns = rows.map(\.count).max() ?? 0
    let widths = (0..<columns).map { column in
        rows.compactMap { $0.indices.contains(column) ? $0[column].columnCount : nil }.max() ?? 0
    }
    return rows.map { row in
        let cells = row.enumerated().map { column, cell in
            column == row.count - 1 ? cell : cell + String(repeating: " ", count: widths[column] - cell.columnCount)
        }
        return "  " + cells.joined(separator: "  ")
    }
}
