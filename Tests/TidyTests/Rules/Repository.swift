import Foundation

/// A Swift file and its tokens. Tests make one from a literal, ``Repository`` from the working tree.
struct SourceFile: Sendable {
    /// The path relative to the root of the repository, with slashes.
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

/// A violation of a rule at a line of a file.
struct Violation: Equatable, CustomStringConvertible {
    let path: String
    let line: Int
    let message: String

    var description: String { "\(path):\(line): \(message)" }
}

/// The violations, one per line, as a test prints them.
func report(_ violations: [Violation]) -> String {
    violations.map(\.description).joined(separator: "\n")
}

/// The files of the working tree, read once for all rules.
struct Repository: Sendable {
    let root: URL
    /// Every file below ``codeFolders``.
    let paths: [String]
    /// Every Swift file below ``codeFolders``, and the manifest.
    let swiftFiles: [SourceFile]
    /// The text of the Markdown files at the root and in Docs, by path.
    let documents: [String: String]
    /// The names of the entries at the root.
    let topLevelEntries: [String]

    static let codeFolders = ["Sources", "Backends", "Tests", "Benchmarks", "Examples"]

    private static let shared = Result { try Repository() }

    /// The repository from which this file was compiled.
    static func current() throws -> Repository { try shared.get() }

    /// The Swift files below any of `folders`.
    func files(in folders: String...) -> [SourceFile] {
        swiftFiles.filter { file in folders.contains { file.path.hasPrefix($0 + "/") } }
    }

    /// Returns true if `path`, relative to the root, is a file or a folder.
    func has(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appending(path: path).path)
    }

    /// The text of the file at `path`, or `nil` if the file does not exist.
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

    /// The files below `folder` in a stable order. Hidden entries are skipped, because build products are in hidden
    /// folders.
    private static func paths(below folder: String, of root: URL) throws -> [String] {
        let url = root.appending(path: folder)
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: url.path, isDirectory: &isFolder) else { return [] }
        guard isFolder.boolValue else { return [folder] }
        let names = try FileManager.default.contentsOfDirectory(atPath: url.path).sorted()
        return try names.filter { !$0.hasPrefix(".") }.flatMap { try paths(below: "\(folder)/\($0)", of: root) }
    }
}
