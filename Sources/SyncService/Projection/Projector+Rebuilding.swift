import EntitlementSync
import Entitlements
import SyncCore

extension Projector {
    /// The number of batches of accounts between two looks at the changes.
    private static let stretch = 8

    /// Takes the position in the changes from which to follow.
    func beginFirstRebuild(_ state: inout ProjectionTables.State) async throws(BackendError) {
        var next = state
        next.position = ChangePosition.text(of: try await store.latestCursor().outcome)
        (next.rebuild, next.rebuilt, next.projected) = (.start, 0, host.now())
        try await commit([], next, &state)
    }

    /// Performs the next part of a rebuild.
    func rebuild(
        _ position: RebuildPosition, _ catalogue: Catalogue, _ state: inout ProjectionTables.State
    ) async throws(BackendError) {
        var next = state
        guard position == .start || state.nextCatalogue == catalogue.digest else {
            // The catalogue has changed since the rebuild began.
            next.rebuild = .start
            return try await commit([], next, &state)
        }
        if position == .start { (next.nextCatalogue, next.rebuilt) = (catalogue.digest, 0) }
        switch position.phase {
        case .accounts:
            return try await deriveAccounts(position, catalogue.catalog, next, &state)
        case .customers:
            let names = try await tables.customers(after: position.cursor, limit: Self.batchCount)
            let batch = try await derive(
                names[...], catalogue.catalog, notBefore: state.instant, external: []
            ) { $2 == nil }
            next.rebuild = position.advanced(to: batch.count > 0 ? names[batch.count - 1] : nil)
            let statements = statements(for: batch, &next) { _ in state.catalogue != nil }
            return try await commit(statements, next, &state)
        case .sessions: try await deriveRecords(.sessions, position, next, &state)
        case .aliases: try await deriveRecords(.aliases, position, next, &state)
        case .acts: try await deriveRecords(.acts, position, next, &state)
        case .formerSessions: try await removeFormer(.sessions, position, next, &state)
        case .formerAliases: try await removeFormer(.aliases, position, next, &state)
        case .formerActs: try await removeFormer(.acts, position, next, &state)
        case .statistics:
            let number = Int(position.cursor) ?? 0
            let isLast = number + 1 == ProjectionStatistics.recounts.count
            next.rebuild = position.advanced(to: isLast ? nil : "\(number + 1)")
            if isLast { (next.nextCatalogue, next.catalogue) = (nil, catalogue.digest) }
            try await commit(ProjectionStatistics.recounts[number], next, &state)
        }
    }

    // MARK: accounts

    /// Accounts in the order of their records, derived from one moment on.
    private struct AccountPage: Sendable {
        var batch: DerivedBatch
        /// The key of the last account; `nil` if there are no more.
        var next: String?
    }

    /// Derives a stretch of accounts, in the order of their records. Each batch is derived while the one before is
    /// written. A first rebuild gives no events, because no reader has seen a state before.
    private func deriveAccounts(
        _ position: RebuildPosition, _ catalog: Catalog, _ next: ProjectionTables.State,
        _ state: inout ProjectionTables.State
    ) async throws(BackendError) {
        let (hasEvents, instant) = (state.catalogue != nil, state.instant)
        var next = next
        var page = try await accounts(after: position.cursor, catalog, instant).get()
        for number in 1...Self.stretch {
            let cursor = number < Self.stretch ? page.next : nil
            async let following = cursor.asyncMap { await self.accounts(after: $0, catalog, instant) }
            next.rebuild = position.advanced(to: page.next)
            next.rebuilt += Int64(page.batch.count)
            let statements = statements(for: page.batch, &next) { _ in hasEvents }
            try await commit(statements, next, &state)
            next = state
            guard let result = await following else { return }
            page = try result.get()
        }
    }

    private func accounts(
        after cursor: String, _ catalog: Catalog, _ instant: Int64
    ) async -> Result<AccountPage, BackendError> {
        do throws(BackendError) {
            let key: EntryKey? = cursor.isEmpty ? nil : try EntryKey(cursor)
            let page = try await store.list(prefix: AccountRecord.prefix, after: key, limit: Self.batchCount).outcome
            let known = page.items.compactMap { item in AccountRecord.name(of: item.key).map { (item.key, $0) } }
            let batch = try await derive(known.map(\.1)[...], catalog, notBefore: instant, external: nil) { _, _, _ in
                true
            }
            let isWhole = batch.count == known.count
            return .success(AccountPage(batch: batch, next: isWhole ? page.next?.text : known[batch.count - 1].0.text))
        } catch {
            return .failure(error)
        }
    }

    // MARK: records

    private func deriveRecords(
        _ table: RecordTable, _ position: RebuildPosition, _ next: ProjectionTables.State,
        _ state: inout ProjectionTables.State
    ) async throws(BackendError) {
        var next = next
        let key: EntryKey? = position.cursor.isEmpty ? nil : try EntryKey(position.cursor)
        let page = try await store.list(prefix: table.prefix, after: key, limit: 2 * Self.pageCount).outcome
        next.rebuild = position.advanced(to: page.next?.text)
        let statements = try await table.statements(for: page.items.map(\.key), in: store, onError: onError)
        try await commit(statements, next, &state)
    }

    /// Removes the rows of records that the store does not have.
    private func removeFormer(
        _ table: RecordTable, _ position: RebuildPosition, _ next: ProjectionTables.State,
        _ state: inout ProjectionTables.State
    ) async throws(BackendError) {
        var next = next
        let key: EntryKey? = position.cursor.isEmpty ? nil : try EntryKey(position.cursor)
        // The first rebuild began with empty tables.
        let keys = state.catalogue == nil ? [] : try await tables.keys(table, after: key, limit: 2 * Self.pageCount)
        next.rebuild = position.advanced(to: keys.last?.text)
        let statements = try await table.statements(for: keys, in: store, isRemoving: true, onError: onError)
        try await commit(statements, next, &state)
    }
}

extension Optional where Wrapped: Sendable {
    /// The value that `transform` makes of the wrapped one.
    fileprivate func asyncMap<Value: Sendable>(_ transform: @Sendable (Wrapped) async -> Value) async -> Value? {
        guard let self else { return nil }
        return await transform(self)
    }
}
