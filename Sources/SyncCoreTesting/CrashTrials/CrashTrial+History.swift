#if os(macOS) || os(Linux)
import SyncCore

extension CrashTrial {
    /// The assignment of a child that is not killed: it writes, reports the versions and tags that it received, and
    /// exits.
    static let historyErrand = "history"

    /// Lets one process open the store, write and exit; see ``StoreUnderTest/lives``.
    ///
    /// - Parameter command: Returns the command line of a child that calls ``writer(_:assignment:)`` with the given
    ///   assignment.
    /// - Returns: The versions and tags that the process received.
    /// - Throws: The errors of `command`, and a `BackendError` if the child failed or wrote no output for a minute.
    public static func history(
        command: @Sendable (_ assignment: String) async throws -> Command
    ) async throws -> WrittenHistory {
        let command = try await command(historyErrand)
        let child = try ChildProcess(command.executable, command.arguments)
        var history = WrittenHistory(versions: [], tags: [])
        while case .line(let line) = child.hear() {
            guard line != "end" else { return history }
            let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
            switch (parts.first, parts.last) {
            case ("version", let text?): history.versions.append(EntryVersion(bytes: try bytes(of: text, in: line)))
            case ("tag", let text?):
                history.tags.append(try bytes(of: text, in: line).reduce(0) { $0 << 8 | UInt64($1) })
            default: throw unexpected(line)
            }
        }
        throw unexpected("nothing: it exited, or wrote no output for a minute")
    }

    /// Encodes a history as the lines that ``history(command:)`` reads.
    static func lines(of history: WrittenHistory) -> String {
        let versions = history.versions.map { "version \($0)\n" }
        let tags = history.tags.map { tag in
            "tag \(Hexadecimal.text(tag))\n"
        }
        return (versions + tags).joined() + "end\n"
    }

    private static func bytes(of text: String, in line: String) throws(BackendError) -> [UInt8] {
        guard let bytes = Hexadecimal.bytes(text.utf8), (1...64).contains(bytes.count) else { throw unexpected(line) }
        return bytes
    }

    private static func unexpected(_ line: String) -> BackendError {
        BackendError(.other, message: "the process that reports its versions said: \(line)")
    }
}
#endif
