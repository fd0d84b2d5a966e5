import EntitlementSync
import Entitlements
import FileStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Accounts on a remote without compare-and-swap")
struct UnconditionalAccountTests {
    private let home: Household

    init() throws {
        home = try Household()
    }

    @Test("Accounts log in, record and are erased on every device, and an erased account is not created again")
    func memory() async throws {
        try await life(over: UnconditionalBackend(home.remote), keptIn: home.remote)
    }

    @Test("Accounts work the same on a folder shared by a file-sync tool")
    func folder() async throws {
        let folder = try TemporaryFolder()
        let remote = FileBackend(folder: folder.path(of: "shared"), sharing: .fileSyncTool, creating: .whenNeeded)
        #expect(!remote.capabilities.compareAndSwap)
        try await life(over: remote, keptIn: remote)
    }

    private func life(over remote: any KeyValueBackend, keptIn kept: any KeyValueBackend) async throws {
        func open(_ local: MemoryBackend) async throws -> EntitlementStore {
            try await home.store(local, remote: remote)
        }
        let locals = (0..<4).map { _ in MemoryBackend() }
        let stores = [try await open(locals[0]), try await open(locals[1])]
        for (number, store) in stores.enumerated() {
            try await store.createAccount("alice")
            try await store.record(.reported(Owls.nightOwl, transaction: TransactionID("secret-\(number)")))
            try await store.logIn("alice", adoptAnonymous: true)
            try await store.sync()
        }
        try await stores[0].sync()
        #expect(try await Holdings(of: locals[0])["alice/initial"] == ["secret-0", "secret-1"])
        try await stores[1].record(.reported(Owls.couchOwl, transaction: "secret-unsent"))

        try await stores[0].eraseAccount("alice")
        #expect(try await !holds("secret", in: kept), "entries of devices that never return must be erased too")
        #expect(await kind { try await stores[1].sync() } == .accountErased)
        for backend in [locals[0], locals[1], kept] as [any KeyValueBackend] {
            #expect(try await !holds("secret", in: backend), "\(backend.label)")
        }
        #expect(stores.allSatisfy { $0.account.isAnonymous })

        // No device, old or new, can create the account again or log in, and the account adopts nothing.
        for store in stores + [try await open(locals[2])] {
            let refused = await #expect(throws: EntitlementError.self) { try await store.createAccount("alice") }
            #expect(refused?.kind == .unsuitableStore)
            #expect(
                refused?.message
                    == #""alice" was erased, and \#(remote.label) cannot write conditionally: use another name"#)
            try await store.record(.reported(Owls.couchOwl, transaction: "unadopted"))
            #expect(await kind { try await store.logIn("alice", adoptAnonymous: true) } == .accountErased)
            #expect(try await store.snapshot().owned == [Owls.couchOwl])
        }
        let other = try await open(locals[3])
        try await other.createAccount("alicia")
        try await other.logIn("alicia")
        try await other.record(.reported(Owls.nightOwl))
        #expect(try await other.sync().didSend)
    }
}
