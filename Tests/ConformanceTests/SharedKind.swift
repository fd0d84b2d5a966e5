import FileStorage
import SQLiteStorage
import SyncCore

/// The stores that several processes may use at once, named as in `StoreProbe`.
enum SharedKind: String, CaseIterable {
    case file, folder, sqlite

    /// The stores with compare-and-swap.
    static let conditional: [SharedKind] = [.file, .sqlite]

    /// Opens the store in `folder`, which exists.
    func open(_ folder: String) -> any KeyValueBackend {
        switch self {
        case .file: FileBackend(folder: folder, lockTimeout: .seconds(60), maximumValueByteCount: 1 << 21)
        case .folder: FileBackend(folder: folder, sharing: .fileSyncTool, lockTimeout: .seconds(60))
        case .sqlite:
            SQLiteBackend(path: folder + "/store.sqlite", busyTimeout: .seconds(60), maximumValueByteCount: 1 << 21)
        }
    }
}
