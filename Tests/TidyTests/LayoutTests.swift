import Testing

@Suite("Layout")
struct LayoutTests {
    @Test("The root of the repository has only the listed entries")
    func topLevel() throws {
        let found = Layout.strangers(amongTopLevel: try Repository.current().topLevelEntries)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("Every module has a Swift file")
    func modules() throws {
        let tops = ["Sources", "Backends"]
        let paths = try Repository.current().paths.filter { path in tops.contains { path.hasPrefix($0 + "/") } }
        try #require(!paths.isEmpty)
        let found = Layout.emptyModules(of: paths, below: tops)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("No module contains a type with its own name")
    func namesakes() throws {
        let files = try Repository.current().files(in: "Sources", "Backends")
        let found = Layout.namesakes(in: files, table: .design)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("Every library is documented")
    func documentation() throws {
        let repository = try Repository.current()
        let manifest = try #require(repository.swiftFiles.first { $0.path == "Package.swift" })
        let index = try #require(try repository.text(at: ".spi.yml"))
        try #require(manifest.text.contains(".library(name: \"Entitlements\""))
        let found = Layout.undocumentedLibraries(manifest: manifest, index: index)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("An unknown top-level entry is found, a hidden one passes")
    func stranger() {
        #expect(Layout.strangers(amongTopLevel: ["Sources", "Utils", ".ci"]).map(\.path) == ["Utils"])
    }

    @Test("A module without Swift files is found")
    func emptyModule() {
        let files = ["Sources/A/Sub/1.swift", "Sources/B/notes.txt"]
        #expect(Layout.emptyModules(of: files, below: ["Sources"]).map(\.path) == ["Sources/B"])
    }

    @Test("A type with the name of its module is found, in any folder of that module")
    func namesake() {
        let files = [
            SourceFile("Backends/File/A.swift", "public struct\nFileStorage {}"),
            SourceFile("Sources/SyncCore/A.swift", "enum FileStorage {}\nclass func SyncCore() {}"),
        ]
        #expect(
            Layout.namesakes(in: files, table: .design).map(\.description) == [
                "Backends/File/A.swift:2: FileStorage has the name of its module"
            ])
    }

    @Test("A library without documentation and documentation without a library are found")
    func undocumented() {
        let manifest = SourceFile(
            "Package.swift", #".library(name: "A", targets: []), .library(name: "B", targets: [])"#)
        let index = "    - documentation_targets:\n        - B\n        - C\n"
        let found = Layout.undocumentedLibraries(manifest: manifest, index: index)
        #expect(found.map(\.message) == ["A is a product without documentation", "C is documented but not a product"])
    }
}
