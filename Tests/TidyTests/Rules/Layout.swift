/// Rules for the layout: top-level entries, empty modules, and names of modules and types.
enum Layout {
    static let topLevel: Set = [
        "Package.swift", "Sources", "Tests", "Backends", "Docs", "README.md", "Makefile", "LICENSE", "Benchmarks",
        "Examples", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "Packaging",
        // Written by SwiftPM and not checked in.
        "Package.resolved",
    ]

    /// Top-level entries that the list does not contain. Hidden entries belong to tools and are allowed.
    static func strangers(amongTopLevel entries: [String]) -> [Violation] {
        entries.filter { !$0.hasPrefix(".") && !topLevel.contains($0) }.map {
            Violation(path: $0, line: 1, message: "not in the list of top-level entries")
        }
    }

    /// Module folders directly below `tops` without a Swift file.
    static func emptyModules(of files: [String], below tops: [String]) -> [Violation] {
        let swiftFiles = files.filter { $0.hasSuffix(".swift") }
        let modules = Set(files.compactMap { path in module(of: path, below: tops) })
        return modules.filter { module in !swiftFiles.contains { $0.hasPrefix(module + "/") } }.sorted().map {
            Violation(path: $0, line: 1, message: "the module has no Swift file")
        }
    }

    private static func module(of path: String, below tops: [String]) -> String? {
        let parts = path.split(separator: "/")
        guard parts.count > 2, tops.contains(String(parts[0])) else { return nil }
        return "\(parts[0])/\(parts[1])"
    }

    /// Types that have the name of their module, which makes `Module.Type` ambiguous.
    static func namesakes(in files: [SourceFile], table: ImportTable) -> [Violation] {
        let kinds: Set = ["struct", "class", "enum", "actor", "protocol", "typealias"]
        return files.flatMap { file -> [Violation] in
            guard let module = table.row(forPath: file.path)?.module else { return [] }
            return zip(file.tokens, file.tokens.dropFirst()).compactMap { keyword, name in
                guard kinds.contains(keyword.text), name.text == module else { return nil }
                return Violation(path: file.path, line: name.line, message: "\(module) has the name of its module")
            }
        }
    }

    /// The differences between the documented targets of `index` (.spi.yml) and the libraries of `manifest`
    /// (Package.swift).
    static func undocumentedLibraries(manifest: SourceFile, index: String) -> [Violation] {
        let libraries = manifest.text.matches(of: #/\.library\(name: "(\w+)"/#).map { String($0.1) }
        let documented = index.matches(of: #/(?m)^ +- (\w+)$/#).map { String($0.1) }
        let missing = Set(libraries).subtracting(documented).map { "\($0) is a product without documentation" }
        let surplus = Set(documented).subtracting(libraries).map { "\($0) is documented but not a product" }
        return (missing + surplus).sorted().map { Violation(path: ".spi.yml", line: 1, message: $0) }
    }
}
