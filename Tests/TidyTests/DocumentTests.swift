import Testing

@Suite("Documents")
struct DocumentTests {
    private func broken(_ text: String, at path: String = "Docs/A.md") -> [String] {
        let files: Set = ["README.md", "Docs/A.md", "Docs/B C.md", "Sources"]
        return Documents.brokenLinks(in: text, at: path, exists: files.contains).map(\.description)
    }

    @Test("README names the commands to begin with")
    func readme() throws {
        let text = try Repository.current().documents["README.md"]
        let found = Documents.unnamed(["make demo", "make test"], in: text, at: "README.md")
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("Every relative link in a document leads to a file")
    func links() throws {
        let repository = try Repository.current()
        try #require(repository.documents.keys.contains("CONTRIBUTING.md"))
        let found = repository.documents.sorted { $0.key < $1.key }.flatMap { path, text in
            Documents.brokenLinks(in: text, at: path, exists: repository.has)
        }
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("A README that is missing or names too little is found")
    func poorReadme() {
        #expect(Documents.unnamed(["make demo"], in: nil, at: "README.md").count == 1)
        #expect(Documents.unnamed(["make demo", "make test"], in: "make demo", at: "README.md").count == 1)
        #expect(Documents.unnamed(["make demo"], in: "`make demo`", at: "README.md").isEmpty)
    }

    @Test("A link to nothing is found, counted from its document")
    func brokenLinks() {
        #expect(broken("a\n[x](C.md)") == ["Docs/A.md:2: C.md leads to nothing"])
        #expect(broken("![x](README.md \"title\")").count == 1)
        #expect(broken("[a]: missing.md").count == 1)
        #expect(broken("[a](../../README.md)").count == 1)
        #expect(broken("[a](x.md) and [b](y.md)").count == 2)
    }

    @Test("A link that leads somewhere, leaves the repository or is code passes")
    func goodLinks() {
        #expect(broken("[x](../README.md#top) [y](B%20C.md) [z](./A.md) [s](../Sources/)").isEmpty)
        #expect(broken("[x](https://example.com/a.md) [y](#here) [z](mailto:a@example.com)").isEmpty)
        #expect(broken("`[x](C.md)`\n```\n[x](C.md)\n```").isEmpty)
        #expect(broken("[x](Docs/A.md)", at: "README.md").isEmpty)
    }
}
