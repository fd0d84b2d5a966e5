/// Limits for the length of files, functions and lines. Generated files are exempt.
enum Lengths {
    static let maximumFile = 600
    static let maximumFunction = 80
    static let maximumLine = 120

    static func longFiles(in files: [SourceFile]) -> [Violation] {
        files.filter { !$0.isGenerated }.compactMap { file in
            let count = file.text.hasSuffix("\n") ? file.lines.count - 1 : file.lines.count
            guard count > maximumFile else { return nil }
            return Violation(path: file.path, line: count, message: "\(count) lines, \(maximumFile) at most")
        }
    }

    static func longLines(in files: [SourceFile]) -> [Violation] {
        files.filter { !$0.isGenerated }.flatMap { file in
            file.lines.enumerated().filter { $0.element.count > maximumLine }.map { index, line in
                Violation(
                    path: file.path, line: index + 1, message: "\(line.count) characters, \(maximumLine) at most")
            }
        }
    }

    static func longFunctions(in files: [SourceFile]) -> [Violation] {
        files.filter { !$0.isGenerated }.flatMap { file in
            FunctionSpan.all(in: file.tokens).filter { $0.lineCount > maximumFunction }.map { function in
                Violation(
                    path: file.path, line: function.firstLine,
                    message: "\(function.name) has \(function.lineCount) lines, \(maximumFunction) at most")
            }
        }
    }

    /// Files with unbalanced braces, brackets or parentheses.
    ///
    /// Such a file compiles, so it was tokenized wrongly, and the other rules cannot be trusted for it.
    static func unbalancedFiles(in files: [SourceFile]) -> [Violation] {
        files.compactMap { file in
            var open: [Token] = []
            for token in file.tokens {
                switch token.text {
                case "(", "[", "{": open.append(token)
                case ")", "]", "}":
                    guard let opening = open.popLast(), FunctionSpan.closing[opening.text] == token.text else {
                        return Violation(path: file.path, line: token.line, message: "\(token.text) closes nothing")
                    }
                default: break
                }
            }
            return open.last.map { Violation(path: file.path, line: $0.line, message: "\($0.text) is never closed") }
        }
    }
}

/// A function, initializer, subscript or computed property, from its keyword to its closing brace.
struct FunctionSpan: Equatable {
    let name: String
    let firstLine: Int
    let lastLine: Int

    var lineCount: Int { lastLine - firstLine + 1 }

    static let closing = ["(": ")", "[": "]", "{": "}"]

    /// The spans in `tokens`, outer spans before nested ones.
    static func all(in tokens: [Token]) -> [FunctionSpan] {
        tokens.indices.compactMap { index in
            guard let name = declaredName(at: index, in: tokens),
                let opening = bodyStart(ofDeclarationAt: index, in: tokens),
                let end = bodyEnd(from: opening, in: tokens)
            else { return nil }
            return FunctionSpan(name: name, firstLine: tokens[index].line, lastLine: tokens[end].line)
        }
    }

    /// The name of the declaration at `index`, or `nil` if the keyword declares nothing that can have a body.
    private static func declaredName(at index: Int, in tokens: [Token]) -> String? {
        // `self.init(…)` and `.init(…)` are calls.
        guard index == 0 || tokens[index - 1].text != "." else { return nil }
        let next = index + 1 < tokens.count ? tokens[index + 1].text : ""
        switch tokens[index].text {
        case "func": return next
        case "init", "deinit", "subscript": return tokens[index].text
        // A computed property has an explicit type.
        case "var": return index + 2 < tokens.count && tokens[index + 2].text == ":" ? next : nil
        default: return nil
        }
    }

    /// The index of the body's opening brace, or `nil` for a protocol requirement or a stored property.
    private static func bodyStart(ofDeclarationAt start: Int, in tokens: [Token]) -> Int? {
        let enders: Set = [
            "func", "init", "deinit", "subscript", "var", "let", "case", "associatedtype", "typealias", "struct",
            "class", "enum", "actor", "protocol", "extension",
        ]
        let isProperty = tokens[start].text == "var"
        // Skip the name, which can be an operator as in `func == (`.
        let first = tokens[start].text == "func" ? tokens[start...].firstIndex { $0.text == "(" } : start + 1
        guard let first else { return nil }
        var depth = 0
        for index in first..<tokens.count {
            switch tokens[index].text {
            case "{" where depth == 0: return index
            case "(", "[", "{": depth += 1
            case ")", "]", "}": depth -= 1
            case "=" where depth == 0 && isProperty: return nil
            case let text where depth == 0 && enders.contains(text): return nil
            default: break
            }
            let endsLine = index + 1 < tokens.count && tokens[index + 1].line > tokens[index].line
            if depth < 0 || (isProperty && depth == 0 && endsLine) { return nil }
        }
        return nil
    }

    private static func bodyEnd(from opening: Int, in tokens: [Token]) -> Int? {
        var depth = 0
        for index in opening..<tokens.count {
            if tokens[index].text == "{" { depth += 1 }
            if tokens[index].text == "}" { depth -= 1 }
            if depth == 0 { return index }
        }
        return nil
    }
}
