import Foundation

/// Rules for Markdown files: required commands and valid links.
enum Documents {
    /// Reports each of `commands` that `text` does not mention.
    static func unnamed(_ commands: [String], in text: String?, at path: String) -> [Violation] {
        guard let text else { return [Violation(path: path, line: 1, message: "the file is missing")] }
        return commands.filter { !text.contains($0) }.map {
            Violation(path: path, line: 1, message: "does not mention `\($0)`")
        }
    }

    /// The relative links in `text` whose target does not exist.
    ///
    /// - Parameter exists: returns true if a path, relative to the root of the repository, exists.
    static func brokenLinks(in text: String, at path: String, exists: (String) -> Bool) -> [Violation] {
        links(in: text).compactMap { link in
            guard let target = file(of: link.text, from: path) else { return nil }
            // A target outside the repository is missing in every other clone.
            guard target.hasPrefix("..") || !exists(target) else { return nil }
            return Violation(path: path, line: link.line, message: "\(link.text) does not exist")
        }
    }

    /// The targets of links and images in `text`, code excepted.
    private static func links(in text: String) -> [Token] {
        var found: [Token] = []
        var isCode = false
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            if line.drop(while: { $0 == " " }).hasPrefix("```") { isCode.toggle() }
            guard !isCode else { continue }
            let prose = line.replacing(#/`[^`]*`/#, with: "")
            let inline = prose.matches(of: #/\]\(\s*<?([^)\s>]+)/#).map(\.1)
            let reference = prose.matches(of: #/^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)/#).map(\.1)
            found += (inline + reference).map { Token(text: String($0), line: index + 1) }
        }
        return found
    }

    /// Resolves `link` in the document at `path` to a path relative to the root of the repository.
    ///
    /// - Returns: `nil` for an absolute URL and for an anchor on the same page.
    private static func file(of link: String, from path: String) -> String? {
        guard link.firstMatch(of: #/^[a-zA-Z][a-zA-Z0-9+.-]*:/#) == nil, !link.hasPrefix("#") else { return nil }
        let target = String(link.prefix { $0 != "#" && $0 != "?" })
        let name = target.removingPercentEncoding ?? target
        var parts = path.split(separator: "/").dropLast().map(String.init)
        for part in name.split(separator: "/") {
            switch part {
            case ".": break
            case ".." where !parts.isEmpty && parts.last != "..": parts.removeLast()
            default: parts.append(String(part))
            }
        }
        return parts.joined(separator: "/")
    }
}
