import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
import SyncCore
import SyncProtocol
import SyncSimulation

// Purchases beyond a single statement, spends, content, and floods of requests.
extension ClientDevice {
    /// Reports a sale as an app does that verifies nothing.
    func report(_ sale: Int) async -> String {
        await perform {
            let account = try await account()
            let store = try await entitlements()
            _ = try await store.logIn(account.name ?? "")
            world.paidTime.didReport(sale, for: account.incarnation, isSynced: false)
            _ = try await store.record(world.desk.report(of: sale, at: world.scheduler.trueTime))
            _ = try await store.sync()
            world.paidTime.didReport(sale, for: account.incarnation, isSynced: true)
            world.reach(.claimReported)
            return "reported"
        }
    }

    /// Asks for the account's token, and lets the store name the account in a sale.
    func nameOwner(of sale: Int) async -> String {
        await perform {
            let account = try await account()
            let answer = try await send(.get, "/v1/accounts/self/token")
            guard let token = answer.body?["token"]?.string else { return "no token" }
            guard account == (try await self.account()) else { return "another account" }
            return world.desk.name(token, in: sale) ? "named" : "sold already"
        }
    }

    /// Sends statements that no store has signed: one without a signature that is valid, and one of another format.
    func forge(_ sale: Int) async -> String {
        await perform {
            let now = world.scheduler.trueTime
            let texts = ["forged t\(sale) p\(sale) \(now) \(now) -", "forged"]
            let items = texts.map(StoreDesk.item)
            _ = try await clients().remote.submit(items, account: try await account(), isRestore: true)
            let body = Array(#"{"signedPayload":"\#(texts[0])"}"#.utf8)
            _ = try await send(.post, "/v1/notifications/app-store", body)
            return "forged"
        }
    }

    /// Spends a unit. A repetition with the same number, also by another device, spends nothing more.
    func use(_ id: Int) async -> String {
        await perform {
            let account = try await account()
            let store = try await entitlements()
            _ = try await store.logIn(account.name ?? "")
            _ = try await store.sync()
            guard case .spent = try await store.use("play", id: SpendID("spend-\(id)")) else { return "denied" }
            world.paidTime.didSpend(id, of: account.incarnation, isSynced: false)
            _ = try await store.sync()
            world.paidTime.didSpend(id, of: account.incarnation, isSynced: true)
            return "used"
        }
    }

    /// Asks for a content session and opens all paths with it and with the former ones.
    func openContent() async -> String {
        await perform {
            let answer = try await send(.post, "/v1/content-sessions", Array("{}".utf8))
            if let session = answer.body?["session"]?.string { contentSessions.append(session) }
            var count = 0
            for session in contentSessions.suffix(3) {
                for sale in 0..<StoreDesk.saleCount {
                    let check = try await send(.get, "/v1/content-check", token: session, path: "/e\(sale)/page")
                    if check.status == 204 { count += 1 }
                }
            }
            return "opened \(count)"
        }
    }

    /// Writes many entries without a pause.
    func flood(count: Int) async -> String {
        await perform {
            let account = try await account()
            var refused = 0
            for number in 0..<count {
                let value = Array("\(account.incarnation) \(index) \(world.takeMessage())".utf8)
                let key = try entryKey(20 + number % 8, of: account)
                do { _ = try await clients().remote.write(value, to: key, if: .any) } catch { refused += 1 }
            }
            return "\(refused) refused"
        }
    }

    /// Sends many wrong passwords, for several spellings of the name, one after another or all at once.
    func guessOften(count: Int, isParallel: Bool) async -> String {
        let names = [name, name.uppercased()]
        await withTaskGroup { group in
            for number in 0..<count {
                if isParallel {
                    group.addTask { await self.guess(for: names[number % 2]) }
                } else {
                    await guess(for: names[number % 2])
                }
            }
        }
        return "guessed"
    }

    private func guess(for name: String) async {
        _ = await perform {
            _ = try await clients().client.logIn(name, password: "a wrong guess")
            return ""
        }
    }

    /// Sends the first statement about a sale, which says nothing of a later refund.
    func presentFormer(_ sale: Int, isRestore: Bool) async -> String {
        await perform {
            let text = world.desk.formerText(of: sale, at: world.scheduler.trueTime)
            let items = [StoreDesk.item(text)]
            let answers = try await clients().remote.submit(
                items, account: try await account(), isRestore: isRestore)
            world.reach(.formerPresented)
            return "\(answers.count { $0 == .recorded }) recorded"
        }
    }

    /// Sends one request without the repetitions and pauses of the production client.
    private func send(
        _ method: HTTPRequest.Method, _ target: String, _ body: [UInt8] = [], token: String? = nil, path: String? = nil
    ) async throws -> (status: Int, body: JSON?) {
        var request = HTTPRequest(method: method, scheme: "https", authority: "sync.example.com", path: target)
        let own = token == nil ? try await clients().tokens.token() : nil
        request.headerFields[.authorization] = "Bearer \(token ?? own ?? "")"
        if !body.isEmpty { request.headerFields[.contentType] = "application/json" }
        if let path, let name = HTTPField.Name("X-Original-URI") { request.headerFields[name] = path }
        let answer = try await link.send(request, body: body, timeout: .seconds(30), maximumByteCount: 1 << 20)
        return (answer.response.status.code, try? JSON(parsing: answer.body))
    }
}
