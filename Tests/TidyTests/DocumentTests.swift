import Testing

@Suite("Documents")
struct DocumentTests {
    private func broken(_ text: String, at path: String = "Docs/A.md") -> [String] {
        let files: Set = ["README.md", "Docs/A.md", "Docs/B C.md", "Sources"]
        return Documents.brokenLinks(in: text, at: path, exists: files.contains).map(\.description)
    }

    @Test("README mentions the commands to start with")
    func readme() throws {
        let text = try Repository.current().documents["README.md"]
        let found = Documents.unnamed(["make demo", "make test"], in: text, at: "README.md")
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("Every relative link in a document has a target")
    func links() throws {
        let repository = try Repository.current()
        try #require(repository.documents.keys.contains("CONTRIBUTING.md"))
        let found = repository.documents.sorted { $0.key < $1.key }.flatMap { path, text in
            Documents.brokenLinks(in: text, at: path, exists: repository.has)
        }
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("A missing README and a missing command are found")
    func poorReadme() {
        #expect(Documents.unnamed(["make demo"], in: nil, at: "README.md").count == 1)
        #expect(Documents.unnamed(["make demo", "make test"], in: "make demo", at: "README.md").count == 1)
        #expect(Documents.unnamed(["make demo"], in: "`make demo`", at: "README.md").isEmpty)
    }

    @Test("A broken link is found, relative to its document")
    func brokenLinks() {
        #expect(broken("a\n[x](C.md)") == ["Docs/A.md:2: C.md does not exist"])
        #expect(broken("![x](README.md \"title\")").count == 1)
        #expect(broken("[a]: missing.md").count == 1)
        #expect(broken("[a](../../README.md)").count == 1)
        #expect(broken("[a](x.md) and [b](y.md)").count == 2)
    }

    @Test("Valid links, absolute URLs and links in code pass")
    func goodLinks() {
        #expect(broken("[x](../README.md#top) [y](B%20C.md) [z](./A.md) [s](../Sources/)").isEmpty)
        #expect(broken("[x](https://example.com/a.md) [y](#here) [z](mailto:a@example.com)").isEmpty)
        #expect(broken("`[x](C.md)`\n```\n[x](C.md)\n```").isEmpty)
        #expect(broken("[x](Docs/A.md)", at: "README.md").isEmpty)
    }
}
