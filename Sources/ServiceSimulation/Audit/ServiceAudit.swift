import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncService
import SyncSimulation

/// A password that a request has set or tried to set.
private struct Password {
    /// The folded name of the account.
    var name: String
    /// The life that it belongs to; `nil` while that is unknown.
    var life: Life?
    /// The arrival of the first request that set it, and the time at which its end was answered.
    var introduced: Int64
    var ended: Int64?
}

/// Checks the answers of the servers. It sees what is on the wire and nothing else. Single-threaded.
///
/// An answer counts as given when its server sends it, also if it is lost on the way. Times are virtual, in
/// microseconds.
final class ServiceAudit {
    unowned let world: ServiceWorld
    /// All lives, in the order of the first answers that name them.
    private(set) var lives: [Life] = []
    private var chains: [Chain] = []
    private var accessTokens: [String: (chain: Chain, issued: Int64)] = [:]
    private var refreshTokens: [String: Chain] = [:]
    /// The refresh token that each one was exchanged for, and the time of the answer.
    private var successors: [String: (token: String, at: Int64)] = [:]
    /// The first request that set each password, and the time at which its end was answered.
    private var passwords: [String: Password] = [:]
    /// The requests that approved devices, also without an answer: the password and the life of each, by the code.
    private var approvals: [String: (password: String, life: Life)] = [:]
    private var userCodes: [String: String] = [:]
    /// The recovery codes that were issued, with the times at which they were issued and replaced.
    private var recoveryCodes: [String: (life: Life, issued: Int64, ended: Int64?)] = [:]
    private var usedSecrets: Set<String> = []
    private(set) var entries: [String: EntryHistory] = [:]
    /// The lives that recorded each sale, with the time of the answer.
    private(set) var recordings: [Int: [(life: Life, at: Int64)]] = [:]
    /// The lives that presented each sale, also without an answer.
    private(set) var presentations: [Int: [Life]] = [:]
    /// Sales whose refund a server has accepted.
    private(set) var refunds: Set<Int> = []
    /// The acts of support: their sales, and `true` for those that were done.
    private(set) var acts: [(sale: Int, isDone: Bool)] = []
    /// The time before which tokens were signed by removed keys, and the time of the removal.
    private var removedKeys: (before: Int64, at: Int64)?

    /// The longest time for which a server believes what it remembers.
    static let staleness: Int64 = 2_000_000

    init(world: ServiceWorld) { self.world = world }

    private var now: Int64 { world.scheduler.now }

    func report(_ oracle: ServiceViolation.Oracle, _ message: String) { world.report(oracle, message) }

    /// Names that the service folds into one are equal here.
    static func folded(_ name: String) -> String { name.lowercased() }

    func life(_ incarnation: String?) -> Life? { lives.first { $0.incarnation == incarnation } }

    func didRemoveKeys(signedBefore time: Int64) { removedKeys = (time, now) }

    func didBeginAct(_ sale: Int) -> Int {
        acts.append((sale, false))
        return acts.count
    }

    func didAct(_ number: Int, for account: Account) {
        acts[number - 1].isDone = true
        if let life = life(account.incarnation) { recordings[acts[number - 1].sale, default: []].append((life, now)) }
    }

    /// Called when a request arrives, before the service has it.
    func didArrive(_ delivery: Delivery) {
        if let password = delivery.text("new_password") ?? newAccountPassword(delivery) {
            let life = chain(of: delivery)?.life
            let name = Self.folded(delivery.text("username") ?? delivery.text("name") ?? life?.name ?? "")
            passwords[password] = passwords[password] ?? Password(name: name, life: life, introduced: now)
        }
        if delivery.path.hasSuffix("/erasure"), let life = chain(of: delivery)?.life {
            life.erasureAsked = life.erasureAsked ?? now
        }
        if delivery.path == "/v1/transactions", let life = chain(of: delivery)?.life {
            for item in delivery.body?["evidence"]?.elements ?? [] {
                if let sale = StoreDesk.sale(of: item["jws"]?.string ?? "") {
                    presentations[sale, default: []].append(life)
                }
            }
        }
        if delivery.path == "/v1/devices/approvals", delivery.body?["approve"] == .bool(true),
            let code = delivery.text("user_code"), let password = delivery.text("password"),
            let life = chain(of: delivery)?.life
        {
            approvals[code] = approvals[code] ?? (password, life)
        }
        if let key = delivery.key, delivery.method == .put {
            entries[key, default: EntryHistory()].didArrive(delivery.id, delivery.bytes, at: now)
        }
    }

    private func newAccountPassword(_ delivery: Delivery) -> String? {
        delivery.path == "/v1/accounts" && delivery.method == .post ? delivery.text("password") : nil
    }

    private func chain(of delivery: Delivery) -> Chain? { delivery.bearer.flatMap { accessTokens[$0]?.chain } }

    /// Called when a server has answered.
    func didAnswer(_ delivery: Delivery, _ response: ServiceResponse) {
        let status = response.head.status.code
        var bytes: [UInt8] = []
        if case .bytes(let body) = response.body { bytes = body }
        if status == 429 { world.reach(.guessesLimited) }
        if status == 401 { world.reach(.oldTokenRefused) }
        checkIsolation(delivery, bytes)
        checkAuthority(delivery, status)
        let body = bytes.first == UInt8(ascii: "{") ? try? JSON(parsing: bytes) : nil
        // Only a primary that was lost leaves the outcome of a write unknown.
        if status == 500, world.cluster == nil || body?["disposition"]?.string != "outcomeUnknown" {
            report(.service, "\(delivery.method) \(delivery.path) was answered with 500")
        }
        if (200..<300).contains(status) {
            didSucceed(delivery, body)
        } else {
            didFail(delivery, status, body)
        }
        didAnswerEntry(delivery, status, bytes)
    }

    private func didAnswerEntry(_ delivery: Delivery, _ status: Int, _ bytes: [UInt8]) {
        guard let key = delivery.key else { return }
        if delivery.method == .put, status < 500 {
            entries[key]?.didEnd(delivery.id, isDone: (200..<300).contains(status), at: now)
        }
        guard delivery.method == .get, key.contains("/notes/"), status == 200 || status == 404,
            chain(of: delivery)?.life.erasureAsked == nil
        else { return }
        let value = status == 200 ? bytes : nil
        if entries[key]?.mayShow(value, at: delivery.arrival) == false {
            report(.durability, "a read of \(key) does not show the last write before it")
        }
    }

    // MARK: credentials

    /// No answer to an account contains the name or the incarnation of another one.
    private func checkIsolation(_ delivery: Delivery, _ bytes: [UInt8]) {
        guard !bytes.isEmpty, let own = chain(of: delivery)?.life else { return }
        let text = String(decoding: bytes, as: UTF8.self)
        for other in lives where other !== own {
            // Devices may learn the ids of earlier lives of their name, but not what these have written.
            let isOfName = Self.folded(other.name) == Self.folded(own.name)
            let isShown =
                isOfName
                ? text.contains(other.incarnation + " ")
                : text.contains(other.name) || text.contains(other.incarnation)
            if isShown {
                report(.isolation, "\(delivery.method) \(delivery.path) of \(own.name) shows \(other.name)")
            }
        }
    }

    /// A token that has ended authorises nothing.
    private func checkAuthority(_ delivery: Delivery, _ status: Int) {
        guard (200..<300).contains(status) || status == 304 || status == 412, let token = delivery.bearer,
            let known = accessTokens[token]
        else { return }
        let (chain, time) = (known.chain, delivery.arrival)
        if let removedKeys, known.issued < removedKeys.before, time > removedKeys.at + Self.staleness {
            report(.revocation, "\(describe(delivery)) was done with a token of a removed key")
        }
        if let erased = chain.life.erasedAt {
            guard time > erased + Self.staleness, !mayAskErased(delivery) else { return }
            report(.erased, "\(describe(delivery)) was done for the erased account \(chain.life.name)")
        } else if let ended = chain.ended, time > ended.at + Self.staleness,
            // The sessions of an account that is being erased learn of it.
            chain.life.erasureAsked == nil || !mayAskErased(delivery)
        {
            report(.revocation, "\(describe(delivery)) was done after \(ended.reason)")
        }
    }

    private func describe(_ delivery: Delivery) -> String { "#\(delivery.number) \(delivery.method) \(delivery.path)" }

    /// The device of an erased account may learn that it is, erase it again, and log out.
    private func mayAskErased(_ delivery: Delivery) -> Bool {
        let path = delivery.path
        return path.hasSuffix("/erasure") || path == "/v1/accounts/self" || path == "/v1/sessions"
            || path == "/v1/changes" || path == "/v1/kv"
            || (delivery.method == .get && path.hasPrefix("/v1/kv/") && !path.contains("/notes/"))
            || (path == "/v1/batch" && !String(decoding: delivery.bytes, as: UTF8.self).contains("notes"))
    }

    private func didSucceed(_ delivery: Delivery, _ body: JSON?) {
        if body?["access_token"] != nil, let body { didIssue(delivery, body) }
        didIssueCodes(delivery, body)
        switch (delivery.method, delivery.path) {
        case (.delete, "/v1/sessions"): didLogOut(delivery)
        case (.put, "/v1/accounts/self/password"): didChangePassword(delivery)
        case (.post, "/v1/accounts/self/erasure"): didErase(delivery)
        case (.post, "/v1/devices"):
            if let user = body?["user_code"]?.string, let device = body?["device_code"]?.string {
                userCodes[device] = user
            }
        case (.post, "/v1/devices/approvals"):
            if let password = delivery.text("password") {
                if isEnded(password, at: delivery.arrival) {
                    report(.revocation, "a device was approved with a former password")
                }
            }
        case (.post, "/v1/transactions"): didRecord(delivery, body)
        case (.post, "/v1/notifications/app-store"):
            world.reach(.notificationRecorded)
            let text = delivery.text("signedPayload") ?? ""
            if let sale = StoreDesk.sale(of: text), !text.hasSuffix(" -") {
                refunds.insert(sale)
                world.reach(.refundRecorded)
            }
        default: break
        }
    }

    /// The passwords that may open the account of a name, the newest one first.
    func possiblePasswords(of name: String) -> [String] {
        passwords.filter { $0.value.name == name && $0.value.ended == nil }
            .sorted { ($0.value.introduced, $0.key) > ($1.value.introduced, $1.key) }.map(\.key)
    }

    private func isEnded(_ password: String, at time: Int64) -> Bool {
        passwords[password]?.ended.map { $0 < time } ?? false
    }

    private func didFail(_ delivery: Delivery, _ status: Int, _ body: JSON?) {
        let code = body?["error"]?.string ?? body?["code"]?.string
        if status == 403, delivery.path.hasPrefix("/v1/accounts/self") { world.reach(.outdatedCredential) }
        if status == 409, delivery.path == "/v1/accounts" { world.reach(.nameTaken) }
        if status == 503, delivery.text("grant_type") == "refresh_token" { world.reach(.refreshOpen) }
        if status == 403 || status == 404, chain(of: delivery)?.life.erasedAt != nil { world.reach(.erasedReadRefused) }
        guard code == "invalid_grant" || status == 400 else { return }
        if let password = delivery.text("password") {
            world.reach(isEnded(password, at: delivery.arrival) ? .oldPasswordRefused : .wrongPassword)
        }
        // A refusal of a token whose successor was used ends the session.
        if delivery.text("grant_type") == "refresh_token", let token = delivery.text("refresh_token"),
            let next = successors[token], let last = successors[next.token], last.at < delivery.arrival
        {
            world.reach(.refreshReplayed)
            refreshTokens[token]?.end(at: now, "a refresh token was used again")
        }
    }

    // MARK: sessions

    /// Called when an answer has tokens.
    private func didIssue(_ delivery: Delivery, _ body: JSON) {
        guard let access = body["access_token"]?.string, let refresh = body["refresh_token"]?.string,
            let name = body["account"]?.string, let incarnation = body["incarnation"]?.string
        else { return report(.service, "an answer with a token lacks members") }
        let isNew = life(incarnation) == nil
        let life = knownLife(name, incarnation)
        if let password = delivery.text("new_password") ?? delivery.text("password") {
            // A repeated sign-up may come after the erasure of another life.
            if isNew {
                passwords[password] = Password(name: Self.folded(name), introduced: delivery.arrival)
            }
            passwords[password]?.life = life
        }
        let chain: Chain
        if let token = delivery.text("refresh_token") {
            didRefresh(delivery, token, refresh)
            chain = refreshTokens[token] ?? Chain(life, password: nil, issued: delivery.arrival)
            if chain.life !== life { report(.isolation, "a refresh began a session of \(name)") }
            if let ended = chain.ended, delivery.arrival > ended.at, life.erasureAsked == nil {
                report(.revocation, "a refresh was done after \(ended.reason)")
            }
        } else {
            chain = Chain(life, password: usedPassword(delivery, of: life), issued: now)
            chains.append(chain)
            if delivery.text("recovery_code") == nil, let password = delivery.text("password"),
                passwords[password]?.name != Self.folded(name)
            {
                report(.revocation, "\(describe(delivery)) began a session of \(name) with a password it never had")
            }
        }
        accessTokens[access] = (chain, now)
        refreshTokens[refresh] = chain
        if let password = chain.password, let known = passwords[password], let ended = known.ended {
            chain.end(at: ended, "the password of its log-in was changed")
            if delivery.arrival > ended, delivery.text("refresh_token") == nil, delivery.text("device_code") == nil {
                report(.revocation, "#\(delivery.number) began a session with a former password")
            }
        }
        if let erased = life.erasedAt, delivery.arrival > erased, delivery.text("refresh_token") == nil {
            report(.erased, "#\(delivery.number) began a session of the erased account \(name)")
        }
        if delivery.text("recovery_code") != nil { didRecover(delivery, chain) }
    }

    /// The life of an answer. A new one must follow the erasure of all others of the name.
    private func knownLife(_ name: String, _ incarnation: String) -> Life {
        if let known = life(incarnation) { return known }
        let life = Life(name, incarnation)
        let others = lives.filter { Self.folded($0.name) == Self.folded(name) }
        if others.contains(where: { $0.erasureAsked == nil }) {
            report(.identity, "the name \(name) was signed up twice")
        }
        if !others.isEmpty { world.reach(.nameRevived) }
        lives.append(life)
        return life
    }

    /// The password from which a new session has its authority.
    private func usedPassword(_ delivery: Delivery, of life: Life) -> String? {
        if let code = delivery.text("device_code") {
            checkUse(of: code, "a device code")
            guard let approval = userCodes[code].flatMap({ approvals[$0] }), approval.life === life else {
                report(.revocation, "\(describe(delivery)) began a session of \(life.name) without its approval")
                return nil
            }
            return approval.password
        }
        return delivery.text("new_password") ?? delivery.text("password")
    }

    private func checkUse(of secret: String, _ kind: String) {
        guard !usedSecrets.insert(secret).inserted else { return }
        report(.idempotence, "\(kind) was used twice")
    }

    private func didRefresh(_ delivery: Delivery, _ token: String, _ next: String) {
        if let known = successors[token] {
            if known.token != next { report(.identity, "a refresh token has two successors") }
            if let later = successors[next], later.at < delivery.arrival {
                report(.identity, "a refresh token was accepted although its successor was used")
            }
        } else {
            successors[token] = (next, now)
        }
    }

    private func didLogOut(_ delivery: Delivery) {
        guard let own = chain(of: delivery), own.life.erasedAt == nil else { return }
        if delivery.query.contains("everywhere=true") {
            endChains(of: own.life, issuedBefore: delivery.arrival, "a log-out everywhere")
        } else {
            own.end(at: now, "its log-out")
        }
    }

    private func endChains(of life: Life, issuedBefore time: Int64, except own: Chain? = nil, _ reason: String) {
        for chain in chains where chain.life === life && chain !== own && chain.issued < time {
            if chain.ended == nil { world.reach(.sessionEndedByChange) }
            chain.end(at: now, reason)
        }
    }

    private func didChangePassword(_ delivery: Delivery) {
        guard let own = chain(of: delivery), let old = delivery.text("password"),
            let new = delivery.text("new_password")
        else { return }
        if isEnded(old, at: delivery.arrival) { report(.revocation, "a former password changed the password") }
        own.password = new
        didSetPassword(new, of: own.life, in: delivery, "a change of the password", except: own)
    }

    /// Remembers the recovery codes in an answer. Those of a renewal replace the earlier ones.
    private func didIssueCodes(_ delivery: Delivery, _ body: JSON?) {
        let all = body?["recovery_codes"]?.elements?.compactMap(\.string) ?? []
        if !all.isEmpty, let life = chain(of: delivery)?.life ?? life(body?["incarnation"]?.string) {
            endCodes(of: life, issuedBefore: delivery.arrival)
            for code in all { recoveryCodes[code] = (life, now, nil) }
        }
        if let code = body?["recovery_code"]?.string, let name = body?["account"]?.string,
            let life = lives.last(where: { Self.folded($0.name) == Self.folded(name) })
        {
            recoveryCodes[code] = (life, now, nil)
        }
    }

    private func endCodes(of life: Life, issuedBefore time: Int64) {
        for (code, known) in recoveryCodes where known.life === life && known.issued < time && known.ended == nil {
            recoveryCodes[code]?.ended = now
        }
    }

    private func didRecover(_ delivery: Delivery, _ own: Chain) {
        let code = delivery.text("recovery_code") ?? ""
        checkUse(of: code, "a recovery code")
        if let known = recoveryCodes[code], known.life === own.life, known.ended.map({ delivery.arrival <= $0 }) ?? true
        {
            endCodes(of: own.life, issuedBefore: delivery.arrival)
        } else {
            report(.revocation, "\(describe(delivery)) recovered \(own.life.name) with a code that is not valid")
        }
        didSetPassword(delivery.text("new_password") ?? "", of: own.life, in: delivery, "a recovery", except: own)
    }

    /// Ends the passwords and the sessions from before the request that set `new`.
    private func didSetPassword(
        _ new: String, of life: Life, in delivery: Delivery, _ reason: String, except own: Chain
    ) {
        endChains(of: life, issuedBefore: delivery.arrival, except: own, reason)
        let name = Self.folded(life.name)
        for (password, known) in passwords where password != new && known.name == name && known.ended == nil {
            guard known.introduced < delivery.arrival, known.life.map({ $0 === life }) ?? true else { continue }
            passwords[password]?.ended = now
            for chain in chains where chain.password == password && chain !== own { chain.end(at: now, reason) }
        }
    }

    private func didErase(_ delivery: Delivery) {
        guard let life = chain(of: delivery)?.life else { return }
        world.reach(life.erasedAt == nil ? .erased : .erasureRepeated)
        life.erasedAt = life.erasedAt ?? now
        for (password, known) in passwords where known.life === life && known.ended == nil {
            passwords[password]?.ended = now
        }
    }

    // MARK: purchases

    private func didRecord(_ delivery: Delivery, _ body: JSON?) {
        guard let life = chain(of: delivery)?.life, let items = delivery.body?["evidence"]?.elements,
            let results = body?["results"]?.elements, items.count == results.count
        else { return }
        for (item, result) in zip(items, results) {
            guard let sale = StoreDesk.sale(of: item["jws"]?.string ?? "") else { continue }
            if let facts = result["facts"]?.elements, !facts.isEmpty {
                world.reach(.evidenceRecorded)
                let others = recordings[sale]?.filter { $0.life !== life && $0.life.erasureAsked == nil } ?? []
                if !others.isEmpty {
                    world.reach(world.scenario.ownership == .share ? .evidenceShared : .evidenceTransferred)
                }
                recordings[sale, default: []].append((life, now))
                if item["jws"]?.string?.hasSuffix(" -") == false { refunds.insert(sale) }
            } else {
                world.reach(.evidenceOfAnother)
            }
        }
    }
}
