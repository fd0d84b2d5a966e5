import SyncCore

/// The file `.X.icloud` that iCloud Drive keeps in place of a file `X` whose content is not on this device.
enum Placeholder {
    private static let suffix = ".icloud"

    /// The path of the placeholder for the file at `path`; `nil` for a name that is too long to have one.
    static func path(for path: String) -> String? {
        let (folder, name) = split(path)
        let placeholder = self.name(for: name)
        return placeholder.utf8.count <= 255 ? folder + placeholder : nil
    }

    /// Returns `true` for the path of a placeholder.
    static func isPath(_ path: String) -> Bool { path.hasSuffix(suffix) && original(of: split(path).name) != nil }

    /// The name of the placeholder for the file `name`.
    static func name(for name: String) -> String { ".\(name)\(suffix)" }

    /// The name of the file for which `name` is the placeholder; `nil` for other names.
    static func original(of name: String) -> String? {
        guard name.hasPrefix("."), name.hasSuffix(suffix), name.count > suffix.count + 1 else { return nil }
        return String(name.dropFirst().dropLast(suffix.count))
    }

    private static func split(_ path: String) -> (folder: String, name: String) {
        let start = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
        return (String(path[..<start]), String(path[start...]))
    }

    /// The error of using a file that is not on this device. It is transient, because the download changes it.
    static func error(_ path: String) -> BackendError {
        BackendError(
            .unavailable,
            message: "\(path): iCloud Drive has not downloaded this file yet; download it in Finder, or with "
                + "brctl download, and try again")
    }
}
