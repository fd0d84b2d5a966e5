import Entitlements
import SyncService

// Checks of sessions, passwords and codes.
extension ServiceAudit {
    /// Called when an answer has tokens.
    func didIssue(_ delivery: Delivery, _ body: JSON) {
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
        accessTokens[access] = (chain, delivery.arrival, now)
        didIssue(IssuedTokens(access: access, refresh: refresh, life: life, chain: chain, origin: origin(of: delivery)))
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

    /// The kind of credential that a request presents.
    private func origin(of delivery: Delivery) -> String {
        for name in ["refresh_token", "recovery_code", "device_code"] where delivery.text(name) != nil { return name }
        return delivery.path
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

    func didLogOut(_ delivery: Delivery) {
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

    func didChangePassword(_ delivery: Delivery) {
        guard let own = chain(of: delivery), let old = delivery.text("password"),
            let new = delivery.text("new_password")
        else { return }
        if isEnded(old, at: delivery.arrival) { report(.revocation, "a former password changed the password") }
        own.password = new
        didSetPassword(new, of: own.life, in: delivery, "a change of the password", except: own)
    }

    /// Remembers the recovery codes in an answer. Those of a renewal replace the earlier ones.
    func didIssueCodes(_ delivery: Delivery, _ body: JSON?) {
        let all = body?["recovery_codes"]?.elements?.compactMap(\.string) ?? []
        if !all.isEmpty, let life = chain(of: delivery)?.life ?? life(body?["incarnation"]?.string) {
            endCodes(of: life, issuedBefore: delivery.arrival)
            for code in all { recoveryCodes[code] = (life, now, nil) }
        }
        if let code = body?["recovery_code"]?.string, let name = body?["account"]?.string,
            let life = lives.last(where: { Self.folded($0.name) == Self.folded(name) })
        {
            recoveryCodes[code] = (life, now, nil)
            operatorCodes.insert(code)
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
        let isValid = recoveryCodes[code].map { known in
            // The operator names the account, whose present life may be unknown: the answer to its sign-up was lost.
            let isOfName = operatorCodes.contains(code) && Self.folded(known.life.name) == Self.folded(own.life.name)
            return (known.life === own.life || isOfName) && known.ended.map { delivery.arrival <= $0 } ?? true
        }
        if isValid != true {
            report(.revocation, "\(describe(delivery)) recovered \(own.life.name) with a code that is not valid")
        }
        didSetPassword(delivery.text("new_password") ?? "", of: own.life, in: delivery, "a recovery", except: own)
    }

    /// Ends the passwords, the sessions and the recovery codes from before the request that set `new`.
    private func didSetPassword(
        _ new: String, of life: Life, in delivery: Delivery, _ reason: String, except own: Chain
    ) {
        endChains(of: life, issuedBefore: delivery.arrival, except: own, reason)
        endCodes(of: life, issuedBefore: delivery.arrival)
        let name = Self.folded(life.name)
        for (password, known) in passwords where password != new && known.name == name && known.ended == nil {
            guard known.introduced < delivery.arrival, known.life.map({ $0 === life }) ?? true else { continue }
            passwords[password]?.ended = now
            for chain in chains where chain.password == password && chain !== own { chain.end(at: now, reason) }
        }
    }

    func didErase(_ delivery: Delivery) {
        guard let life = chain(of: delivery)?.life else { return }
        world.reach(life.erasedAt == nil ? .erased : .erasureRepeated)
        life.erasedAt = life.erasedAt ?? now
        for (password, known) in passwords where known.life === life && known.ended == nil {
            passwords[password]?.ended = now
        }
    }
}
