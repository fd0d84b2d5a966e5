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

    /// Returns the document under `key`, or `cached` if the store still holds that version.
    func read(_ key: EntryKey, cached: VersionedLedger? = nil) async throws(EntitlementError) -> VersionedLedger {
        let outcome: ReadOutcome
        do { outcome = try await backend.read(key, unless: cached?.version).outcome } catch {
            throw EntitlementError(error)
        }
        switch outcome {
        case .absent: return VersionedLedger()
        case .unchanged:
            guard let cached else {
                throw EntitlementError(.storage, "local store: it answered \"unchanged\" to an unconditional read")
            }
            return cached
        case .found(let entry):
            do {
                return VersionedLedger(version: entry.version, document: try LedgerDocument(decoding: entry.value))
            } catch {
                let (kind, advice): (EntitlementError.Kind, String) =
                    error.kind == .newerFormat
                    ? (.newerFormat, "update this software") : (.damaged, "restore it from a backup")
                throw EntitlementError(
                    kind, "local store: \(backend.label): \"\(key)\" cannot be read \(error); \(advice)")
            }
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

    /// Replaces the ledger under `key` with the result of `change`, and returns the previous ledger.
    ///
    /// Writes even if nothing changes: a visible value need not be durable yet, and a writer that read the entry
    /// earlier must get a conflict.
    @discardableResult
    func replace(_ key: EntryKey, _ change: (Ledger) async throws(EntitlementError) -> Ledger)
        async throws(EntitlementError) -> Ledger
    {
        for _ in 0..<Self.maximumAttempts {
            let held = try await read(key)
            let document = LedgerDocument(
                ledger: try await change(held.ledger), localSection: held.document.localSection)
            if case .happened = try await write(document, to: key, if: held.precondition) { return held.ledger }
        }
        throw busy(key, isUnknown: false)
    }

    func busy(_ key: EntryKey, isUnknown: Bool) -> EntitlementError {
        EntitlementError(
            BackendError(
                .busy, operation: .write, key: key, disposition: isUnknown ? .outcomeUnknown : .transient,
                message: "other processes wrote first \(Self.maximumAttempts) times; try again"))
    }
}
