/// The page's colours for light and dark mode.
///
/// Text has a contrast of at least 4.5 to its background, and shapes have at least 3 (WCAG 2.2, 1.4.3 and 1.4.11).
enum DiagramPalette {
    /// A named colour, as `0xRRGGBB`.
    struct Color: Sendable {
        let name: String
        let light: UInt32
        let dark: UInt32
    }

    /// Background colours.
    static let grounds = [
        Color(name: "page", light: 0xFFFFFF, dark: 0x15181D),
        Color(name: "panel", light: 0xF5F7F9, dark: 0x1D2128),
        Color(name: "pause", light: 0xE9EDF1, dark: 0x262C35),
        Color(name: "lit", light: 0xFFF3C9, dark: 0x3B3517),
        Color(name: "alarm", light: 0xFDE3E5, dark: 0x47191F),
    ]

    /// Colours of text and thin lines.
    static let inks = [
        Color(name: "ink", light: 0x1B2128, dark: 0xE8ECF1),
        Color(name: "soft", light: 0x4A5562, dark: 0xB0BAC6),
        Color(name: "link", light: 0x0B4F9E, dark: 0x8DC2FF),
        Color(name: "trouble", light: 0x7D4200, dark: 0xF5B65A),
        Color(name: "danger", light: 0xA30D22, dark: 0xFF9DA6),
        Color(name: "good", light: 0x155F34, dark: 0x79D99B),
    ]

    /// Colours of shapes. Those of the bars, `b0` to `b7`, differ in lightness as well as in hue.
    static let shapes = [
        Color(name: "request", light: 0x1F66C1, dark: 0x74B3FF),
        Color(name: "answer", light: 0x6B7785, dark: 0x98A4B2),
        Color(name: "life", light: 0x3C4653, dark: 0xC3CCD6),
        Color(name: "b0", light: 0x0069A8, dark: 0x4FB0F0),
        Color(name: "b1", light: 0xB26F00, dark: 0xF2B441),
        Color(name: "b2", light: 0x00866A, dark: 0x2CCBA4),
        Color(name: "b3", light: 0x9C3F8C, dark: 0xE08AD0),
        Color(name: "b4", light: 0x4B3FA6, dark: 0xA99CFF),
        Color(name: "b5", light: 0x6B7A00, dark: 0xC9D94A),
        Color(name: "b6", light: 0x7A4B2B, dark: 0xC79A78),
        Color(name: "b7", light: 0x2B3A4A, dark: 0xD8E2EC),
    ]

    /// The colours as CSS custom properties, for the system's colour scheme and for a choice made with the theme
    /// button.
    static var style: String {
        let all = grounds + inks + shapes
        let light = all.map { "--\($0.name):\(hex($0.light));" }.joined()
        let dark = all.map { "--\($0.name):\(hex($0.dark));" }.joined()
        return ":root{color-scheme:light;\(light)}\n"
            + "@media (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;\(dark)}}\n"
            + ":root[data-theme=dark]{color-scheme:dark;\(dark)}\n"
    }

    private static func hex(_ color: UInt32) -> String {
        let digits = String(color, radix: 16)
        return "#" + String(repeating: "0", count: 6 - digits.count) + digits
    }
}
