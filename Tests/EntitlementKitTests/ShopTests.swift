import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import TestSupport
import Testing

@testable import EntitlementKit

@MainActor
@Suite("A shop on two devices and a server", .timeLimit(.minutes(15)))
struct ShopTests {
    private let stage: ShopStage

    init() throws { stage = try ShopStage() }

    /// Three months, bought now.
    private func sale(_ id: UInt64) -> StoreKitTransaction {
        let now = Timestamp(milliseconds: HostServices.system.now())
        return StoreKitTransaction(
            id: id, product: "owls.3months", productType: .nonRenewing, purchaseDate: now, signedDate: now,
            jws: "header.\(id).signature")
    }

    @Test("What one device bought before it signed up is on another device after a log-in, and after a restart")
    func twoDevices() async throws {
        let server = try stage.server()
        let store = FakeAppStore([sale(1)])
        let phone = stage.shop("phone", server: server.url, source: store)
        #expect(phone.rows.isEmpty && phone.account == nil)
        try await whileRunning(phone) {
            await until { phone.rows.first?.price != nil && !store.finished.isEmpty }
            await until { if case .renew = phone.rows.first?.offer { true } else { false } }
        }
        #expect(store.finished == [1])
        #expect(phone.rows.map(\.price) == ["€ 9.99", "€ 49.99"] && phone.missingProducts.isEmpty)
        #expect(phone.rows.map(\.name) == ["3 months of owls", "All owls"])
        #expect(phone.rows.map(\.offer).last == .logIn)
        let codes = try await phone.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
        #expect(!codes.isEmpty)
        #expect(phone.account == "alice")

        let tablet = stage.shop("tablet", server: server.url)
        #expect(try await !tablet.access(to: "owls").isGranted)
        try await tablet.logIn("alice", password: ShopStage.password, earlierPurchases: .adopt)
        let access = try await tablet.access(to: "owls")
        #expect(access.isGranted && access.denial == nil)
        let days = try #require(access.until).timeIntervalSince(Date(timeIntervalSince1970: 0)) / 86_400
        let now = Double(HostServices.system.now()) / 86_400_000
        #expect((88...93).contains(days - now))
        #expect(try await tablet.end(afterBuying: "owls.3months") > (try #require(access.until)))

        // The session and the purchases survive a restart, without a network.
        #expect(server.stop() == 0)
        let restarted = stage.shop("tablet", server: server.url)
        #expect(try await restarted.access(to: "owls").isGranted)
        #expect(restarted.account == "alice")
        await expect(.offline) { _ = try await restarted.restore() }
        for file in ["session.json", "session.json.lock"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: stage.folder.path(of: "tablet/\(file)"))
            let mode = try #require(attributes[.posixPermissions] as? Int)
            #expect(mode == 0o600, "\(file)")
        }
    }

    @Test("Purchases that are left on the device are hidden from the account, and are there again after a log-out")
    func leftOnDevice() async throws {
        let server = try stage.server()
        let shop = stage.shop("shared", server: server.url)
        try await shop.record("owls.3months", transaction: "1")
        try await shop.signUp("alice", password: ShopStage.password, earlierPurchases: .leaveOnDevice)
        #expect(try await !shop.access(to: "owls").isGranted)
        try await shop.logOut()
        #expect(shop.account == nil)
        #expect(try await shop.access(to: "owls").isGranted)
        await expect(.logInNeeded) { _ = try await shop.restore() }
        #expect(server.stop() == 0)
    }

    @Test("A restore without a server reads the history of the App Store, and counts what is new")
    func restoreWithoutServer() async throws {
        let shop = stage.shop("phone", server: nil, source: FakeAppStore([sale(1), sale(2)]))
        #expect(try await shop.restore() == 2)
        #expect(try await shop.restore() == 0)
        #expect(try await shop.access(to: "owls").isGranted)
    }

    @Test("Mistakes of a user have an error of their own, with a sentence that says what to do")
    func mistakes() async throws {
        let server = try stage.server()
        let shop = stage.shop("phone", server: server.url)
        try await shop.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
        let other = stage.shop("tablet", server: server.url)
        await expect(.wrongPassword) {
            try await other.logIn("alice", password: "a wrong password", earlierPurchases: .adopt)
        }
        await expect(.nameTaken) {
            try await other.signUp("alice", password: "another password", earlierPurchases: .adopt)
        }
        #expect(other.account == nil)
        await expect(.logInNeeded) { _ = try await other.restore() }
        // The session ends elsewhere, for example because the password was changed.
        try await shop.logOut()
        try await other.logIn("alice", password: ShopStage.password, earlierPurchases: .adopt)
        let opened = try await other.open()
        let (client, tokens) = try opened.accounts()
        try await client.logOut(everywhere: true, token: tokens.token(refused:))
        await expect(.logInNeeded) { _ = try await other.restore() }
        await expect(.invalid) { try await other.signUp("bob", password: "short", earlierPurchases: .adopt) }
        #expect(server.stop() == 0)
        await expect(.offline) {
            try await other.logIn("alice", password: ShopStage.password, earlierPurchases: .adopt)
        }
        // The first start of an app may be without a network.
        let fresh = stage.shop("laptop", server: server.url)
        #expect(try await fresh.access(to: "owls").denial == .notPurchased)
        #expect(fresh.failure == nil)
    }

    @Test("Mistakes of an app have an error of their own, and change nothing")
    func mistakesOfTheApp() async throws {
        let shop = stage.shop("phone", server: nil)
        await expect(.catalog) { _ = try await shop.access(to: "owl") }
        await expect(.catalog) { try await shop.record("owls.4months", transaction: "1") }
        await expect(.noServer) { try await shop.logIn("a", password: "b", earlierPurchases: .adopt) }
        await expect(.noServer) { _ = try await shop.restore() }
        let missing = Shop(catalog: URL(filePath: stage.folder.path(of: "none.json")))
        await expect(.catalog) { _ = try await missing.access(to: "owls") }
        let wrong = stage.shop("tablet", server: "sync.example.com")
        await expect(.noServer) { _ = try await wrong.access(to: "owls") }
        let page = try RawServer { connection, _ in
            while connection.readRequest() != nil { connection.answer("<html>", fields: "Content-Type: text/html\r\n") }
        }
        let web = stage.shop("web", server: "http://\(page.authority)")
        await expect(.noServer) {
            try await web.logIn("alice", password: ShopStage.password, earlierPurchases: .adopt)
        }
        #expect(!FileManager.default.fileExists(atPath: stage.folder.path(of: "phone/purchases/entries")))
    }

    @Test("Damaged purchases are an error, not an empty shop, and the next start reads them again")
    func damaged() async throws {
        let shop = stage.shop("phone", server: nil)
        try await shop.record("owls.3months", transaction: "1")
        let folder = stage.folder.path(of: "phone/purchases")
        let files = try FileManager.default.subpathsOfDirectory(atPath: folder).filter { $0.contains("ledger") }
        let file = "\(folder)/\(try #require(files.first))"
        let bytes = try Data(contentsOf: URL(filePath: file))
        try bytes.dropLast(9).write(to: URL(filePath: file))
        let broken = stage.shop("phone", server: nil)
        await expect(.damaged) { _ = try await broken.access(to: "owls") }
        try bytes.write(to: URL(filePath: file))
        #expect(try await broken.access(to: "owls").isGranted)
    }

    @Test("A lost password is replaced with a recovery code, and a deleted account is gone on all devices")
    func recoveryAndDeletion() async throws {
        let server = try stage.server()
        let phone = stage.shop("phone", server: server.url)
        try await phone.record("owls.3months", transaction: "1")
        let codes = try await phone.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
        let tablet = stage.shop("tablet", server: server.url)
        let code = try #require(codes.first)
        let new = "another correct horse"
        try await tablet.resetPassword(of: "alice", recoveryCode: code, to: new, earlierPurchases: .leaveOnDevice)
        #expect(try await tablet.access(to: "owls").isGranted)
        await expect(.wrongPassword) {
            try await tablet.resetPassword(of: "alice", recoveryCode: code, to: new, earlierPurchases: .adopt)
        }
        await expect(.wrongPassword) { try await tablet.deleteAccount(password: ShopStage.password) }
        #expect(tablet.account == "alice")
        try await tablet.deleteAccount(password: new)
        #expect(tablet.account == nil)
        #expect(try await !tablet.access(to: "owls").isGranted)
        // The reset has ended the session of the phone, which asks its user to log in.
        await expect(.logInNeeded) { try await phone.refresh() }
        await expect(.wrongPassword) {
            try await phone.logIn("alice", password: new, earlierPurchases: .leaveOnDevice)
        }
        #expect(server.stop() == 0)
    }

    @Test("A purchase carries the account's token, which is nil before a log-in and differs between accounts")
    func appAccountToken() async throws {
        let server = try stage.server()
        let store = FakeAppStore()
        let shop = stage.shop("phone", server: server.url, source: store)
        try await whileRunning(shop) {
            _ = try await shop.buy("owls.3months")
            try await shop.signUp("alice", password: ShopStage.password, earlierPurchases: .adopt)
            _ = try await shop.buy("owls.lifetime")
            let alice = try await shop.appAccountToken()
            #expect(store.tokens == [nil, alice?.uuidString.lowercased()] && alice != nil)
            try await shop.logOut()
            try await shop.signUp("bob", password: ShopStage.password, earlierPurchases: .leaveOnDevice)
            let bob = try await shop.appAccountToken()
            #expect(bob != nil && bob != alice)
        }
        #expect(server.stop() == 0)
        // The purchase does not wait for a server that is away.
        let offline = stage.shop("phone", server: server.url, source: store)
        try await whileRunning(offline) { _ = try await offline.buy("owls.3months") }
        #expect(store.tokens.last == .some(nil))
    }

    @Test("The message of each kind of error is for a user: sentences, with the next step, and no technical cause")
    func messages() {
        let kinds: [ShopError.Kind] = [
            .catalog, .noServer, .notRunning, .offline, .wrongPassword, .tooManyAttempts, .nameTaken, .logInNeeded,
            .notAllowed, .untrusted, .otherEnvironment, .cancelled, .accountDeleted, .full, .storage, .damaged,
            .newerVersion, .appStore, .other,
        ]
        let messages = kinds.map { ShopError($0, "open: /tmp/x: errno 5").message }
        for message in messages { #expect(message.hasSuffix(".") && !message.contains("errno"), "\(message)") }
        #expect(Set(messages).count == kinds.count - 3, "mistakes of the app share a message")
        #expect(ShopError(.invalid, "the password is too short").message.contains("the password is too short"))
        for kind in [ShopError.Kind.other, .storage] {
            #expect(ShopError(kind, "x", isTransient: true).message.contains("Try again"))
            #expect(!ShopError(kind, "x").message.contains("ry again"), "an error that does not go away")
        }
        let shown: any Error = ShopError(.full, "open: ENOSPC")
        #expect(shown.localizedDescription.hasPrefix("This device has no free space."))
    }

    @Test("Many first calls open the purchases once")
    func opensOnce() async throws {
        let shop = stage.shop("phone", server: nil)
        async let first = shop.store()
        async let second = shop.access(to: "owls")
        async let third = shop.store()
        _ = try await second
        let stores = [try await first, try await third, try await shop.store()]
        #expect(Set(stores.map(ObjectIdentifier.init)).count == 1)
    }
}
