import FileStorage
import SyncCore

/// Opens the stores that a command line can name.
enum StoreURL {
    /// The store that `text` names: `memory:`, `file:DIR`, or `folder:DIR`, which a file-sync tool shares.
    ///
    /// - Parameter creating: who makes the folder where it is missing.
    static func open(
        _ text: String, host: HostServices, option: String, creating: FileBackend.Creation = .unlessRemote
    ) throws(Failure) -> any KeyValueBackend {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        switch parts[0] {
        case "memory" where parts.count == 2 && parts[1].isEmpty:
            return MemoryBackend(host: host)
        case "file" where parts.count == 2 && parts[1].hasPrefix("//") && !parts[1].hasPrefix("///"),
            "folder" where parts.count == 2 && parts[1].hasPrefix("//") && !parts[1].hasPrefix("///"):
            throw Failure(.usage, "\(option): \"\(text)\" names a host: a folder of this machine is \(parts[0]):DIR")
        case "file" where parts.count == 2 && !parts[1].isEmpty:
            // It waits for other processes by itself; everything else is told at once.
            return FileBackend(folder: path(parts[1]), creating: creating, host: host)
        case "folder" where parts.count == 2 && !parts[1].isEmpty:
            return FileBackend(folder: path(parts[1]), sharing: .fileSyncTool, creating: creating, host: host)
        default:
            throw Failure(.usage, "\(option): \"\(text)\" is no store: write file:DIR, folder:DIR or memory:")
        }
    }

    /// `file:///a/b` and `file:/a/b` are the same folder, as in other programs.
    private static func path(_ text: String) -> String {
        text.hasPrefix("///") ? String(text.dropFirst(2)) : text
    }
}
