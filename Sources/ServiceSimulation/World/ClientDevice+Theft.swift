import EntitlementSync
import HTTPStorage
import HTTPTypes
import SyncCore
import SyncProtocol

// A thief who has copied secrets of the account, also of its former lives. Oracles see the answers.
extension ClientDevice {
    /// Replays former tokens, passwords and codes.
    func tryOldCredentials() async -> String {
        for tokens in stolenTokens() { await use(tokens) }
        await replaySecrets()
        return "tried"
    }

    /// The newest tokens of each kind: by their origin, by their life, and by the reason for which their session ended.
    private func stolenTokens() -> [IssuedTokens] {
        let all = world.audit.issued.filter { ServiceAudit.folded($0.life.name) == ServiceAudit.folded(name) }
        var kinds: Set<String> = []
        var stolen: [IssuedTokens] = []
        for tokens in all.reversed() where stolen.count < 8 {
            let kind = "\(tokens.life.incarnation) \(tokens.origin) \(tokens.chain.ended?.reason ?? "")"
            if kinds.insert(kind).inserted { stolen.append(tokens) }
        }
        return stolen
    }

    /// Reads, writes, asks and follows with an access token. The keys are those of its own life, of the latest life of
    /// the name, and of another account.
    private func use(_ tokens: IssuedTokens) async {
        let access = tokens.access
        let latest = world.audit.lives.last { ServiceAudit.folded($0.name) == ServiceAudit.folded(name) }
        let other = world.audit.lives.last { ServiceAudit.folded($0.name) != ServiceAudit.folded(name) }
        for life in [latest === tokens.life ? nil : tokens.life, latest, other] {
            guard let life else { continue }
            _ = await perform {
                let remote = try remote { (refused) throws(BackendError) in
                    guard refused == nil else { throw BackendError(.permissionDenied, message: "an old token") }
                    return access
                }
                let account = try Account(life.name, incarnation: life.incarnation)
                _ = await perform {
                    _ = try await remote.read(try entryKey(9, of: account), unless: nil)
                    return ""
                }
                for key in [try entryKey(9, of: account), try LedgerKeys(account).serverLedger] {
                    _ = await perform {
                        _ = try await remote.write([UInt8]("theft".utf8), to: key, if: .any)
                        return ""
                    }
                }
                return ""
            }
        }
        for path in ["/v1/entitlements", "/v1/accounts/self"] { await ask(path, access) }
        _ = await perform {
            let stream = try await link.stream(
                StreamWatcher.request(token: access, after: ""), idleTimeout: .seconds(20))
            guard stream.response.status == .ok else { return "" }
            var events = StreamReader(token: access, world: world)
            for try await bytes in stream { for event in try events.feed(bytes) { events.check(event) } }
            return ""
        }
    }

    private func ask(_ path: String, _ token: String) async {
        _ = await perform {
            var request = HTTPRequest(method: .get, scheme: "https", authority: "sync.example.com", path: path)
            request.headerFields[.authorization] = "Bearer \(token)"
            _ = try await link.send(request, body: [], timeout: .seconds(30), maximumByteCount: 1 << 20)
            return ""
        }
    }

    private func replaySecrets() async {
        for old in notebook.refreshTokens.suffix(3) {
            _ = await perform {
                _ = try await clients().client.refresh(old)
                return ""
            }
        }
        for old in notebook.former.suffix(2) {
            _ = await perform {
                _ = try await clients().client.logIn(name, password: old)
                return ""
            }
        }
        if let old = notebook.formerCodes.first {
            _ = await perform {
                let new = newPassword()
                // A code whose answer was lost may still be valid.
                notebook.candidates.append(new)
                _ = try await clients().client.recover(name, code: old, newPassword: new)
                return ""
            }
        }
    }
}
