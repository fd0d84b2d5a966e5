import Testing

@Suite("The reader of Swift code")
struct SwiftTokensTests {
    private func words(_ text: String) -> [String] {
        SwiftTokens.of(text).map(\.text)
    }

    @Test("Comments are dropped, nested ones included")
    func comments() {
        #expect(words("a // Date()\nb") == ["a", "b"])
        #expect(words("a /* x /* y */ Date() */ b") == ["a", "b"])
        #expect(words("/// Date()\na") == ["a"])
    }

    @Test("A string is one token, whatever it contains")
    func strings() {
        #expect(words(#"f("Date() // \" {")"#) == ["f", "(", "\"", ")"])
        #expect(words("f(#\"a \" \\(b) {\"#)") == ["f", "(", "\"", ")"])
        #expect(words("x = \"\"\"\n  a \"quoted\" {\n  \"\"\"\ny") == ["x", "=", "\"", "y"])
        #expect(words(#"a = "" + b"#) == ["a", "=", "\"", "+", "b"])
    }

    @Test("The code of interpolations is tokenized")
    func interpolations() {
        #expect(words(#""at \(Date()) {""#) == ["\"", "Date", "(", ")"])
        #expect(words(##"#"at \#(f("x")) \(g)"#"##) == ["\"", "f", "(", "\"", ")"])
        #expect(words(#""\(a ? "\(b)" : "c")" + d"#) == ["\"", "a", "?", "\"", "b", ":", "\"", "+", "d"])
    }

    @Test("try! and as! differ from a negation")
    func marks() {
        #expect(words("try! f()").first == "try!")
        #expect(words("x as! Y")[1] == "as!")
        #expect(Array(words("try !done").prefix(2)) == ["try", "!"])
    }

    @Test("Regular expressions and quoted identifiers are skipped")
    func literals() {
        #expect(words(#"a = #/"{\/#x/# + b"#) == ["a", "=", "+", "b"])
        #expect(words("func `import {`() {}") == ["func", "`import {`", "(", ")", "{", "}"])
        #expect(words("#if DEBUG") == ["#if", "DEBUG"])
    }

    @Test("Lines are counted through comments and strings")
    func lines() {
        let tokens = SwiftTokens.of("/* 1\n2 */ a\n\"\"\"\n4\n\"\"\"\nb \"unterminated\nc")
        #expect(tokens.map(\.line) == [2, 3, 6, 6, 7])
    }

    @Test("All brackets of every file in the repository are balanced")
    func repository() throws {
        let repository = try Repository.current()
        let found = Lengths.unbalancedFiles(in: repository.swiftFiles)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("An unbalanced bracket is reported")
    func unbalanced() {
        let files = [
            SourceFile("a.swift", "f {\n g(\n}"), SourceFile("b.swift", "f {\n"), SourceFile("c.swift", "f\n)"),
            SourceFile("d.swift", "f { [(\"{\")] }"),
        ]
        let found = Lengths.unbalancedFiles(in: files).map { "\($0.path):\($0.line)" }
        #expect(
            found == [
                "a.swift:3", "b.swift:1", "c.swift:2",
            ])
    }
}
