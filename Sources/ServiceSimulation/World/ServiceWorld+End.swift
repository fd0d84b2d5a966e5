import Crypto
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
        let auditList = await auditList()
        for machine in machines {
            machine.clockOffset = scenario.servers[machine.index]
            machine.process?.pendingKill = nil
            machine.process?.pendingSuspension = nil
            machine.process?.continueAtOnce()
            if marks[.reconfigured] != nil { machine.reconfigure() }
            machine.start()
        }
        await pause(recovery * 1_000_000)
        await quiesce(atMost: 900)
        if workCount > 0 { report(.execution, "\(workCount) actions and messages do not end") }
        await paidTime.repeatNotifications()
        let rights = await finalRights()
        if let rights {
            audit.checkOwnership(rights)
            paidTime.check(rights.map(\.life))
        }
        await checkConnections()
        await checkProjection()
        do throws(BackendError) {
            try await checkStreams()
            try await checkErasures()
            checkAuditList(try await readAuditList(), since: auditList, rights)
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
                try await checkGrantKey(of: session)
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
        let keys = try LedgerKeys(account)
        // A read of the ledger lets the server reconsider what it has refused.
        _ = try await remote.read(keys.ledger, unless: nil)
        for key in audit.entries.keys.sorted() where key.hasPrefix(keys.prefix) {
            _ = try await remote.read(try EntryKey(key), unless: nil)
        }
        let access = try await entitlements(session)["access"]
        return Set((0..<StoreDesk.saleCount).filter { access?["e\($0)"]?["granted"] == .bool(true) })
    }

    private func entitlements(_ session: ServerSession) async throws -> JSON {
        try await get("/v1/entitlements", session.accessToken)
    }

    private func get(_ path: String, _ token: String?) async throws -> JSON {
        var request = HTTPRequest(method: .get, scheme: "https", authority: "sync.example.com", path: path)
        if let token { request.headerFields[.authorization] = "Bearer \(token)" }
        let answer = try await storeLink.send(request, body: [], timeout: .seconds(30), maximumByteCount: 1 << 20)
        guard answer.response.status == .ok else {
            throw ScenarioError("\(path) has the status \(answer.response.status.code)")
        }
        return try JSON(parsing: answer.body)
    }

    /// Asks for a grant, which the audit checks, and compares its key with the published ones.
    private func checkGrantKey(of session: ServerSession) async throws {
        let grant = try await get("/v1/grants?device=last", session.accessToken)["grant"]?.string ?? ""
        let keys = try await get(EntitlementService.keySetPath, nil)["keys"]?.elements ?? []
        let check = GrantCheck(root: grantRoot.publicKey, server: Self.address)
        // The audit has reported a grant that cannot be read.
        guard let content = try? check.content(of: grant) else { return }
        if !keys.contains(where: { $0["kid"]?.string == content.keyID }) {
            report(.grants, "the key \(content.keyID) of a grant is not published")
        }
    }

    // MARK: streams

    /// Every watcher whose session lives is connected.
    private func checkConnections() async {
        for watcher in watchers where !watcher.isConnected {
            let device = watcher.device
            do {
                let token = try await device.clients().tokens.token() ?? ""
                let account = try await get("/v1/accounts/self", token)
                // The device of an erased account has nothing to follow.
                guard let life = audit.life(account["incarnation"]?.string), life.erasureAsked == nil else { continue }
                await pause(10_000_000)
                guard !watcher.isConnected else { continue }
                report(.streams, "a watcher of \(life.name) does not reconnect", lane: device.index)
            } catch {
                // The device is logged out.
                continue
            }
        }
    }

    // MARK: the store

    private func checkStreams() async throws(BackendError) {
        for watcher in watchers where watcher.isConnected {
            guard let account = watcher.account, let begun = watcher.begun,
                audit.life(account.incarnation)?.erasureAsked == nil
            else { continue }
            let prefix = try LedgerKeys(account).prefix + "notes/"
            let items = try await store.list(prefix: prefix, after: nil, limit: 1_000).outcome.items
            let present = Dictionary(uniqueKeysWithValues: items.map { ($0.key.text, "\($0.version)") })
            for (key, history) in audit.entries.sorted(by: { $0.key < $1.key }) where key.hasPrefix(prefix) {
                guard let last = history.lastDone, last > begun else { continue }
                if (watcher.versions[key] ?? nil) != present[key] {
                    report(.streams, "a stream ends without the last version of \(key)", lane: watcher.device.index)
                }
            }
        }
    }

    /// An erased life leaves its marker, and its name in the records that its devices need. See Docs/Security.md.
    private func checkErasures() async throws(BackendError) {
        // A server that is suspended between the check of a token and a write, and killed after the write, may leave a
        // value that only the operator can read.
        let erased = audit.lives.filter { $0.erasedAt != nil && !$0.hasLostRequest }
        guard !erased.isEmpty else { return }
        var after: EntryKey?
        repeat {
            let page = try await store.list(prefix: "", after: after, limit: 1_000).outcome
            for item in page.items {
                guard case .found(let entry) = try await store.read(item.key, unless: nil).outcome else { continue }
                let text = item.key.text + " " + String(decoding: entry.value, as: UTF8.self)
                for life in erased where text.contains(life.incarnation) && !mayRemain(item.key.text, of: life) {
                    report(.erased, "\(item.key) names the erased account \(life.name)")
                }
            }
            after = page.next
        } while after != nil
    }

    private func mayRemain(_ key: String, of life: Life) -> Bool {
        let name = LedgerKeys.escaped(life.name)
        return key == "accounts/\(name)/\(life.incarnation)/ledger" || key == "accounts/\(name)/account"
            || key == "server/accounts/\(name)"
            || key.hasPrefix("server/sessions/\(name)/") || key.hasPrefix("server/erasures/\(name)/")
            || key.hasPrefix("server/audit/")
    }

    /// The entries of the audit list in order; `nil` if the store fails.
    private func auditList() async -> [[UInt8]]? {
        do throws(BackendError) { return try await readAuditList() } catch { return nil }
    }

    private func readAuditList() async throws(BackendError) -> [[UInt8]] {
        var entries: [[UInt8]] = []
        for item in try await store.list(prefix: "server/audit/", after: nil, limit: 1_000).outcome.items {
            let digits = String(entries.count + 1)
            let key = "server/audit/" + String(repeating: "0", count: 12 - digits.count) + digits
            if item.key.text != key { report(.auditList, "\(key) is missing: the next entry is \(item.key)") }
            guard case .found(let entry) = try await store.read(item.key, unless: nil).outcome else { continue }
            entries.append(entry.value)
        }
        return entries
    }

    /// Returns `true` if an account has a sale only because of an act whose program was killed.
    private func hasOnly(_ act: (sale: Int, event: OwnershipEvent), _ right: (life: Life, sales: Set<Int>)) -> Bool {
        guard isAlwaysVerified, act.event.outcome == .unknown, right.sales.contains(act.sale) else { return false }
        let name = ServiceAudit.folded(right.life.name)
        let events = audit.sales[act.sale]?.events.filter { $0.name == name && $0.outcome != .refused } ?? []
        return act.event.name == name && events.count == 1
    }

    /// The list is a chain of digests, no entry changes, and each act of support is in it once.
    private func checkAuditList(
        _ entries: [[UInt8]], since earlier: [[UInt8]]?, _ rights: [(life: Life, sales: Set<Int>)]?
    ) {
        if let earlier, !entries.starts(with: earlier) { report(.auditList, "entries of the audit list have changed") }
        var previous = String(repeating: "0", count: 64)
        var transfers: Set<String> = []
        for (index, bytes) in entries.enumerated() {
            let entry = try? JSON(parsing: bytes)
            if entry?["number"] != .number(Int64(index + 1)) || entry?["previous"]?.string != previous {
                report(.auditList, "entry \(index + 1) of the audit list does not follow the one before it")
            }
            previous = GrantCheck.digest(bytes)
            guard let entry, entry["act"]?.string == "transfer" else { continue }
            let words = ["line", "account", "actor", "date", "detail"].map { entry[$0]?.string ?? "" }
            if !transfers.insert(words.joined(separator: " ")).inserted {
                report(.auditList, "a transfer is in the audit list twice: \(words.joined(separator: " "))")
            }
        }
        let texts = entries.map { String(decoding: $0, as: UTF8.self) }
        for (index, act) in audit.acts.enumerated() {
            let count = texts.count { $0.contains("ticket \(index + 1).") }
            let isDone = act.event.outcome == .recorded || rights?.contains { hasOnly(act, $0) } == true
            if count > 1 || (isDone && count == 0) {
                report(.auditList, "the act \(index + 1) of support is in the audit list \(count) times")
            }
        }
        for (sale, history) in audit.sales.sorted(by: { $0.key < $1.key }) {
            let entries = transfers.filter { $0.contains("/t\(sale) ") }
            let moveCount = audit.moves[sale] ?? 0
            if entries.count < moveCount {
                report(.auditList, "the sale \(sale) moved \(moveCount) times, with \(entries.count) entries")
            }
            let restoreCount = history.events.count { $0.mayTake && !$0.isSupport && $0.outcome != .refused }
            if entries.count(where: { $0.hasSuffix(" by a restore") }) > restoreCount {
                report(.auditList, "\(restoreCount) restores moved the sale \(sale) \(entries.count) times")
            }
        }
    }
}
