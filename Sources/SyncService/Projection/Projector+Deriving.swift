import EntitlementSync
import Entitlements
import SyncCore

/// The change of the rows of one account.
struct AccountChange: Sendable {
    var name: String
    var before: ProjectedAccount?
    var after: ProjectedAccount?
}

/// The changes of the rows of several accounts.
struct DerivedBatch: Sendable {
    /// The number of names that the batch covers, from the first one.
    var count: Int
    var changes: [AccountChange] = []
    /// The names of the accounts whose documents are damaged. Their rows stay.
    var damaged: [String] = []
    /// The instant whose state the rows have.
    var instant: Timestamp
}

extension Projector {
    /// Derives the rows of accounts, of as many as fit into a batch.
    ///
    /// - Parameters:
    ///   - instant: The least instant whose state the rows have, in milliseconds since 1970 UTC.
    ///   - external: The names of accounts whose external id may have changed; `nil` for all.
    ///   - isNeeded: Returns `true` if an account has to be derived, from its name, its rows and its documents.
    func derive(
        _ names: ArraySlice<String>, _ catalog: Catalog, notBefore instant: Int64, external: Set<[UInt8]>?,
        isNeeded: (_ name: [UInt8], ProjectedAccount?, AccountDocuments?) -> Bool
    ) async throws(BackendError) -> DerivedBatch {
        let read = try await AccountDocuments.read(names, in: store)
        let former = try await tables.accounts(Array(names.prefix(read.count)))
        var needed: [(change: AccountChange, documents: AccountDocuments?)] = []
        var asked: [Account] = []
        var damaged: [String] = []
        for name in names.prefix(read.count) {
            let bytes = Array(name.utf8)
            let before = former[bytes]
            let held: AccountDocuments?
            do throws(BackendError) { held = try read.documents[bytes]?.get() } catch {
                // The rows stay as they are, and the other accounts go on.
                onError(error)
                damaged.append(name)
                continue
            }
            guard isNeeded(bytes, before, held) else { continue }
            needed.append((AccountChange(name: name, before: before), held))
            guard let account = held?.account else { continue }
            let isKnown = before?.incarnation == account.incarnation && external?.contains(bytes) == false
            if !isKnown { asked.append(account) }
        }
        let ids = try await ExternalIDs(records: RecordStore(backend: store)).ids(of: asked, onDamage: onError)
        var batch = DerivedBatch(
            count: read.count, damaged: damaged, instant: Timestamp(milliseconds: max(instant, host.now())))
        let (time, list, onError) = (batch.instant, needed, onError)
        // A large ledger takes half a second.
        let changes: [AccountChange?] = await withTaskExecutorPreference(LongWork.executor) {
            list.map { item in
                var change = item.change
                do throws(BackendError) {
                    change.after = try item.documents?.projected(catalog, at: time)
                } catch {
                    onError(error)
                    return nil
                }
                if let account = item.documents?.account {
                    change.after?.externalID = ids[account] ?? change.before?.externalID
                }
                return change
            }
        }
        batch.changes = changes.compactMap(\.self)
        batch.damaged += zip(needed, changes).filter { $1 == nil }.map(\.0.change.name)
        return batch
    }

    /// The statements that write the rows of a batch, and append the events of those that `isAnnounced`.
    func statements(
        for batch: DerivedBatch, _ state: inout ProjectionTables.State, isAnnounced: (AccountChange) -> Bool
    ) -> [SQLStatement] {
        state.instant = max(state.instant, batch.instant.milliseconds)
        var statistics = ProjectionStatistics()
        var events: [ProjectionEvent] = []
        for change in batch.changes {
            statistics.add(from: change.before, to: change.after)
            if isAnnounced(change) {
                events += ProjectionEvent.events(from: change.before, to: change.after, at: state.instant)
            }
        }
        return ProjectionTables.replacement(batch.changes) + statistics.statements
            + ProjectionTables.append(events, &state, tables.database.dialect)
    }
}
