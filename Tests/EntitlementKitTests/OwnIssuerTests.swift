import Crypto
import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import Foundation
import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Synchronization
import TestSupport
import Testing

@testable import EntitlementKit

/// The log-in of an app, which gives tokens for ten minutes.
private final class AppLogIn: Sendable {
    struct Refused: Error {}

    private struct State {
        var user: String
        var count = 0
        var isSignedOut = false
        var age: Int64 = 0
        var text: String?
    }
    private let state: Mutex<State>
    private let now: @Sendable () -> Int64

    init(_ user: String, now: @escaping @Sendable () -> Int64) {
        state = Mutex(State(user: user))
        self.now = now
    }

    /// The number of tokens since the last call.
    func take() -> Int {
        state.withLock { state in
            defer { state.count = 0 }
            return state.count
        }
    }

    func signIn(as user: String) { state.withLock { ($0.user, $0.isSignedOut) = (user, false) } }
    func signOut() { state.withLock { $0.isSignedOut = true } }
    /// Gives tokens that were issued `seconds` ago.
    func age(_ seconds: Int64) { state.withLock { $0.age = seconds } }
    /// Gives `text` instead of tokens; `nil` to end that.
    func give(_ text: String?) { state.withLock { $0.text = text } }

    func token() async throws -> String {
        try state.withLock { state in
            state.count += 1
            if state.isSignedOut { throw Refused() }
            let issued = now() / 1_000 - state.age
            return state.text ?? .external(state.user, issued + 600, issued: issued)
        }
    }
}

@MainActor
@Suite("Accounts of the app's own issuer", .timeLimit(.minutes(15)))
struct OwnIssuerTests {
    private let stage: ShopStage
    private let machine = TestHost(at: 1_800_000_000_000)
    private let requests: CountingTransport
    private let login: AppLogIn

    init() async throws {
        stage = try ShopStage()
        let machine = machine
        requests = CountingTransport(
            try await EntitlementService(
                MemoryBackend(), configuration: ServiceConfiguration(name: "https://sync.example.com"),
                passwords: PlainPasswords(), issuers: [PlainIssuer()], host: machine.host,
                onError: { Issue.record($0) }))
        login = AppLogIn("user-7") { machine.milliseconds }
    }

    private func shop(_ device: String = "phone") -> Shop {
        stage.shop(device, server: "https://sync.example.com") { settings in
            settings.transport = requests
            settings.host = machine.host
        }
    }

    private func logIn(
        _ shop: Shop, _ earlier: Shop.EarlierPurchases = .adopt, as login: AppLogIn? = nil
    ) async throws {
        let login = login ?? self.login
        try await shop.logIn(token: { try await login.token() }, earlierPurchases: earlier)
    }

    private func resume(_ shop: Shop) { shop.resume { [login] in try await login.token() } }

    @Test("What was bought before the log-in is on another device of the user, and no password is needed")
    func twoDevices() async throws {
        let phone = shop()
        try await phone.record("owls.3months", transaction: "1")
        try await logIn(phone)
        #expect(phone.account == "user-7" && phone.failure == nil)
        #expect(try await phone.appAccountToken() != nil)
        let tablet = shop("tablet")
        try await logIn(tablet, .leaveOnDevice)
        #expect(try await tablet.access(to: "owls").isGranted)
        #expect(login.take() == 2, "one token for each log-in")
    }

    @Test("The closure is called again shortly before the token expires, once for all requests")
    func expiry() async throws {
        let shop = shop()
        try await logIn(shop)
        _ = login.take()
        machine.advance(by: .seconds(569))
        try await shop.refresh()
        #expect(login.take() == 0)
        machine.advance(by: .seconds(2))
        let store = try await shop.store()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask { await #expect(throws: Never.self) { try await store.sync() } }
            }
        }
        #expect(login.take() == 1)
    }

    @Test("The closure is called again when the server has refused the token, whatever this device's clock shows")
    func refusal() async throws {
        let shop = shop()
        try await logIn(shop)
        _ = login.take()
        // The wall clock alone: for the device no time has passed.
        machine.set(machine.milliseconds + 3_600_000)
        try await shop.refresh()
        #expect(login.take() == 1)
        // A token of the past is refused twice, and the account stays logged in.
        login.age(7_200)
        machine.set(machine.milliseconds + 3_600_000)
        await expect(.notAllowed) { try await shop.refresh() }
        #expect(login.take() == 1)
        login.age(0)
        try await shop.refresh()
        #expect(shop.account == "user-7")
    }

    @Test("After a restart the last token counts until it expires, then the app must have passed the closure again")
    func restart() async throws {
        try await logIn(shop())
        _ = login.take()
        let restarted = shop()
        try await restarted.record("owls.3months", transaction: "1")
        try await restarted.refresh()
        #expect(restarted.account == "user-7" && login.take() == 0)
        machine.advance(by: .seconds(700))
        await expect(.logInNeeded, naming: "each start") { try await restarted.refresh() }
        #expect(try await restarted.access(to: "owls").isGranted)
        resume(restarted)
        try await restarted.refresh()
        #expect(login.take() == 1)
        // Passed before the shop is open.
        machine.advance(by: .seconds(700))
        let again = shop()
        resume(again)
        try await again.refresh()
        #expect(again.account == "user-7" && login.take() == 1)
    }

    @Test("Without a log-in a shop asks for no token, even if the app has passed the closure")
    func loggedOut() async throws {
        let shop = shop()
        resume(shop)
        try await shop.refresh()
        #expect(shop.account == nil && login.take() == 0)
        await expect(.logInNeeded) { try await shop.deleteAccount() }
    }

    @Test("The errors of a log-in name the cause, and leave the device as it was")
    func errors() async throws {
        let shop = shop()
        try await shop.signUp("user-8", password: ShopStage.password, earlierPurchases: .adopt)
        login.signOut()
        await expect(.noToken, naming: "Refused") { try await logIn(shop) }
        login.signIn(as: "user-7")
        for text in ["", "opaque", "a.b.c", "e30.e30.e30"] {
            login.give(text)
            await expect(.noToken, naming: "JSON Web Token") { try await logIn(shop) }
        }
        login.give(nil)
        login.age(601)
        await expect(.logInNeeded, naming: "refused the app's token") { try await logIn(shop) }
        login.age(0)
        login.signIn(as: "user-8")
        await expect(.notAllowed) { try await logIn(shop) }
        login.signIn(as: "user-7")
        requests.decide { $0.path?.hasPrefix("/v1/kv") == true ? .neverArrives : .arrives }
        await expect(.offline) { try await logIn(shop) }
        requests.decide { _ in .arrives }
        #expect(shop.account == "user-8")
        try await shop.refresh()
    }

    @Test("If the app's user changes without a log-in to the shop, nothing reaches the account of the other user")
    func otherUser() async throws {
        let shop = shop()
        try await logIn(shop)
        login.signIn(as: "user-9")
        machine.advance(by: .seconds(700))
        await expect(.logInNeeded, naming: "user-9") { try await shop.refresh() }
        await expect(.logInNeeded, naming: "user-9") { try await shop.deleteAccount() }
        try await logIn(shop, .leaveOnDevice)
        #expect(shop.account == "user-9")
        login.signIn(as: "user-7")
        machine.advance(by: .seconds(700))
        await expect(.logInNeeded, naming: "user-7") { try await shop.refresh() }
        try await logIn(shop, .leaveOnDevice)
        try await shop.refresh()
        #expect(shop.account == "user-7", "the account of the first user still exists")
    }

    @Test("A device switches between accounts with a password and the app's own, and a failed switch keeps the former")
    func switching() async throws {
        let shop = shop()
        try await shop.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
        try await logIn(shop)
        let other = AppLogIn("user-8") { [machine] in machine.milliseconds }
        requests.decide { $0.path?.contains("accounts/user-8/") == true ? .neverArrives : .arrives }
        await expect(.offline) { try await logIn(shop, as: other) }
        requests.decide { _ in .arrives }
        #expect(shop.account == "user-7")
        machine.advance(by: .seconds(700))
        _ = (login.take(), other.take())
        try await shop.refresh()
        #expect(login.take() == 1 && other.take() == 0)
        try await shop.logIn("alice", password: ShopStage.password, earlierPurchases: .leaveOnDevice)
        machine.advance(by: .seconds(700))
        try await shop.refresh()
        #expect(shop.account == "alice" && login.take() == 0)
    }

    @Test("A log-out ends nothing at the issuer, and the next log-in has the purchases")
    func logOut() async throws {
        let shop = shop()
        try await logIn(shop)
        try await shop.record("owls.3months", transaction: "1")
        try await shop.logOut()
        #expect(shop.account == nil && shop.failure == nil)
        #expect(!requests.take().contains { $0.hasPrefix("DELETE") })
        #expect(try await !shop.access(to: "owls").isGranted)
        try await logIn(shop)
        #expect(try await shop.access(to: "owls").isGranted)
    }

    @Test("A deletion needs a recent token and no password, and a log-in afterwards begins an empty account")
    func deletion() async throws {
        let (phone, tablet) = (shop(), shop("tablet"))
        try await logIn(phone)
        try await phone.record("owls.3months", transaction: "1")
        try await phone.refresh()
        try await logIn(tablet)
        login.age(301)
        await expect(.notAllowed, naming: "5 minutes") { try await phone.deleteAccount() }
        await expect(.notAllowed, naming: "issuer") { try await phone.deleteAccount(password: ShopStage.password) }
        login.age(299)
        try await phone.deleteAccount()
        #expect(phone.account == nil)
        #expect(try await !phone.access(to: "owls").isGranted)
        await expect(.accountDeleted) { try await tablet.refresh() }
        #expect(tablet.account == nil)
        // A start of the app does not create the account again, and a log-in does.
        resume(phone)
        try await phone.refresh()
        #expect(phone.account == nil)
        try await logIn(phone)
        #expect(phone.account == "user-7")
        #expect(try await !phone.access(to: "owls").isGranted)
        try await phone.signUp("alice", password: ShopStage.password, earlierPurchases: .leaveOnDevice)
        await expect(.notAllowed, naming: "password") { try await phone.deleteAccount() }
    }

    @Test("A live server accepts the issuer's signed tokens, for purchases and for the deletion")
    func liveServer() async throws {
        let key = Curve25519.Signing.PrivateKey()
        let point = Base64.url.encode(Array(key.publicKey.rawRepresentation))
        let keys = stage.folder.path(of: "keys.json")
        try Data(#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"\#(point)"}]}"#.utf8).write(
            to: URL(filePath: keys))
        let server = try ServerProcess(
            store: "sqlite:\(stage.folder.path(of: "server.sqlite"))",
            options: ["--issuer", "https://login.example.com", "--audience", "owls", "--jwks", keys])
        let token: @Sendable () async throws -> String = {
            let now = HostServices.system.now() / 1_000
            let claims =
                #"{"iss":"https://login.example.com","aud":"owls","sub":"user-7","iat":\#(now),"exp":\#(now + 600)}"#
            let input = [#"{"alg":"EdDSA","kid":"k"}"#, claims].map { Base64.url.encode(Array($0.utf8)) }
                .joined(separator: ".")
            return "\(input).\(Base64.url.encode(Array(try key.signature(for: Data(input.utf8)))))"
        }
        let phone = stage.shop("phone", server: server.url)
        try await phone.record("owls.3months", transaction: "1")
        try await phone.logIn(token: token, earlierPurchases: .adopt)
        let tablet = stage.shop("tablet", server: server.url)
        try await tablet.logIn(token: token, earlierPurchases: .leaveOnDevice)
        #expect(try await tablet.access(to: "owls").isGranted)
        await expect(.notAllowed) {
            try await tablet.signUp("user-8", password: ShopStage.password, earlierPurchases: .adopt)
        }
        try await tablet.deleteAccount()
        await expect(.accountDeleted) { try await phone.refresh() }
        #expect(phone.account == nil && tablet.account == nil)
        #expect(server.stop() == 0)
    }
}
