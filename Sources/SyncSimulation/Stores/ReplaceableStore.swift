import SyncCore

/// A store that a run can copy and replace.
protocol ReplaceableStore: KeyValueBackend {
    /// Returns a copy of the complete state.
    func backup() -> MemoryBackend.Backup
    /// Replaces the state with that of `backup`, old versions and cursors included.
    func putBack(_ backup: MemoryBackend.Backup)
}

extension MemoryBackend: ReplaceableStore {}
