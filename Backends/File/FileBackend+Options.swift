import SyncCore

extension FileBackend {
    /// The rule for creating a store that does not exist.
    public enum Creation: Hashable, Sendable {
        /// The first write creates it, unless the store is the remote of an engine (see
        /// ``FileBackend/requiringExisting``). Suitable for a device's local store.
        case unlessRemote
        /// The first write creates it, even if the store is a remote.
        case whenNeeded
        /// The store is never created. A missing or empty folder is `BackendError.Kind.missing`: the share may not be
        /// mounted, and an empty mount point must not look like a store without purchases.
        case never
    }

    /// The users of this machine who may use the files and folders that a store creates.
    ///
    /// It applies only to new files and folders; existing ones keep their modes. Docs/Backends.md describes how to
    /// change those.
    public enum Access: Hashable, Sendable {
        /// Only the user of the process: files get mode 0600, folders 0700.
        case owner
        /// Also the members of the folder's group: files get mode 0660, folders 2770, regardless of the umask.
        ///
        /// Create the folder first and give it the group that all users of the store are members of
        /// (`install -d -m 2770 -g GROUP DIR`). Every process that uses the store needs this option.
        case group
    }

    /// The kind of writers that share the folder.
    public enum Sharing: Hashable, Sendable {
        /// Processes that honour advisory locks: those of this machine, and those of other machines if the file server
        /// supports locks.
        case locks
        /// A tool that copies files between the folders of several machines, each of which writes to its own folder:
        /// Syncthing, Dropbox, iCloud Drive, Nextcloud and similar tools.
        ///
        /// Compare-and-swap is not possible there, so preconditions are rejected with `BackendError.Kind.unsupported`,
        /// and the engine keeps one entry for each replica instead. The folder contains only entries: no marker, no
        /// lock file (writers of this machine lock the folder itself), and temporary files with names that tools
        /// ignore. Other files are ignored.
        ///
        /// **Conflict copies** that the tool creates are listed and read, but never written or deleted. Each copy has a
        /// read-only key: the original's folder and the copy's file name. A conflict copy may have data that is nowhere
        /// else.
        ///
        /// **Half-copied files** are listed too, and reading one throws an error.
        ///
        /// **Files that iCloud Drive has not downloaded** are `BackendError.Kind.unavailable`: they are neither absent
        /// nor overwritten, and a sync fails until they are downloaded.
        case fileSyncTool
    }
}

/// The file names that tools create beside an entry's own.
///
/// | made by | name |
/// |---|---|
/// | Dropbox | `X (Alice's conflicted copy 2026-01-01).entry` |
/// | Nextcloud, ownCloud | `X (conflicted copy 2026-01-01 120000).entry` |
/// | Syncthing | `X.sync-conflict-20260101-120000-ABCDEFG.entry` |
/// | iCloud Drive | `X 2.entry` |
/// | Google Drive | `X (1).entry` |
/// | OneDrive | `X-LAPTOP.entry` |
/// | Seafile | `X (SFConflict alice 2026-01-01-12-00-00).entry` |
/// | rclone bisync | `X.entry.conflict1` |
/// | iCloud Drive, of what is not fetched yet | `.X.entry.icloud` |
///
/// The last one is not a copy. It represents an entry that exists but cannot be read now, so it is not an absence. A
/// conflict copy is any file that has `.entry` in its name, is not named like an entry, and is not temporary. A name
/// like `X-laptop.entry` may belong to the key `X-laptop`; the content of the file decides.
enum ConflictCopy {
    /// Returns `true` if `name` is the file name of a conflict copy.
    static func isName(_ name: String) -> Bool {
        guard name.contains(KeyFileName.suffix), !isTemporary(name) else { return false }
        return KeyFileName.Part(fileName: name) == nil
    }

    /// Returns `true` if `key` is the key of a conflict copy, which cannot be the key of an entry.
    static func isKey(_ key: EntryKey) -> Bool {
        isName(split(key).name)
    }

    /// The folders and the file of the conflict copy with `key`; `nil` for any other key.
    static func place(of key: EntryKey) -> (folders: [String], file: String)? {
        let (parent, name) = split(key)
        guard isName(name), let sibling = try? EntryKey(parent + "x") else { return nil }
        return (KeyFileName(sibling).folders, name)
    }

    /// Returns `true` if both keys are in the same folder, so that one may be a copy of the other.
    static func areSiblings(_ left: EntryKey, _ right: EntryKey) -> Bool {
        split(left).parent.utf8.elementsEqual(split(right).parent.utf8)
    }

    /// True for the names that tools, and this backend, give to incomplete files: hidden names (Syncthing's
    /// `.syncthing.X.tmp`, rsync's `.X.a1b2c3`), names that begin with `~`, and names with a temporary ending.
    private static func isTemporary(_ name: String) -> Bool {
        (name.hasPrefix(".") && !name.hasSuffix(".icloud")) || name.hasPrefix("~")
            || [".tmp", ".temp", ".part", ".partial", ".download", ".crdownload", ".!sync", ".filepart"].contains {
                name.hasSuffix($0)
            }
    }

    private static func split(_ key: EntryKey) -> (parent: String, name: String) {
        guard let slash = key.text.utf8.lastIndex(of: UInt8(ascii: "/")) else { return ("", key.text) }
        let start = key.text.utf8.index(after: slash)
        return (String(key.text[..<start]), String(key.text[start...]))
    }
}
