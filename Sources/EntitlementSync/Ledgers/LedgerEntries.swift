import Entitlements
import SyncCore

/// A ledger document in the local store, with its version.
struct VersionedLedger: Sendable {
    var version: EntryVersion?
    var document = LedgerDocument()

    var ledger: Ledger { document.ledger }

    /// The precondition of a write that replaces this version.
    var precondition: Precondition { version.map(Precondition.matches) ?? .absent }
}

/// Reads and writes ledger documents in the local store, with compare-and-swap only.
struct LedgerEntries: Sendable {
    let backend: any KeyValueBackend

    /// The maximum number of attempts to write while other processes keep writing.
    static let maximumAttempts = 100

    /// Returns the document under `key`.
    func read(_ key: EntryKey) async throws(EntitlementError) -> VersionedLedger {
        try decode(try await inLocalStore(await backend.read(key)).outcome, key, cached: nil)
    }

    /// Removes the first of the results of a batch, and returns the document that it holds.
    ///
    /// - Parameter cached: The document whose version the read named; it is returned if the entry is unchanged.
    func decode(
        _ results: inout ArraySlice<Result<ReadOutcome, BackendError>>, _ key: EntryKey, cached: VersionedLedger?
    ) throws(EntitlementError) -> VersionedLedger {
        try decode(ofLocalStore(results.removeFirst().get()), key, cached: cached)
    }

    private func decode(
        _ outcome: ReadOutcome, _ key: EntryKey, cached: VersionedLedger?
    ) throws(EntitlementError) -> VersionedLedger {
        switch outcome {
        case .absent: return VersionedLedger()
        case .unchanged:
            guard let cached, cached.version != nil else {
                throw EntitlementError(.storage, "local store: it answered \"unchanged\" to an unconditional read")
            }
            return cached
        case .found(let entry):
            return VersionedLedger(version: entry.version, document: try decode(entry, key))
        }
    }

    private func decode(_ entry: Entry, _ key: EntryKey) throws(EntitlementError) -> LedgerDocument {
        do { return try LedgerDocument(decoding: entry.value) } catch {
            let (kind, advice): (EntitlementError.Kind, String) =
                error.kind == .newerFormat
                ? (.newerFormat, "update this software") : (.damaged, "restore it from a backup")
            throw EntitlementError(
                kind, "local store: \(backend.label): \"\(key)\" cannot be read \(error); \(advice)")
        }
    }

    /// The outcome of a write.
    enum WriteResult {
        case happened(EntryVersion)
        case conflicted
        /// The write may have happened. The next attempt finds its facts in place, or writes them.
        case unknown
    }

    func write(_ document: LedgerDocument, to key: EntryKey, if precondition: Precondition)
        async throws(EntitlementError) -> WriteResult
    {
        do {
            let outcome = try await backend.write(document.encoded(), to: key, if: precondition).outcome
            if case .written(let version) = outcome { return .happened(version) }
            return .conflicted
        } catch let error where error.disposition == .outcomeUnknown {
            return .unknown
        } catch {
            throw EntitlementError(error)
        }
    }

    /// Replaces the document under `key` with the one that `change` returns; `nil` leaves it as it is.
    ///
    /// `change` receives the current document, an empty one if there is none. It is called again each time another
    /// writer was first.
    func update(
        _ key: EntryKey, _ change: (LedgerDocument) async throws(EntitlementError) -> LedgerDocument?
    ) async throws(EntitlementError) {
        try await backend.update(key) { (entry) async throws(EntitlementError) in
            let held = try entry.map { (entry) throws(EntitlementError) in try decode(entry, key) }
            return try await change(held ?? LedgerDocument())?.encoded()
        }
    }

    /// Replaces the ledger under `key` with the result of `change`.
    ///
    /// Writes even if nothing changes: a visible value need not be durable yet, and a writer that read the entry
    /// earlier must get a conflict.
    func replace(
        _ key: EntryKey, _ change: (Ledger) async throws(EntitlementError) -> Ledger
    ) async throws(EntitlementError) {
        try await update(key) { (held) async throws(EntitlementError) in
            LedgerDocument(ledger: try await change(held.ledger), localSection: held.localSection)
        }
    }

    func busy(_ key: EntryKey, isUnknown: Bool) -> EntitlementError {
        EntitlementError(
            BackendError(
                .busy, operation: .write, key: key, disposition: isUnknown ? .outcomeUnknown : .transient,
                message: "other processes wrote first \(Self.maximumAttempts) times; try again"))
    }
}
