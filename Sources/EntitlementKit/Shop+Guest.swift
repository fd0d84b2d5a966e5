import EntitlementSync
import HTTPStorage
import SyncCore

// Syncing before a log-in: the shop creates an account by itself, the guest.
//
// 1. The guest's name and password are stored on this device before the server hears of them, so that a request whose
//    answer was lost is repeated for the same account.
// 2. The guest adopts the anonymous purchases of this device, and syncs like any other account.
// 3. If another account adopts the purchases, the guest is marked as leaving. Its purchases become anonymous on this
//    device, the guest is erased at the server, which frees its purchases there, and its secret is deleted. Then the
//    log-in goes on as without a guest. Each step can be repeated, and the mark lets the next start go on.
extension Shop {
    /// Creates the guest, or resumes it, if this shop syncs before a log-in and no account is logged in. Completes the
    /// end of one that an interruption has left.
    func syncAsGuest() async throws(ShopError) {
        guard settings.syncsBeforeLogIn else { return }
        try await changingAccount { opened in
            guard let client = opened.client, let guests = opened.guests else { return }
            var guest = try await guests.load()
            if let leaving = guest, leaving.isLeaving {
                try await end(leaving, opened)
                guest = nil
            }
            let account = opened.store.account
            guard account.isAnonymous || account.isGuest else { return }
            if account.isGuest, account.name != guest?.name {
                throw ShopError(
                    .logInNeeded, "the password of \(account.description) is not on this device: log in, or restore")
            }
            if account.isGuest, try await opened.tokens?.session()?.account == account.name { return }
            // After a log-out its purchases count again at once, also without a network.
            if let guest { try await opened.store.resumeGuest(guest.name) }
            let next = try await guests.loadOrCreate(settings.host)
            let session = try await client.signUp(next.name, password: next.password).session
            try await enter(session, .adopt, opened)
            opened.store.retrySync()
            // Purchases do not depend on the token.
            await attempt(.account) { _ = try await appAccountToken() }
        }
    }

    /// Keeps a guest while no account is logged in: at the start, and after each log-out in `events`.
    func keepGuest(_ events: AsyncStream<EntitlementEvent>) async {
        guard settings.syncsBeforeLogIn else { return }
        let sync: @MainActor @Sendable () async throws(ShopError) -> Void = { () async throws(ShopError) in
            try await self.syncAsGuest()
        }
        await untilSuccess(.account, sync)
        for await event in events {
            switch event {
            case .accountChanged, .accountErased: await untilSuccess(.account, sync)
            default: break
            }
        }
    }

    /// Moves the purchases of the guest, if there is one, to the anonymous ledgers of this device, and erases the
    /// guest, before `account` adopts them.
    func endGuest(_ opened: OpenedShop, before account: String) async throws {
        guard let guests = opened.guests, var guest = try await guests.load(), guest.name != account else { return }
        guest.isLeaving = true
        try await guests.save(guest)
        try await end(guest, opened)
    }

    private func end(_ guest: Guest, _ opened: OpenedShop) async throws {
        let (client, tokens) = try opened.accounts()
        try await opened.store.releaseGuest(guest.name)
        account = opened.accountName
        if try await tokens.session()?.account == guest.name { try await tokens.forget() }
        do {
            let token = try await client.logIn(guest.name, password: guest.password).accessToken
            try await client.erase(password: guest.password) { _ in token }
        } catch {
            // It was erased before, or the server never heard of it.
            guard error.kind == .invalidCredentials else { throw error }
        }
        try await opened.guests?.delete()
    }
}

extension OpenedShop {
    /// The name of the account that is logged in; `nil` for none, and for a guest.
    var accountName: String? { store.account.isGuest ? nil : store.account.name }
}
