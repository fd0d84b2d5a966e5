import Entitlements
import SyncCore

/// One ledger as it stands in the local store.
struct VersionedLedger: Sendable {
    var version: EntryVersion?
    var document = LedgerDocument()

    var ledger: Ledger { document.ledger }

    /// What must hold for a write in its place.
    var precondition: Precondition { version.map(Precondition.matches) ?? .absent }
}

/// Reads and writes ledger documents in the local store, by compare-and-swap only.
struct LedgerEntries: Sendable {
    let backend: any KeyValueBackend

    /// How often a write is tried when other processes keep writing in between.
    static let maximumAttempts = 100

    /// What the store holds under `key`; the cached one when it still holds that.
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

    /// What became of a write.
    enum WriteResult {
        case happened(EntryVersion)
        case conflicted
        /// It may have happened: the next round finds its facts in place, or writes them.
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

    /// Puts `change` of what stands under `key` in its place, and returns what stood there. Writes even when nothing
    /// changes: what can be seen need not be durable, and a writer who looked before must notice.
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
                message: "others wrote in between \(Self.maximumAttempts) times, try again"))
    }
}
