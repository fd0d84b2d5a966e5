import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncService
import SyncSimulation

/// Checks the answers of the servers. It sees what is on the wire and nothing else. Single-threaded.
///
/// An answer counts as given when its server sends it, also if it is lost on the way. Times are virtual, in
/// microseconds.
final class ServiceAudit {
    unowned let world: ServiceWorld
    /// All lives, in the order of the first answers that name them.
    var lives: [Life] = []
    var chains: [Chain] = []
    /// The access tokens that were issued, with the arrivals of their requests and the times of the answers.
    var accessTokens: [String: (chain: Chain, requested: Int64, issued: Int64)] = [:]
    var refreshTokens: [String: Chain] = [:]
    /// The refresh token that each one was exchanged for, and the time of the answer.
    var successors: [String: (token: String, at: Int64)] = [:]
    /// The first request that set each password, and the time at which its end was answered.
    var passwords: [String: Password] = [:]
    /// The requests that approved devices, also without an answer: the password and the life of each, by the code.
    var approvals: [String: (password: String, life: Life)] = [:]
    var userCodes: [String: String] = [:]
    /// The recovery codes that were issued, with the times at which they were issued and replaced.
    var recoveryCodes: [String: (life: Life, issued: Int64, ended: Int64?)] = [:]
    /// The recovery codes that the operator got.
    var operatorCodes: Set<String> = []
    var usedSecrets: Set<String> = []
    private(set) var entries: [String: EntryHistory] = [:]
    /// The requests and acts about each sale.
    var sales: [Int: SaleHistory] = [:]
    /// The sales in each request that is not answered yet, by the number of its arrival, each with the index of its
    /// statement.
    var presented: [Int: [(index: Int, sale: Int, event: OwnershipEvent)]] = [:]
    /// The lives whose devices may have written each sale into a ledger that counts.
    var claimants: [Int: [Life]] = [:]
    /// The last account of each sale that an answer has confirmed, with the time of the answer.
    var owners: [Int: (life: Life, at: Int64)] = [:]
    /// The least number of times that each sale has moved.
    var moves: [Int: Int] = [:]
    /// The last answer that granted each sale to each account: the arrival of its request, and its own time.
    var lastGrants: [Int: [String: (life: Life, arrival: Int64, answer: Int64)]] = [:]
    /// The acts of support.
    var acts: [(sale: Int, event: OwnershipEvent)] = []
    /// All sessions' tokens, in the order in which they were issued.
    private(set) var issued: [IssuedTokens] = []
    /// The virtual times of the writes that gave entries their versions.
    private var versions: [String: Int64] = [:]
    /// The virtual times at which the writes of servers reached the store, by the versions that they made.
    private var storedVersions: [String: Int64] = [:]
    /// The last time at which the store may have left the outcome of a write unknown.
    private var lastStoreFailure: Int64 = -1
    /// The time before which tokens were signed by removed keys, and the time of the removal.
    var removedKeys: (before: Int64, at: Int64)?

    /// The longest time for which a server believes what it remembers.
    static let staleness: Int64 = 2_000_000
    /// The tolerance of servers for clocks and the largest error of the first clock, in milliseconds.
    private static let clockTolerance: Int64 = 400_000

    init(world: ServiceWorld) { self.world = world }

    var now: Int64 { world.scheduler.now }

    func report(_ oracle: ServiceViolation.Oracle, _ message: String) { world.report(oracle, message) }

    /// Names that the service folds into one are equal here.
    static func folded(_ name: String) -> String { name.lowercased() }

    func life(_ incarnation: String?) -> Life? { lives.first { $0.incarnation == incarnation } }

    func didRemoveKeys(signedBefore time: Int64) { removedKeys = (time, now) }

    /// Called when a fault of the store may have left the outcomes of writes unknown.
    func didDisturbStore() { lastStoreFailure = now }

    /// Called when a write that reached the store at the time `begun` has made a version.
    func didStore(_ version: String, begun: Int64) { storedVersions[version] = begun }

    func didIssue(_ tokens: IssuedTokens) { issued.append(tokens) }

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
        if delivery.path == "/v1/transactions" { didPresent(delivery) }
        didClaim(delivery)
        if delivery.path == "/v1/devices/approvals", delivery.body?["approve"] == .bool(true),
            let code = delivery.text("user_code"), let password = delivery.text("password"),
            let life = chain(of: delivery)?.life
        {
            approvals[code] = approvals[code] ?? (password, life)
        }
        if let key = delivery.key, delivery.method == .put || delivery.method == .delete {
            let value = delivery.method == .put ? delivery.bytes : nil
            entries[key, default: EntryHistory()].didArrive(delivery.id, value, at: now)
        }
    }

    /// Called when a server is killed before it has answered.
    func didLose(_ delivery: Delivery) {
        if delivery.process.frozenUntil > delivery.arrival { chain(of: delivery)?.life.hasLostRequest = true }
    }

    private func newAccountPassword(_ delivery: Delivery) -> String? {
        delivery.path == "/v1/accounts" && delivery.method == .post ? delivery.text("password") : nil
    }

    func chain(of delivery: Delivery) -> Chain? { delivery.bearer.flatMap { accessTokens[$0]?.chain } }

    /// Called when a server has answered.
    func didAnswer(_ delivery: Delivery, _ response: ServiceResponse) {
        let status = response.head.status.code
        var bytes: [UInt8] = []
        if case .bytes(let body) = response.body { bytes = body }
        if status == 429 { world.reach(.guessesLimited) }
        if status == 401 { didRefuse(delivery) }
        checkIsolation(delivery, bytes)
        checkAuthority(delivery, status)
        let body = bytes.first == UInt8(ascii: "{") ? try? JSON(parsing: bytes) : nil
        // Only a fault of the store during the request leaves the outcome of a write unknown.
        let isExplained = lastStoreFailure >= delivery.arrival || world.cluster?.isPromoting == true
        if status == 500, !isExplained || body?["disposition"]?.string != "outcomeUnknown" {
            report(.service, "\(delivery.method) \(delivery.path) was answered with 500")
        }
        if (200..<300).contains(status) {
            checkClock(delivery)
            didSucceed(delivery, body)
        } else {
            didFail(delivery, status, body)
        }
        if delivery.path == "/v1/transactions" { didRecord(delivery, status, body) }
        didAnswerEntry(delivery, response, bytes)
    }

    /// A server whose clock shows a time before the first start of all servers changes nothing.
    private func checkClock(_ delivery: Delivery) {
        let offset = delivery.process.machine.clockOffset
        guard delivery.method != .get, offset == delivery.clockOffset,
            world.scheduler.trueTime + offset < Scheduler.epoch - Self.clockTolerance
        else { return }
        report(.service, "\(describe(delivery)) was done by a server whose clock was set back")
    }

    private func didRefuse(_ delivery: Delivery) {
        world.reach(.oldTokenRefused)
        guard let known = delivery.bearer.flatMap({ accessTokens[$0] }), let removedKeys else { return }
        if known.issued < removedKeys.before, known.chain.ended == nil { world.reach(.formerKeyRefused) }
    }

    private func didAnswerEntry(_ delivery: Delivery, _ response: ServiceResponse, _ bytes: [UInt8]) {
        guard let key = delivery.key else { return }
        let status = response.head.status.code
        let isDone = (200..<300).contains(status)
        if delivery.method == .put || delivery.method == .delete {
            if status < 500 { entries[key]?.didEnd(delivery.id, isDone: isDone, at: now) }
            if isDone, let tag = response.head.headerFields[.eTag] {
                versions[Self.version(tag)] = delivery.arrival
                // A server reads the account's record again before it acknowledges a write.
                if let life = chain(of: delivery)?.life, let erased = life.erasedAt,
                    let stored = storedVersions[Self.version(tag)], stored > erased
                {
                    report(.erased, "\(describe(delivery)) was acknowledged, written after \(life.name) was erased")
                }
            }
            if isDone, let tag = delivery.replacedTag {
                world.reach(.entryReplaced)
                if entries[key]?.didReplace(tag) == false {
                    report(.durability, "two conditional writes of \(key) have replaced one version")
                }
            }
            if isDone, delivery.method == .delete { world.reach(.entryDeleted) }
        }
        guard delivery.method == .get, key.contains("/notes/"), status == 200 || status == 404,
            chain(of: delivery)?.life.erasureAsked == nil
        else { return }
        let value = status == 200 ? bytes : nil
        if entries[key, default: EntryHistory()].mayShow(value, at: delivery.arrival) == false {
            report(.durability, "a read of \(key) does not show the last write before it")
        }
    }

    /// The version in an entity tag.
    static func version(_ tag: String) -> String { tag.filter { $0 != "\"" } }

    /// The end of the session of a token, in virtual microseconds; `nil` if it has not ended.
    func end(of token: String) -> Int64? { accessTokens[token]?.chain.ended?.at }

    /// Called when an event stream of `token` reports a version of an entry.
    func didStream(_ token: String, _ key: String, _ version: String?) {
        guard let chain = accessTokens[token]?.chain, let ended = chain.ended, let version,
            let written = versions[version], written > ended.at + Self.staleness
        else { return }
        report(.revocation, "a stream of \(chain.life.name) reports a later write of \(key) after \(ended.reason)")
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
        guard isAuthorized(delivery, status), let token = delivery.bearer, let known = accessTokens[token] else {
            return
        }
        let (chain, time) = (known.chain, delivery.arrival)
        checkScope(delivery, chain.life)
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

    /// Returns `true` if a status shows that the token was accepted. An erased life is told that its keys are absent.
    private func isAuthorized(_ delivery: Delivery, _ status: Int) -> Bool {
        if (200..<300).contains(status) || status == 304 || status == 412 { return true }
        guard delivery.key != nil, status == 404 || status == 409 else { return false }
        return chain(of: delivery)?.life.erasureAsked == nil
    }

    /// An account reaches the keys of its own life only, and may read the markers and the directory entry of its name.
    /// It does not write its server ledger.
    private func checkScope(_ delivery: Delivery, _ life: Life) {
        guard let key = delivery.key else { return }
        let own = "accounts/\(life.name)/\(life.incarnation)/"
        if key == own + "decisions", delivery.method != .get {
            report(.isolation, "\(describe(delivery)) of \(life.name) changed the server ledger")
        }
        guard !key.hasPrefix(own) else { return }
        let isReadable =
            key == "accounts/\(life.name)/account"
            || (key.hasPrefix("accounts/\(life.name)/") && key.hasSuffix("/ledger"))
        if delivery.method != .get || !isReadable {
            report(.isolation, "\(describe(delivery)) of \(life.name) reached a key of another life")
        }
    }

    func describe(_ delivery: Delivery) -> String { "#\(delivery.number) \(delivery.method) \(delivery.path)" }

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
        case (.get, "/v1/grants"): checkGrant(delivery, body)
        case (.get, "/v1/entitlements"):
            checkAccess(
                delivery,
                Set((0..<StoreDesk.saleCount).filter { body?["access"]?["e\($0)"]?["granted"] == .bool(true) }))
        case (.post, "/v1/notifications/app-store"):
            world.reach(.notificationRecorded)
            let text = delivery.text("signedPayload") ?? ""
            if let sale = StoreDesk.sale(of: text), !text.hasSuffix(" -") {
                didRefund(sale)
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

    func isEnded(_ password: String, at time: Int64) -> Bool {
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
}
