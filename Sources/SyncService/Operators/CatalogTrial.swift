import EntitlementSync
package import Entitlements
import SyncCore

/// The effect of a changed catalogue on customers: the replay of their ledgers with both catalogues, at one instant.
///
/// The work is bounded: a page takes at most ``pageCount`` accounts, and begins no further batch of accounts after
/// ``pagePeriod``. The counts of all pages add up to those of all customers.
package struct CatalogTrial: Sendable {
    /// The largest number of accounts of a page.
    package static let pageCount = 10_000
    /// The time after which a page ends, in milliseconds.
    static let pagePeriod: Int64 = 2_000
    /// The number of accounts that are read at a time.
    private static let batchCount = 256
    /// The largest number of customers that a page names as examples.
    static let exampleCount = 20

    /// The effect on the access to one entitlement.
    package enum Effect: String, Hashable, Sendable, CaseIterable {
        /// Access with the same end.
        case keep
        /// Access before, and none after.
        case lose
        /// No access before, and access after.
        case gain
        /// Access that ends earlier than before.
        case shorter
        /// Access that ends later than before.
        case longer
    }

    /// The access of a customer to an entitlement, before and after. `nil` if the catalogue does not have it.
    package struct Change: Sendable {
        package var entitlement: EntitlementID
        package var effect: Effect
        package var before: Access?
        package var after: Access?
    }

    /// A customer whose access changes.
    package struct Example: Sendable {
        package var account: String
        package var changes: [Change]
    }

    /// The effect on the customers of a page.
    package struct Page: Sendable {
        /// The number of customers whose ledgers were replayed.
        package var checked = 0
        /// The number of customers without access before and after.
        package var without = 0
        /// The number of customers whose ledgers are damaged.
        package var damaged = 0
        /// The number of customers by effect. A customer with several effects counts in each, but in `keep` only if it
        /// is the only one.
        package var customers: [Effect: Int] = [:]
        /// The number of customers by entitlement and effect.
        package var entitlements: [EntitlementID: [Effect: Int]] = [:]
        /// Some customers whose access changes, those that lose access first.
        package var examples: [Example] = []
        /// The account after which the next page begins; `nil` if there are no more.
        package var next: String?
    }

    /// The catalogue of the server.
    let current: Catalog
    /// The catalogue to check.
    let changed: Catalog
    let environment: EnvironmentID
    let instant: Timestamp

    /// The effect on the accounts after the one called `name`, in the order of their records.
    ///
    /// - Parameters:
    ///   - name: The account after which to begin; `nil` for the first page.
    ///   - limit: The largest number of accounts.
    ///   - now: The clock that ends the page.
    func page(
        after name: String?, limit: Int, in store: any KeyValueBackend, now: @Sendable () -> Int64
    ) async throws(BackendError) -> Page {
        var (page, count) = (Page(), 0)
        var key = try name.map { (name) throws(BackendError) in try AccountRecord.key(of: name) }
        let end = now() + Self.pagePeriod
        repeat {
            let size = min(Self.batchCount, limit - count)
            let listed = try await store.list(prefix: AccountRecord.prefix, after: key, limit: size).outcome
            let names = listed.items.compactMap { AccountRecord.name(of: $0.key) }
            let batch = try await AccountDocuments.read(names[...], in: store)
            // A large ledger takes half a second.
            let documents = names.prefix(batch.count).compactMap { batch.documents[Array($0.utf8)] }
            page = await withTaskExecutorPreference(LongWork.executor) { [page] in
                await Self.queue.add(documents, self, to: page)
            }
            count += batch.count
            page.next = batch.count < names.count ? names[batch.count - 1] : listed.next.flatMap(AccountRecord.name)
            key = try page.next.map { (name) throws(BackendError) in try AccountRecord.key(of: name) }
        } while page.next != nil && count < limit && now() < end
        page.examples.sort { $0.weight > $1.weight }
        return page
    }

    /// Replays the ledgers of one batch at a time, which leaves the other processors to other requests.
    private actor Queue {
        func add(
            _ documents: [Result<AccountDocuments, BackendError>], _ trial: CatalogTrial, to page: Page
        ) -> Page {
            documents.reduce(into: page) { trial.add($1, to: &$0) }
        }
    }

    private static let queue = Queue()

    private func add(_ documents: Result<AccountDocuments, BackendError>, to page: inout Page) {
        let (account, facts): (String, Facts)
        do throws(BackendError) {
            let held = try documents.get()
            guard let known = try held.facts() else { return }
            (account, facts) = (held.record.name, known)
        } catch {
            page.damaged += 1
            return
        }
        page.checked += 1
        let changes = changes(of: facts)
        for change in changes { page.entitlements[change.entitlement, default: [:]][change.effect, default: 0] += 1 }
        let effects = Set(changes.map(\.effect))
        if effects.isEmpty { page.without += 1 }
        for effect in effects where effect != .keep || effects.count == 1 {
            page.customers[effect, default: 0] += 1
        }
        guard effects.contains(where: { $0 != .keep }) else { return }
        let example = Example(account: account, changes: changes.filter { $0.effect != .keep })
        if page.examples.count < Self.exampleCount {
            page.examples.append(example)
        } else if let least = page.examples.indices.min(by: { page.examples[$0].weight < page.examples[$1].weight }),
            page.examples[least].weight < example.weight
        {
            page.examples[least] = example
        }
    }

    /// The effects of the changed catalogue on an account with these facts, without the entitlements to which there is
    /// no access before and after.
    private func changes(of facts: Facts) -> [Change] {
        func access(_ catalog: Catalog) -> [EntitlementID: Access] {
            let snapshot = Replay(facts, catalog: catalog, environment: environment).snapshot(at: instant)
            return Dictionary(snapshot.access.map { ($0.entitlement, $0.access) }) { $1 }
        }
        let (before, after) = (access(current), access(changed))
        return Set(before.keys).union(after.keys).sorted().compactMap { entitlement in
            let (old, new) = (before[entitlement], after[entitlement])
            guard let effect = Self.effect(old, new) else { return nil }
            return Change(entitlement: entitlement, effect: effect, before: old, after: new)
        }
    }

    private static func effect(_ before: Access?, _ after: Access?) -> Effect? {
        switch (before?.end, after?.end) {
        case (nil, nil): nil
        case (nil, _?): .gain
        case (_?, nil): .lose
        case (let old?, let new?): old == new ? .keep : new < old ? .shorter : .longer
        }
    }
}

extension CatalogTrial.Example {
    /// The order of examples: a loss is the most important.
    fileprivate var weight: Int {
        changes.map { change in
            switch change.effect {
            case .lose: 3
            case .shorter: 2
            case .gain, .longer: 1
            case .keep: 0
            }
        }.max() ?? 0
    }

    fileprivate var json: JSON {
        .object([
            ("account", .string(account)),
            (
                "changes",
                .array(
                    changes.map { change in
                        .object([
                            ("entitlement", .string(change.entitlement.rawValue)),
                            ("effect", .string(change.effect.rawValue)),
                            ("before", change.before?.json ?? .null), ("after", change.after?.json ?? .null),
                        ])
                    })
            ),
        ])
    }
}

extension CatalogTrial.Page {
    /// The page as JSON.
    package var members: [(String, JSON)] {
        func counts(_ effects: [CatalogTrial.Effect: Int]) -> [(String, JSON)] {
            CatalogTrial.Effect.allCases.map { ($0.rawValue, .number(Int64(effects[$0] ?? 0))) }
        }
        let head: [(String, JSON)] = [
            ("checked", .number(Int64(checked))), ("without", .number(Int64(without))),
            ("damaged", .number(Int64(damaged))),
        ]
        return [
            ("customers", .object(head + counts(customers))),
            (
                "entitlements",
                .array(
                    entitlements.sorted { $0.key < $1.key }.map { entitlement, effects in
                        .object([("entitlement", .string(entitlement.rawValue))] + counts(effects))
                    })
            ),
            ("examples", .array(examples.map(\.json))), ("next", JSON(next)),
        ]
    }
}

extension Access {
    /// The end of granted access; `nil` if access is denied.
    fileprivate var end: Timestamp? { if case .granted(let grant) = self { grant.until ?? .latest } else { nil } }
}
