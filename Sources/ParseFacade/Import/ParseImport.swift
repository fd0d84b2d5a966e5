import EntitlementSync
import Entitlements
import SyncCore
package import SyncService
import WrittenDates

/// Writes the users, sessions and objects of an export into the store of a server. Repeating an import changes nothing.
///
/// The façade's record of a user is written first, so that a user who logs in meanwhile has it. It is pending until the
/// user is complete. An import that was interrupted completes pending users.
package struct ParseImport: Sendable {
    private let configuration: ParseConfiguration
    private let gateway: AccountGateway
    private let accounts: AccountImport

    /// The number of objects that are read before they are written.
    package static let batchCount = 256

    /// The outcome for one object of an export.
    package enum Outcome: Hashable, Sendable {
        /// It was imported.
        case added
        /// It was imported before, and nothing was changed.
        case present
        /// It is of no use, for this reason: a session that has ended, an account that was erased.
        case leftOut(String)
        /// It cannot be imported, for this reason. Nothing of it remains.
        case refused(String)
    }

    /// Imports into the store of a service.
    ///
    /// - Parameter configuration: The fields of users that hold the end of a group.
    package init(_ configuration: ParseConfiguration, _ service: EntitlementService, _ accounts: AccountImport) {
        (self.configuration, gateway, self.accounts) = (configuration, AccountGateway(service), accounts)
    }

    /// Runs `body` for each element, many at a time. Elements of one batch with a name in common run in order.
    ///
    /// - Parameter names: The names of an element.
    /// - Returns: The outcomes, in the order of the elements.
    private func concurrently<Element: Sendable>(
        _ elements: [Element], _ names: (Element) -> [String],
        _ body: @escaping @Sendable (Element) async throws -> Outcome
    ) async throws -> [Outcome] {
        var outcomes = [Outcome](repeating: .present, count: elements.count)
        var waiting = Array(elements.indices)
        while !waiting.isEmpty {
            var (used, later, now): (Set<String>, [Int], [Int]) = ([], [], [])
            for index in waiting {
                let own = Set(names(elements[index]))
                if used.isDisjoint(with: own) { now.append(index) } else { later.append(index) }
                used.formUnion(own)
            }
            try await withThrowingTaskGroup(of: (Int, Outcome).self) { group in
                for index in now {
                    let element = elements[index]
                    group.addTask { (index, try await body(element)) }
                }
                for try await (index, outcome) in group { outcomes[index] = outcome }
            }
            waiting = later
        }
        return outcomes
    }

    // MARK: Users

    /// Imports users. Of two users with one name, the first one gets it.
    package func add(_ users: [ExportedUser]) async throws -> [Outcome] {
        try await concurrently(users) {
            [AccountGateway.folded($0.id), AccountGateway.folded($0.username)]
        } _: { user in
            do { return try await add(user) } catch let refusal as AccountImport.AccountRefusal {
                return .refused(refusal.reason)
            }
        }
    }

    private func add(_ user: ExportedUser) async throws -> Outcome {
        let account = try accounts.account(user.id)
        let key = try ParseUser.key(of: account)
        let former = try await accounts.state(of: account)
        guard former != .erased else { return .leftOut("the account was erased") }
        if former == .imported, let known = try await gateway.records.read(key, as: ParseUser.self)?.value,
            known.isPending != true
        {
            return .present
        }
        var record = ParseUser(
            objectID: user.id, username: user.username, createdAt: user.created.milliseconds,
            updatedAt: user.updated.milliseconds, fields: user.fields)
        var password: String?
        switch user.access {
        case .password(let hash): password = hash
        case .anonymous(let id): record.anonymous = try anonymousKey(id).text
        case .reset: break
        }
        record.isPending = true
        let pending = record
        _ = try await gateway.records.update(key) { (known: ParseUser?) in known == nil ? pending : nil }
        let state: AccountImport.State
        do {
            state = try await accounts.create(
                account, alias: user.username, password: password, created: user.created.milliseconds)
        } catch let refusal as AccountImport.AccountRefusal {
            if try await accounts.state(of: account) != .imported { try await remove(key) }
            throw refusal
        }
        guard state != .erased else {
            try await remove(key)
            return .leftOut("the account was erased")
        }
        if case .anonymous(let id) = user.access, try await !link(try anonymousKey(id), account) {
            if state == .absent {
                try await accounts.undo(account)
                try await remove(key)
            }
            return .refused("another account has this anonymous id")
        }
        if !user.ends.isEmpty { try await assert(user, account) }
        if let token = user.token, token.utf8.count >= 16 { _ = try await add([(token, nil)], of: account) }
        _ = try await gateway.records.update(key) { (known: ParseUser?) in
            guard var user = known, user.isPending == true else { return nil }
            user.isPending = nil
            return user
        }
        return .added
    }

    private func remove(_ key: EntryKey) async throws(BackendError) {
        try await gateway.records.remove(key, as: ParseUser.self) { _ in true }
    }

    private func anonymousKey(_ id: String) throws(BackendError) -> EntryKey {
        try ParseEntry.anonymousKey(gateway.digest(of: id.lowercased()))
    }

    /// Returns `false` if another account has the anonymous id.
    private func link(_ key: EntryKey, _ account: Account) async throws -> Bool {
        let noted = try await AccountEntries(records: gateway.records)
            .add([key], of: account, under: ParseEntry.prefix + "anonymous/")
        guard !noted.isEmpty else { return false }
        return try await write(ParseEntry(account, epoch: AccountImport.epoch), to: key) != nil
    }

    /// Writes an entry, unless there is one.
    ///
    /// - Returns: `true` if it was written, `false` if the account has it, and `nil` if another account has it.
    private func write(_ entry: ParseEntry, to key: EntryKey) async throws(BackendError) -> Bool? {
        var held: ParseEntry?
        _ = try await gateway.records.update(key) { (known: ParseEntry?) in
            held = known
            return known == nil ? entry : nil
        }
        guard let held else { return true }
        return held.account == entry.account ? false : nil
    }

    /// Records the imported dates as assertions, made when the old server last changed the user.
    private func assert(_ user: ExportedUser, _ account: Account) async throws {
        // The user may have changed the password since an import that was interrupted.
        guard let epoch = try await gateway.epoch(of: account),
            let caller = try await gateway.caller(account, epoch: epoch)
        else { return }
        let now = Timestamp(milliseconds: gateway.host.now())
        try await gateway.record(for: caller) { ledger, server in
            let facts = Facts(account: ledger, server: server)
            let known = Set(facts.assertions.map(\.reference))
            let latest = facts.purchases.map(\.date).max() ?? .earliest
            var (time, new) = (facts.latestTime, [Fact]())
            for (group, dates) in user.ends.sorted(by: { $0.key < $1.key }) {
                for date in dates {
                    let reference = Assertion.Reference(group: group, source: WrittenDate.importSource, until: date)
                    let id = gateway.digest(of: "\(account) \(account.incarnation) \(group) \(date.milliseconds)")
                    guard !known.contains(reference), let replica = ReplicaID(bytes: Array(id.utf8.prefix(16))) else {
                        continue
                    }
                    time = time.next(at: now)
                    new.append(
                        .assertion(
                            Assertion(
                                reference, assertedAt: max(min(user.updated, now), latest), recordedAt: now,
                                replica: replica, logicalTime: time)))
                }
            }
            return new
        }
    }

    // MARK: Sessions

    /// Imports sessions. They stay valid until their end, unless the password was changed since.
    package func add(_ sessions: [ExportedSession]) async throws -> [Outcome] {
        try await concurrently(sessions) {
            [$0.user]
        } _: { session in
            guard session.isUsable(at: gateway.host.now()) else {
                return .leftOut("the session has ended or is restricted")
            }
            guard let account = try await imported(session.user) else { return .leftOut("its user was not imported") }
            return try await add([(session.token, session.expires)], of: account)
        }
    }

    /// The account of an object id, unless it was not imported or its password was changed since.
    private func imported(_ id: String) async throws -> Account? {
        guard let account = try? accounts.account(id),
            try await accounts.epoch(of: account) == AccountImport.epoch
        else { return nil }
        return account
    }

    private func add(_ sessions: [(token: String, expires: Timestamp?)], of account: Account) async throws -> Outcome {
        let now = gateway.host.now()
        var outcome = Outcome.present
        for (token, expires) in sessions {
            let key = try ParseEntry.sessionKey(gateway.digest(of: token))
            let noted = try await AccountEntries(records: gateway.records)
                .add([key], of: account, under: ParseEntry.prefix + "sessions/")
            guard !noted.isEmpty else { return .leftOut("the user has 100 sessions") }
            let end = expires?.milliseconds ?? now + ParseServer.sessionLifetime
            var entry = ParseEntry(account, epoch: AccountImport.epoch, expires: end)
            entry.isImported = true
            guard let isNew = try await write(entry, to: key) else {
                return .refused("another account has a session with this token")
            }
            if isNew { outcome = .added }
        }
        return outcome
    }

    // MARK: Objects

    /// Imports objects of a class. Each belongs to its user.
    package func add(_ objects: [ExportedObject], to name: String) async throws -> [Outcome] {
        try await concurrently(objects) {
            [$0.user]
        } _: { object in
            guard let account = try? accounts.account(object.user),
                try await accounts.state(of: account) == .imported
            else { return .leftOut("its user was not imported") }
            let item = ParseObjects.Item(
                id: object.id, createdAt: object.created.milliseconds, updatedAt: object.updated.milliseconds,
                digest: gateway.digest(of: "import \(object.id)"), fields: object.fields)
            var outcome = Outcome.added
            _ = try await gateway.records.update(try ParseObjects.key(of: name, account)) { (known: ParseObjects?) in
                var objects = known ?? ParseObjects()
                if objects.items.contains(where: { $0.id == item.id }) {
                    outcome = .present
                    return nil
                }
                objects.items.append(item)
                guard objects.byteCount <= ParseObjects.byteLimit else {
                    outcome = .refused(
                        "the objects of a class can have at most \(ParseObjects.byteLimit) bytes for a user")
                    return nil
                }
                outcome = .added
                return objects
            }
            return outcome
        }
    }
}
