import Foundation

/// A Swift file as the rules see it. Tests make them from literals, ``Repository`` from what is checked out.
struct SourceFile: Sendable {
    /// The path from the top of the repository, with slashes.
    let path: String
    let text: String
    let tokens: [Token]

    init(_ path: String, _ text: String) {
        self.path = path
        self.text = text
        self.tokens = SwiftTokens.of(text)
    }

    var isGenerated: Bool { path.hasSuffix(".pb.swift") }
    var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }
}

/// A place where a rule does not hold.
struct Violation: Equatable, CustomStringConvertible {
    let path: String
    let line: Int
    let message: String

    var description: String { "\(path):\(line): \(message)" }
}

/// The violations one a line, as a test prints them.
func report(_ violations: [Violation]) -> String {
    violations.map(\.description).joined(separator: "\n")
}

/// The files that are checked out, read once for all rules.
struct Repository: Sendable {
    let root: URL
    /// Every file below ``codeFolders``.
    let paths: [String]
    /// Every Swift file below ``codeFolders``, and the manifest.
    let swiftFiles: [SourceFile]
    /// The Markdown files at the top and in Docs: path to text.
    let documents: [String: String]
    /// The names at the top.
    let topLevelEntries: [String]

    static let codeFolders = ["Sources", "Backends", "Tests", "Benchmarks", "Examples"]

    private static let shared = Result { try Repository() }

    /// The repository that this file was compiled from.
    static func current() throws -> Repository { try shared.get() }

    /// The Swift files below any of `folders`.
    func files(in folders: String...) -> [SourceFile] {
        swiftFiles.filter { file in folders.contains { file.path.hasPrefix($0 + "/") } }
    }

    /// Whether `path`, counted from the top, is a file or a folder here.
    func has(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appending(path: path).path)
    }

    /// The text of the file at `path`, or `nil` where there is none.
    func text(at path: String) throws -> String? {
        guard has(path) else { return nil }
        return try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    private init() throws {
        var root = URL(filePath: #filePath)
        for _ in 1...4 { root.deleteLastPathComponent() }
        let topLevelEntries = try FileManager.default.contentsOfDirectory(atPath: root.path).sorted()
        let paths = try Self.codeFolders.flatMap { try Self.paths(below: $0, of: root) }
        self.root = root
        self.paths = paths
        self.topLevelEntries = topLevelEntries
        self.swiftFiles = try (["Package.swift"] + paths.filter { $0.hasSuffix(".swift") }).map { path in
            SourceFile(path, try String(contentsOf: root.appending(path: path), encoding: .utf8))
        }
        let documentPaths = try topLevelEntries + Self.paths(below: "Docs", of: root)
        self.documents = try Dictionary(
            uniqueKeysWithValues: documentPaths.filter { $0.hasSuffix(".md") }.map { path in
                (path, try String(contentsOf: root.appending(path: path), encoding: .utf8))
            })
    }

    /// The files below `folder` in a stable order, without hidden ones (build products live in hidden folders).
    private static func paths(below folder: String, of root: URL) throws -> [String] {
        let url = root.appending(path: folder)
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: url.path, isDirectory: &isFolder) else { return [] }
        guard isFolder.boolValue else { return [folder] }
        let names = try FileManager.default.contentsOfDirectory(atPath: url.path).sorted()
        return try names.filter { !$0.hasPrefix(".") }.flatMap { try paths(below: "\(folder)/\($0)", of: root) }
    }
}
