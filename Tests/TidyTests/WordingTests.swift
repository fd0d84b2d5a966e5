import Testing

@Suite("Wording")
struct WordingTests {
    private func openers(_ text: String) -> [String] {
        Wording.openers(in: [SourceFile("a.swift", text)]).map(\.description)
    }

    private func actors(_ text: String) -> [Int] {
        Wording.actors(in: [SourceFile("a.swift", text)]).map(\.line)
    }

    @Test("Documentation summaries are noun phrases or start with a verb")
    func summaries() throws {
        let found = Wording.openers(in: try Repository.current().swiftFiles)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("Comments name the component or the caller instead of a person")
    func persons() throws {
        let found = Wording.actors(in: try Repository.current().swiftFiles)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("A summary that starts with a question word is reported at its first line")
    func badSummary() {
        #expect(
            openers("/// A value.\nlet a = 1\n    /// Whether it is so.\n    /// What follows is no summary.") == [
                "a.swift:3: starts a summary with Whether: use a noun phrase or a verb"
            ])
        #expect(openers("///What it is").count == 1)
    }

    @Test("Question words are allowed in questions, later sentences, longer words and plain comments")
    func goodSummaries() {
        #expect(openers("/// Who signed\n/// this?\nlet a = 1").isEmpty)
        #expect(openers("/// A value.\n///\n/// What else.\n/// However.").isEmpty)
        #expect(openers("/// However long it takes.\nlet a = 1\n// What follows").isEmpty)
    }

    @Test("A person is reported in a comment, but not in code or inside a word")
    func badActor() {
        #expect(actors("let his = 1\n  // He asks for his own history.\n/// The thesis") == [2, 2])
        #expect(actors("/// Whoever asks\n// nobody\n//// Somebody") == [1, 2, 3])
    }
}
