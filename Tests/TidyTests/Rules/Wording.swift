/// Comment wording that makes a reader stop, as a rule that a program can check.
enum Wording {
    /// Words that must not open a documentation summary, which is a noun phrase or starts with a verb.
    static let openers: Set = ["What", "Whether", "How", "Who", "Whoever", "Tells", "Nobody"]
    /// Words for persons. A comment names the component, the caller, the client, the server or the buyer.
    static let actors: Set = ["he", "him", "his", "whoever", "nobody", "somebody"]

    /// The documentation summaries in `files` that start with one of ``openers``. Questions are excepted.
    static func openers(in files: [SourceFile]) -> [Violation] {
        files.filter { !$0.isGenerated }.flatMap { file in
            let comments = file.lines.map(documentation)
            return comments.indices.compactMap { index -> Violation? in
                guard let first = comments[index], index == 0 || comments[index - 1] == nil else { return nil }
                let paragraph = comments[index...].prefix { $0?.isEmpty == false }.compactMap(\.self)
                let sentence = paragraph.joined(separator: " ").prefix { $0 != "." && $0 != "?" }
                let isQuestion = paragraph.joined(separator: " ").dropFirst(sentence.count).first == "?"
                let word = String(first.prefix(while: \.isLetter))
                guard openers.contains(word), !isQuestion else { return nil }
                let message = "starts a summary with \(word): use a noun phrase or a verb"
                return Violation(path: file.path, line: index + 1, message: message)
            }
        }
    }

    /// The comment lines in `files` that use one of ``actors``.
    static func actors(in files: [SourceFile]) -> [Violation] {
        files.filter { !$0.isGenerated }.flatMap { file in
            file.lines.enumerated().flatMap { index, line -> [Violation] in
                let text = line.drop(while: \.isWhitespace)
                guard text.hasPrefix("//") else { return [] }
                let words = text.split { !$0.isLetter }.map { $0.lowercased() }
                return words.filter(actors.contains).map { word in
                    Violation(path: file.path, line: index + 1, message: "\(word): name the component or the caller")
                }
            }
        }
    }

    /// The text of a documentation comment on `line`, or `nil` if the line is anything else.
    private static func documentation(on line: Substring) -> Substring? {
        let text = line.drop(while: \.isWhitespace)
        guard text.hasPrefix("///"), !text.hasPrefix("////") else { return nil }
        return text.dropFirst(3).drop(while: \.isWhitespace)
    }
}
