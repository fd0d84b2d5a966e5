import Entitlements
import FileStorage
import Foundation
import SyncCore
import Testing

@Suite("A damaged store is reported with its location and left unchanged")
struct DamageTests {
    private let sandbox: Sandbox
    private let entry = "store/accounts/alice/initial/ledger.entry"
    private let key: EntryKey

    init() throws {
        sandbox = try Sandbox()
        key = try EntryKey("accounts/alice/initial/ledger")
        try sandbox.run("record purchase \(Owls.night) --transaction t1 --account alice --create")
    }

    /// Every command that reads the ledger reports the same error.
    private func expectRefusal(_ exitCode: Int32, _ reason: String, sourceLocation: SourceLocation = #_sourceLocation)
        throws
    {
        let before = try sandbox.tree()
        for command in [
            "status", "check night-owl", "record flag \(Owls.shy)", "record purchase \(Owls.shy)", "use night-owl",
            "sync --remote file:remote", "export",
        ] {
            #expect(
                try sandbox.run("\(command) --account alice") == .refused(exitCode, reason), "\(command)",
                sourceLocation: sourceLocation)
        }
        #expect(try sandbox.tree() == before, sourceLocation: sourceLocation)
    }

    private func replaceLedger(by bytes: [UInt8]) throws {
        let version = EntryVersion(bytes: [UInt8](repeating: 7, count: 16))
        try sandbox.write(EntryFile.encode(Entry(value: bytes, version: version), key: key), to: entry)
    }

    private func ledgerBytes() throws -> [UInt8] {
        let file = try sandbox.bytes(of: entry)
        return try EntryFile.value(of: file, header: EntryFile.header(of: file))
    }

    private let restore = "restore this file from a backup or write the key again"

    @Test("A truncated file is rejected")
    func truncatedFile() throws {
        let whole = try sandbox.bytes(of: entry)
        try sandbox.write(Array(whole.dropLast()), to: entry)
        try expectRefusal(
            1,
            "local store: read \"\(key)\": \(entry): the file ends after \(whole.count - 1) of \(whole.count) bytes; "
                + restore)
    }

    @Test("A file with a flipped bit is rejected")
    func flippedFile() throws {
        var bytes = try sandbox.bytes(of: entry)
        bytes[bytes.count - 20] ^= 1
        try sandbox.write(bytes, to: entry)
        try expectRefusal(
            1,
            "local store: read \"\(key)\": \(entry): bytes 77 to \(bytes.count - 1): the value's checksum does not "
                + "match; \(restore)")
    }

    @Test("A truncated ledger in an intact file is rejected")
    func truncatedLedger() throws {
        let whole = try ledgerBytes()
        try replaceLedger(by: whole.dropLast())
        try expectRefusal(
            1,
            "local store: file:store: \"\(key)\" cannot be read at byte \(whole.count - 1): the document has "
                + "\(whole.count - 1) bytes, its header says \(whole.count); restore it from a backup")
    }

    @Test("A ledger with a flipped bit in an intact file is rejected")
    func flippedLedger() throws {
        var bytes = try ledgerBytes()
        bytes[60] ^= 1
        try replaceLedger(by: bytes)
        try expectRefusal(
            1,
            "local store: file:store: \"\(key)\" cannot be read at byte 44: the records do not match their checksum; "
                + "restore it from a backup")
    }

    @Test("A ledger of a newer format ends with exit code 4")
    func newerLedger() throws {
        var bytes = try ledgerBytes()
        bytes[4] = 2
        try replaceLedger(by: bytes)
        try expectRefusal(
            4,
            "local store: file:store: \"\(key)\" cannot be read at byte 4: it is written in format 2, this version "
                + "reads up to 1; update this software")
    }

    @Test("A store of a newer format ends with exit code 4")
    func newerStore() throws {
        try sandbox.write("EntitlementSync file store 3\n", to: "store/store.format")
        try expectRefusal(
            4,
            "local store: read \"accounts/alice/account\": store/store.format: the store has format 3, but this "
                + "software supports up to 2; update it")
    }

    @Test("A damaged ledger on the remote does not change the device")
    func damagedRemote() throws {
        let file = "remote/accounts/alice/initial/ledger.entry"
        #expect(try sandbox.run("sync --create-remote --remote file:remote").exitCode == 0)
        var newer = try ledgerBytes()
        newer[4] = 2
        let version = EntryVersion(bytes: [UInt8](repeating: 7, count: 16))
        try sandbox.write(EntryFile.encode(Entry(value: newer, version: version), key: key), to: file)
        let before = try sandbox.tree()
        #expect(
            try sandbox.run("sync --remote file:remote")
                == .refused(
                    4,
                    "remote store: the document cannot be read: at byte 4: it is written in format 2, this version "
                        + "reads up to 1"))
        try sandbox.write(EntryFile.encode(Entry(value: [1, 2, 3], version: version), key: key), to: file)
        #expect(
            try sandbox.run("sync --remote file:remote")
                == .refused(
                    1,
                    "remote store: the document cannot be read: at byte 0: this is not a ledger: it does not begin "
                        + "with ESLG"
                ))
        #expect(
            try sandbox.tree().filter { !$0.key.hasPrefix("remote") } == before.filter { !$0.key.hasPrefix("remote") })
    }
}
