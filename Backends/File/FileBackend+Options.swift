import SyncCore

extension FileBackend {
    /// The rule for creating a store that does not exist.
    public enum Creation: Hashable, Sendable {
        /// The first write creates it, as suits a device's own store; but not if the store is the remote of an
        /// engine (see ``FileBackend/requiringExisting``).
        case unlessRemote
        /// The first write creates it, even if the store is a remote.
        case whenNeeded
        /// Nothing creates it. A folder that is missing, or empty, is `BackendError.Kind.missing`: the share may not be
        /// mounted, and an empty mount point is no store in which nothing was ever bought.
        case never
    }

    /// The users of this machine who may use the files and folders that a store creates.
    ///
    /// Only what is created from now on gets these rights; a store that exists keeps its own. Docs/Backends.md says how
    /// to change those.
    public enum Access: Hashable, Sendable {
        /// Only the user of the process: files get mode 0600, folders 0700.
        case owner
        /// The members of the folder's group as well: files get mode 0660, folders 2770, whatever the umask says.
        ///
        /// Create the folder first and give it the group that all users of the store are members of
        /// (`install -d -m 2770 -g GROUP DIR`). Every process that uses the store needs this option.
        case group
    }

    /// The kind of writers that share the folder.
    public enum Sharing: Hashable, Sendable {
        /// Processes that honour advisory locks: those of this machine, and those of others where the file server
        /// passes locks on.
        case locks
        /// A tool that copies files between the folders of several machines, each of which writes into its own:
        /// Syncthing, Dropbox, iCloud Drive, Nextcloud and their kind.
        ///
        /// Nothing can be compared and swapped there, so preconditions are refused with
        /// `BackendError.Kind.unsupported`; the engine keeps an entry for each replica instead. The folder holds
        /// nothing but entries: no marker, no lock file (writers of this machine take turns by a lock on the folder
        /// itself), and temporary names that tools leave alone. Other files are ignored.
        ///
        /// **Conflict copies** that the tool makes are listed and read, and never written or deleted: each has a key
        /// beside the one that it is a copy of, which ends in the copy's file name and cannot be written. A copy may
        /// hold data that is nowhere else.
        ///
        /// **Half-copied files** are listed too, and reading them is an error of their own.
        case fileSyncTool
    }
}

/// The names of files that a tool makes beside an entry's own.
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
/// The last is no copy, but it stands for an entry that is there and cannot be read now, and so it is no absence.
/// So a copy is any file that has `.entry` in its name, is no entry's own, and is not temporary. A name like
/// `X-laptop.entry` may be an entry's own, of the key `X-laptop`; the content of the file decides.
enum ConflictCopy {
    /// Whether a file called `name` is a copy of some entry.
    static func isName(_ name: String) -> Bool {
        guard name.contains(KeyFileName.suffix), !isTemporary(name) else { return false }
        return KeyFileName.Part(fileName: name) == nil
    }

    /// Whether `key` is how a copy is read, and so can be no entry's own.
    static func isKey(_ key: EntryKey) -> Bool {
        isName(split(key).name)
    }

    /// The folders and the file of the copy that is read as `key`; `nil` for any other key.
    static func place(of key: EntryKey) -> (folders: [String], file: String)? {
        let (parent, name) = split(key)
        guard isName(name), let sibling = try? EntryKey(parent + "x") else { return nil }
        return (KeyFileName(sibling).folders, name)
    }

    /// Whether both keys are in one folder, where one may be a copy of the other.
    static func areSiblings(_ left: EntryKey, _ right: EntryKey) -> Bool {
        split(left).parent.utf8.elementsEqual(split(right).parent.utf8)
    }

    /// What tools, and our own writers, give to files that are not whole yet: hidden names (Syncthing's
    /// `.syncthing.X.tmp`, rsync's `.X.a1b2c3`), names that begin with `~`, and names with an ending of that meaning.
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
