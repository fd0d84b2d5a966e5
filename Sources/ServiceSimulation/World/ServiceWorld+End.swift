import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
import SyncCore
import SyncProtocol
import SyncService
import SyncSimulation

extension ServiceWorld {
    /// The time for which all servers run without faults before the last checks, in seconds: two rounds of the sweeper,
    /// and the silence after which a server no longer counts for the guard of the clocks.
    private var recovery: Int64 { marks[.clockSetBack] == nil ? 150 : 400 }

    /// Ends all faults, checks the end of the run, and stops the servers.
    func finish() async {
        recorder.record(storeLane, .healed, 0, .healed)
        isCalm = true
        cluster?.heal()
        for machine in machines {
            machine.clockOffset = scenario.servers[machine.index]
            machine.process?.pendingKill = nil
            machine.process?.continueAtOnce()
            machine.start()
        }
        await pause(recovery * 1_000_000)
        await quiesce(atMost: 900)
        if workCount > 0 { report(.execution, "\(workCount) actions and messages do not end") }
        let rights = await finalRights()
        if let rights { checkOwnership(rights) }
        do throws(BackendError) {
            try await checkStreams()
            try await checkErasures()
            try await checkAuditList()
        } catch {
            report(.service, "the store cannot be read at the end: \(error.kind)")
        }
        isNight = true
        for watcher in watchers { watcher.stop() }
        for machine in machines { machine.kill(restartAfter: nil) }
        for _ in 0..<300 where streamCount > 0 { await pause(1_000_000) }
        if streamCount > 0 { report(.execution, "\(streamCount) streams do not end") }
        // The tasks of the processes end, so that nothing keeps the run's objects alive.
        await pause(5_000_000)
    }

    // MARK: accounts

    /// The sales that count for each living account, by the answers of the servers. Reads every entry, which the audit
    /// checks. `nil` if an account could not be used.
    private func finalRights() async -> [(life: Life, sales: Set<Int>)]? {
        var rights: [(life: Life, sales: Set<Int>)] = []
        for name in Set(audit.lives.map { ServiceAudit.folded($0.name) }).sorted() {
            let lives = audit.lives.filter { ServiceAudit.folded($0.name) == name }
            do {
                guard let session = try await openAccount(lives, name) else {
                    guard lives.contains(where: { $0.erasureAsked == nil }) else { continue }
                    report(.service, "the account \(name) cannot be used any more")
                    return nil
                }
                guard let life = audit.life(session.incarnation) else { continue }
                rights.append((life, try await sales(of: session)))
            } catch {
                report(.service, "the account \(name) cannot be used after all faults: \(error)")
                return nil
            }
        }
        return rights
    }

    /// Logs in with any password that may be the present one, or else with a recovery code from the operator.
    private func openAccount(_ lives: [Life], _ folded: String) async throws -> ServerSession? {
        // A spelling of an erased account means that account, so that of a living one comes first.
        let living = lives.filter { $0.erasedAt == nil } + lives.filter { $0.erasedAt != nil }.reversed()
        var names: [String] = []
        for life in living where !names.contains(life.name) { names.append(life.name) }
        for name in names {
            if let session = try await openAccount(name, folded) { return session }
        }
        return nil
    }

    private func openAccount(_ name: String, _ folded: String) async throws -> ServerSession? {
        let client = try AccountClient(server: Self.address, transport: storeLink, host: clientHost)
        for password in audit.possiblePasswords(of: folded).prefix(4) {
            do throws(AccountError) { return try await client.logIn(name, password: password) } catch {
                guard error.kind == .invalidCredentials else { throw error }
            }
        }
        do throws(AccountError) {
            let code = try await client.addRecoveryCode(to: name) { _ in Self.operatorToken }
            return try await client.recover(
                code.account, code: code.code, newPassword: "secret-\(takeMessage())-secret")
        } catch {
            guard error.kind == .unknown || error.kind == .invalidCredentials else { throw error }
            return nil
        }
    }

    private func sales(of session: ServerSession) async throws -> Set<Int> {
        let remote = try HTTPBackend(server: Self.address, transport: storeLink, host: clientHost) { _ in
            session.accessToken
        }
        let account = try Account(session.account, incarnation: session.incarnation)
        let prefix = try LedgerKeys(account).prefix
        for key in audit.entries.keys.sorted() where key.hasPrefix(prefix) {
            _ = try await remote.read(try EntryKey(key), unless: nil)
        }
        let access = try await entitlements(session)["access"]
        return Set((0..<StoreDesk.saleCount).filter { access?["e\($0)"]?["granted"] == .bool(true) })
    }

    private func entitlements(_ session: ServerSession) async throws -> JSON {
        var request = HTTPRequest(
            method: .get, scheme: "https", authority: "sync.example.com", path: "/v1/entitlements")
        request.headerFields[.authorization] = "Bearer \(session.accessToken)"
        let answer = try await storeLink.send(request, body: [], timeout: .seconds(30), maximumByteCount: 1 << 20)
        guard answer.response.status == .ok else { throw ScenarioError("status \(answer.response.status.code)") }
        return try JSON(parsing: answer.body)
    }

    // MARK: purchases

    private func checkOwnership(_ rights: [(life: Life, sales: Set<Int>)]) {
        for sale in 0..<StoreDesk.saleCount {
            let owners = rights.filter { $0.sales.contains(sale) }.map(\.life)
            let names = owners.map(\.name).joined(separator: " and ")
            if audit.refunds.contains(sale), !owners.isEmpty {
                report(.ownership, "the refunded sale \(sale) counts for \(names)")
            }
            if scenario.ownership != .share, owners.count > 1 {
                report(.ownership, "the sale \(sale) counts for \(names)")
            }
            guard !desk.isRefunded(sale) else { continue }
            let entitled = rights.map(\.life).filter { life in
                audit.recordings[sale]?.contains { $0.life === life } == true
            }
            // An account that has a sale takes it along when it is erased.
            let isErased = audit.presentations[sale]?.contains { $0.erasureAsked != nil } == true
            let isUnclear = isErased || audit.acts.contains { $0.sale == sale && !$0.isDone }
            if let first = entitled.first, owners.isEmpty, !isUnclear {
                report(.ownership, "the sale \(sale), recorded for \(first.name), counts for no account")
            }
            for life in entitled where scenario.ownership == .share && !owners.contains(where: { $0 === life }) {
                report(.ownership, "the shared sale \(sale) does not count for \(life.name)")
            }
            checkFirstOwner(of: sale, owners)
        }
    }

    /// Under `keepWithFirst`, a sale stays with the first account until that is erased or support moves it.
    private func checkFirstOwner(of sale: Int, _ owners: [Life]) {
        guard scenario.ownership == .keepWithFirst, !audit.acts.contains(where: { $0.sale == sale }),
            let first = audit.recordings[sale]?.first?.life, first.erasureAsked == nil,
            !owners.contains(where: { $0 === first })
        else { return }
        report(.ownership, "the sale \(sale) no longer counts for \(first.name), which had it first")
    }

    // MARK: the store

    private func checkStreams() async throws(BackendError) {
        for watcher in watchers where watcher.isConnected {
            guard let account = watcher.account, let begun = watcher.begun,
                audit.life(account.incarnation)?.erasureAsked == nil
            else { continue }
            let prefix = try LedgerKeys(account).prefix + "notes/"
            for item in try await store.list(prefix: prefix, after: nil, limit: 1_000).outcome.items {
                guard let last = audit.entries[item.key.text]?.lastDone, last > begun else { continue }
                if watcher.versions[item.key.text] != .some("\(item.version)") {
                    report(
                        .streams, "a stream ends without the last version of \(item.key)", lane: watcher.device.index)
                }
            }
        }
    }

    /// An erased life leaves its marker only.
    private func checkErasures() async throws(BackendError) {
        // A server that is suspended between the check of a token and a write, and killed after the write, may leave a
        // value that only the operator can read. See Docs/Security.md.
        let isExcused = marks[.frozen] != nil && (marks[.killed] ?? marks[.nightPassed]) != nil
        for life in audit.lives where life.erasedAt != nil && !isExcused {
            let account: Account
            do { account = try Account(life.name, incarnation: life.incarnation) } catch { continue }
            let keys = try LedgerKeys(account)
            for item in try await store.list(prefix: keys.prefix, after: nil, limit: 1_000).outcome.items
            where item.key != keys.ledger {
                report(.erased, "\(item.key) is left of the erased account \(life.name)")
            }
            for item in try await store.list(prefix: "owners/", after: nil, limit: 1_000).outcome.items {
                guard case .found(let entry) = try await store.read(item.key, unless: nil).outcome else { continue }
                if String(decoding: entry.value, as: UTF8.self).contains(life.incarnation) {
                    report(.erased, "\(item.key) belongs to the erased account \(life.name)")
                }
            }
        }
    }

    private func checkAuditList() async throws(BackendError) {
        if case .broken(let number, let reason) = try await AuditLog(store: store).verify() {
            report(.auditList, "entry \(number) of the audit list: \(reason)")
        }
        var texts: [String] = []
        for item in try await store.list(prefix: "server/audit/", after: nil, limit: 1_000).outcome.items {
            guard case .found(let entry) = try await store.read(item.key, unless: nil).outcome else { continue }
            texts.append(String(decoding: entry.value, as: UTF8.self))
        }
        for (index, act) in audit.acts.enumerated() {
            let count = texts.count { $0.contains("ticket \(index + 1).") }
            if count > 1 || (act.isDone && count == 0) {
                report(.auditList, "the act \(index + 1) of support is in the audit list \(count) times")
            }
        }
    }
}
