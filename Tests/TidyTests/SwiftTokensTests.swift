import Testing

@Suite("The reader of Swift code")
struct SwiftTokensTests {
    private func words(_ text: String) -> [String] {
        SwiftTokens.of(text).map(\.text)
    }

    @Test("leaves comments out, nested ones too")
    func comments() {
        #expect(words("a // Date()\nb") == ["a", "b"])
        #expect(words("a /* x /* y */ Date() */ b") == ["a", "b"])
        #expect(words("/// Date()\na") == ["a"])
    }

    @Test("sees one sign for a string, whatever the string says")
    func strings() {
        #expect(words(#"f("Date() // \" {")"#) == ["f", "(", "\"", ")"])
        #expect(words("f(#\"a \" \\(b) {\"#)") == ["f", "(", "\"", ")"])
        #expect(words("x = \"\"\"\n  a \"quoted\" {\n  \"\"\"\ny") == ["x", "=", "\"", "y"])
        #expect(words(#"a = "" + b"#) == ["a", "=", "\"", "+", "b"])
    }

    @Test("sees the code inside of interpolations")
    func interpolations() {
        #expect(words(#""at \(Date()) {""#) == ["\"", "Date", "(", ")"])
        #expect(words(##"#"at \#(f("x")) \(g)"#"##) == ["\"", "f", "(", "\"", ")"])
        #expect(words(#""\(a ? "\(b)" : "c")" + d"#) == ["\"", "a", "?", "\"", "b", ":", "\"", "+", "d"])
    }

    @Test("keeps try! and as! apart from a negation")
    func marks() {
        #expect(words("try! f()").first == "try!")
        #expect(words("x as! Y")[1] == "as!")
        #expect(Array(words("try !done").prefix(2)) == ["try", "!"])
    }

    @Test("passes over regular expressions and quoted identifiers")
    func literals() {
        #expect(words(#"a = #/"{\/#x/# + b"#) == ["a", "=", "+", "b"])
        #expect(words("func `import {`() {}") == ["func", "`import {`", "(", ")", "{", "}"])
        #expect(words("#if DEBUG") == ["#if", "DEBUG"])
    }

    @Test("counts lines through comments and strings")
    func lines() {
        let tokens = SwiftTokens.of("/* 1\n2 */ a\n\"\"\"\n4\n\"\"\"\nb \"unterminated\nc")
        #expect(tokens.map(\.line) == [2, 3, 6, 6, 7])
    }

    @Test("read every file here to its end: all brackets pair")
    func repository() throws {
        let repository = try Repository.current()
        let found = Lengths.unbalancedFiles(in: repository.swiftFiles)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("reports a bracket that does not pair")
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
