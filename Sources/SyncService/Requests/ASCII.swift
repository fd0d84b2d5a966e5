extension UInt8 {
    /// True for an ASCII digit.
    package var isASCIIDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }

    /// True for an ASCII letter.
    package var isASCIILetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20) }

    /// True for an ASCII letter or digit, and for one of `others`.
    package func isASCIIAlphanumeric(or others: StaticString = "") -> Bool {
        isASCIILetter || isASCIIDigit || others.withUTF8Buffer { $0.contains(self) }
    }
}
