/// A token of Swift code and its line, starting at 1.
struct Token: Equatable, Sendable {
    let text: String
    let line: Int
}

/// A tokenizer for Swift source that is precise enough for the rules.
///
/// Comments are dropped. A string literal becomes one `"`, followed by the tokens of its interpolations. `try!`, `as!`
/// and their forms with `?` are single tokens, because `try !done` has another meaning. A regular expression between
/// bare slashes is read as code, so one that contains quotes or braces must be written as `#/…/#`.
struct SwiftTokens {
    private let bytes: [UInt8]
    private var position = 0
    private var line = 1
    private var found: [Token] = []

    /// The tokens of `text`, in order.
    static func of(_ text: String) -> [Token] {
        var reader = SwiftTokens(bytes: Array(text.utf8))
        reader.readCode(insideInterpolation: false)
        return reader.found
    }

    private init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    private mutating func readCode(insideInterpolation: Bool) {
        var openParentheses = 0
        while let byte = peek() {
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): advance()
            case UInt8(ascii: "/") where peek(1) == UInt8(ascii: "/"): skipLine()
            case UInt8(ascii: "/") where peek(1) == UInt8(ascii: "*"): skipBlockComment()
            case UInt8(ascii: "\""): readString(pounds: 0)
            case UInt8(ascii: "#"): readPound()
            case UInt8(ascii: "`"): readQuotedIdentifier()
            case _ where Self.isWord(byte): readWord()
            default:
                if byte == UInt8(ascii: "(") { openParentheses += 1 }
                if byte == UInt8(ascii: ")") {
                    if insideInterpolation && openParentheses == 0 { return advance() }
                    openParentheses -= 1
                }
                readSign()
            }
        }
    }

    // MARK: Words and symbols

    private mutating func readWord() {
        let start = position
        while let byte = peek(), Self.isWord(byte) { advance() }
        let word = text(from: start)
        if word == "try" || word == "as", let next = peek(), next == UInt8(ascii: "!") || next == UInt8(ascii: "?") {
            advance()
        }
        found.append(Token(text: text(from: start), line: line))
    }

    private mutating func readSign() {
        let start = position
        let isArrow = peek() == UInt8(ascii: "-") && peek(1) == UInt8(ascii: ">")
        advance(by: isArrow ? 2 : 1)
        found.append(Token(text: text(from: start), line: line))
    }

    private mutating func readQuotedIdentifier() {
        let start = position
        advance()
        while let byte = peek(), byte != UInt8(ascii: "`"), byte != UInt8(ascii: "\n") { advance() }
        advance()
        found.append(Token(text: text(from: start), line: line))
    }

    /// Reads a number sign, which starts a raw string, a regular expression, or a directive such as `#if`.
    private mutating func readPound() {
        var pounds = 0
        while peek(pounds) == UInt8(ascii: "#") { pounds += 1 }
        switch peek(pounds) {
        case UInt8(ascii: "\""):
            advance(by: pounds)
            readString(pounds: pounds)
        case UInt8(ascii: "/"):
            advance(by: pounds + 1)
            while peek() != nil, !isNext([UInt8(ascii: "/")], pounds: pounds) {
                advance(by: peek() == UInt8(ascii: "\\") ? 2 : 1)
            }
            advance(by: pounds + 1)
        default:
            let start = position
            advance(by: pounds)
            while let byte = peek(), Self.isWord(byte) { advance() }
            found.append(Token(text: text(from: start), line: line))
        }
    }

    // MARK: Strings

    private mutating func readString(pounds: Int) {
        found.append(Token(text: "\"", line: line))
        let quote = UInt8(ascii: "\"")
        let isMultiline = isNext([quote, quote, quote], pounds: 0) && onlyBlanksFollow(3)
        let delimiter = isMultiline ? [quote, quote, quote] : [quote]
        advance(by: delimiter.count)
        while let byte = peek() {
            if isNext(delimiter, pounds: pounds) { return advance(by: delimiter.count + pounds) }
            if isNext([UInt8(ascii: "\\")], pounds: pounds) {
                advance(by: 1 + pounds)
                let opensInterpolation = peek() == UInt8(ascii: "(")
                advance()
                if opensInterpolation { readCode(insideInterpolation: true) }
            } else {
                // An unterminated literal does not compile. Ending it at the line limits the damage of a misreading.
                advance()
                if byte == UInt8(ascii: "\n") && !isMultiline { return }
            }
        }
    }

    private func onlyBlanksFollow(_ offset: Int) -> Bool {
        var offset = offset
        while let byte = peek(offset), byte != UInt8(ascii: "\n") {
            guard byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r") else {
                return false
            }
            offset += 1
        }
        return true
    }

    // MARK: Comments

    private mutating func skipLine() {
        while let byte = peek(), byte != UInt8(ascii: "\n") { advance() }
    }

    private mutating func skipBlockComment() {
        var depth = 0
        while peek() != nil {
            if peek() == UInt8(ascii: "/") && peek(1) == UInt8(ascii: "*") {
                depth += 1
                advance(by: 2)
            } else if peek() == UInt8(ascii: "*") && peek(1) == UInt8(ascii: "/") {
                depth -= 1
                advance(by: 2)
                if depth == 0 { return }
            } else {
                advance()
            }
        }
    }

    // MARK: Bytes

    private func peek(_ offset: Int = 0) -> UInt8? {
        position + offset < bytes.count ? bytes[position + offset] : nil
    }

    private mutating func advance() {
        guard let byte = peek() else { return }
        if byte == UInt8(ascii: "\n") { line += 1 }
        position += 1
    }

    private mutating func advance(by count: Int) {
        for _ in 0..<count { advance() }
    }

    private func isNext(_ sign: [UInt8], pounds: Int) -> Bool {
        let wanted = sign + Array(repeating: UInt8(ascii: "#"), count: pounds)
        return bytes[position...].starts(with: wanted)
    }

    private func text(from start: Int) -> String {
        String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...: true
        default: false
        }
    }
}
