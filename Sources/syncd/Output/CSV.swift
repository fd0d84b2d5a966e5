/// Comma-separated values as RFC 4180 describes them: fields in quotation marks where needed, and lines that end in
/// CR LF.
enum CSV {
    /// The first characters with which spreadsheets take a text for a formula. Some also accept the full-width forms.
    private static let formulaStarts: Set<Unicode.Scalar> = ["=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"]

    /// A line with these texts.
    ///
    /// A customer chooses names, so a spreadsheet must not run them as formulas: a text that begins like one gets an
    /// apostrophe in front. So does a text that begins with an apostrophe, so that a reader can undo it: without the
    /// first apostrophe, every text is exact.
    static func line(_ texts: [String]) -> String {
        texts.map { field(guarded($0)) }.joined(separator: ",") + "\r\n"
    }

    private static func guarded(_ text: String) -> String {
        guard let first = text.unicodeScalars.first, first == "'" || formulaStarts.contains(first) else { return text }
        return "'" + text
    }

    private static func field(_ text: String) -> String {
        guard text.utf8.contains(where: { [0x22, 0x2C, 0x0D, 0x0A].contains($0) }) else { return text }
        // By scalars, because a quotation mark may carry an accent.
        var field = "\""
        for scalar in text.unicodeScalars {
            if scalar == "\"" { field.unicodeScalars.append(scalar) }
            field.unicodeScalars.append(scalar)
        }
        return field + "\""
    }
}
