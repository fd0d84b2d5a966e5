import EntitlementSync
import Foundation
import HTTPStorage
import SyncCore

/// The account of a customer without a log-in. Its name and password are random, and stay on this device.
struct Guest: Hashable, Sendable {
    var name: String
    var password: String
    /// True once its purchases move to another account. It is erased then.
    var isLeaving = false

    /// Creates the credentials of a new guest.
    init(_ host: HostServices) {
        name = Account.guestName(host)
        password = (0..<4).map { _ in String(host.randomBits(), radix: 36) }.joined()
    }

    fileprivate init(_ kept: KeptSession) {
        (name, password) = (kept.session.account, kept.session.refreshToken)
        isLeaving = kept.session.incarnation == Self.leaving
    }

    /// The form in which it is stored. The password is in the place of the refresh token, which is as secret.
    fileprivate var kept: KeptSession {
        KeptSession(
            ServerSession(
                account: name, incarnation: isLeaving ? Self.leaving : "", accessToken: "", lifetime: .zero,
                refreshToken: password), received: 0)
    }

    private static let leaving = "leaving"
}

/// The guest of this device, stored like a session.
struct GuestStore: Sendable {
    let store: any SessionStore

    func load() async throws(BackendError) -> Guest? { try await store.load().map { Guest($0) } }

    /// Returns the guest, and creates it if there is none. Concurrent callers, in this process or another, get the same
    /// one.
    func loadOrCreate(_ host: HostServices) async throws(BackendError) -> Guest {
        try await store.exclusively { () async throws(BackendError) in
            if let guest = try await load() { return guest }
            let guest = Guest(host)
            try await store.save(guest.kept)
            return guest
        }
    }

    func save(_ guest: Guest) async throws(BackendError) {
        try await store.exclusively { () async throws(BackendError) in try await store.save(guest.kept) }
    }

    func delete() async throws(BackendError) {
        try await store.exclusively { () async throws(BackendError) in try await store.delete() }
    }
}
