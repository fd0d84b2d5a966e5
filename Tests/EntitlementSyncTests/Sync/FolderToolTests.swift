import EntitlementSync
import Entitlements
import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// A simulated file-sync tool between real folders. It copies files late, in any order and sometimes partially, and
/// makes conflict copies of files that changed on both sides.
private struct FolderTool {
    let folders: [String]
    let hub: String
    private var base: [[String: Data]]
    /// The numbers of conflict copies and of partial copies made.
    private(set) var copies = 0
    private(set) var partialCopies = 0

    init(folders: [String], hub: String) throws {
        self.folders = folders
        self.hub = hub
        base = Array(repeating: [:], count: folders.count)
        for folder in folders + [hub] {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        }
    }

    static func files(in folder: String) throws -> [String: Data] {
        var files: [String: Data] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder) where name.contains(".entry") {
            files[name] = FileManager.default.contents(atPath: "\(folder)/\(name)")
        }
        return files
    }

    private func put(_ data: Data, at name: String, in folder: String) throws {
        let path = URL(fileURLWithPath: "\(folder)/\(name)")
        try FileManager.default.createDirectory(
            at: path.deletingLastPathComponent(), withIntermediateDirectories: true)
        try data.write(to: path)
    }

    mutating func upload(_ index: Int) throws {
        let there = try Self.files(in: hub)
        for (name, data) in try Self.files(in: folders[index]).sorted(by: { $0.key < $1.key })
        where data != base[index][name] && data != there[name] {
            if there[name] == base[index][name] {
                try put(data, at: name, in: hub)
            } else {
                copies += 1
                let style = ["(conflicted copy \(copies)).entry", "\(copies + 1).entry"][copies % 2]
                try put(data, at: name.replacing(".entry", with: " " + style), in: hub)
                try put(there[name] ?? data, at: name, in: folders[index])
            }
            base[index][name] = try Self.files(in: hub)[name]
        }
    }

    mutating func download(_ index: Int, using random: inout SeededGenerator, mayBeBad: Bool) throws {
        let here = try Self.files(in: folders[index])
        for (name, data) in try Self.files(in: hub).sorted(by: { $0.key < $1.key })
        where here[name] == nil || here[name] == base[index][name] {
            switch mayBeBad ? Int.random(in: 0..<4, using: &random) : 2 {
            case 0: break
            case 1:
                partialCopies += 1
                let part = data.prefix(Int.random(in: 0..<data.count, using: &random))
                try put(part, at: name, in: folders[index])
                base[index][name] = part
            default:
                try put(data, at: name, in: folders[index])
                base[index][name] = data
            }
        }
    }
}

@Suite("Real folders shared by a file-sync tool")
struct FolderToolTests {
    @Test("Three devices, one a clone of another, converge on all purchases and then change no file")
    func worlds() async throws {
        let seed = printedSeed("real folders and a tool")
        var (copies, partialCopies) = (0, 0)
        for number in 0..<12 {
            let context: Comment = "seed \(seed), case \(number)"
            var random = SeededGenerator(seed: seed &+ UInt64(number))
            let home = try Household()
            let temporary = try TemporaryFolder()
            let names = ["phone", "tablet", "clone"]
            var tool = try FolderTool(folders: names.map(temporary.path(of:)), hub: temporary.path(of: "hub"))
            let locals = names.map { _ in MemoryBackend() }
            let replica = ReplicaID.random(using: &random).bytes
            for local in [locals[0], locals[2]] {
                _ = try await local.write(replica, to: EntryKey("device/replica"), if: .absent)
            }
            var bought: Set<TransactionID> = []
            func device(_ index: Int) async throws -> EntitlementStore {
                try await home.device(locals[index], remote: .folder(tool.folders[index]) as FileBackend)
            }
            for step in 0..<60 {
                let index = Int.random(in: 0..<3, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0:
                    let id = TransactionID("t\(step)")
                    try await device(index).record(.reported(Owls.nightOwl, transaction: id))
                    bought.insert(id)
                case 1: try await device(index).sync()
                case 2: try tool.upload(index)
                default: try tool.download(index, using: &random, mayBeBad: true)
                }
            }
            for _ in 0..<5 {
                for index in 0..<3 { try await device(index).sync() }
                for index in 0..<3 { try tool.upload(index) }
                for index in 0..<3 { try tool.download(index, using: &random, mayBeBad: false) }
            }
            let before = try tool.folders.map { try FolderTool.files(in: $0) }
            for index in 0..<3 {
                let report = try await device(index).sync()
                try #require(!report.didSend && report.received.isEmpty, context)
                let held = try await device(index).localLedgers()
                let ids = Facts(account: held.account, device: held.device).purchases.map(\.transaction.id)
                try #require(Set(ids) == bought, context)
            }
            try #require(try tool.folders.map { try FolderTool.files(in: $0) } == before, context)
            copies += tool.copies
            partialCopies += tool.partialCopies
        }
        #expect(copies > 0 && partialCopies > 5, "\(copies) copies, \(partialCopies) partial copies; seed \(seed)")
    }
}
