public import Foundation

/// The files of the repository from which the tests were compiled.
public enum Repository {
    /// The folder of the repository.
    public static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().standardizedFileURL

    /// The file at `path`, relative to the root.
    public static func file(_ path: String) -> URL { root.appending(path: path) }

    /// The path of the catalogue that the examples and the tutorials use.
    public static let catalog = file("Examples/insomniowl.json").path(percentEncoded: false)
}
