import Entitlements
import SQLiteStorage

/// The version of the program, and the formats that it reads and writes.
enum Version {
    /// The version of the package (Semantic Versioning). The changelog and the packages use it too.
    static let number = "0.1.0"

    /// The commit of the sources, filled in by `git archive` for release tarballs (see `.gitattributes`).
    ///
    /// In a clone the text keeps its dollar sign.
    private static let archivedCommit = "$Format:%H$"

    /// The full hash of the commit; `nil` for a build from a clone, whose files may differ from the commit.
    static let commit: String? = archivedCommit.hasPrefix("$") ? nil : archivedCommit

    /// The version of the HTTP protocol, which is the first component of its paths.
    static let wire = "/v1"

    /// The text that `--version` prints. The second word is the version.
    static let description = """
        syncd \(number) (\(commit.map { "commit \($0)" } ?? "development build"))
        wire \(wire), ledger format \(LedgerDocument.format), SQLite schema \(StoreSchema.version)
        """
}
