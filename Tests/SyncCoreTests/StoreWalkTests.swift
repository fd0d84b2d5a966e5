import FileStorage
import Foundation
import SyncCore
import TestSupport
import Testing

@Suite("Walking through a store with unreadable entries")
struct StoreWalkTests {
    private let folder: TemporaryFolder
    private let root: String

    init() async throws {
        folder = try TemporaryFolder()
        root = folder.path(of: "store")
        let files = FileBackend(folder: root)
        for number in 100..<330 { _ = try await files.write([1], to: EntryKey("k\(number)"), if: .any) }
        for name in ["m/a", "m/b", "m/c/d", "m0", "n"] { _ = try await files.write([1], to: EntryKey(name), if: .any) }
    }

    @Test("reports links, folders and entries of a later format, and finds everything else")
    func files() async throws {
        try FileManager.default.removeItem(atPath: "\(root)/k100.entry")
        try FileManager.default.createSymbolicLink(atPath: "\(root)/k100.entry", withDestinationPath: "/etc/passwd")
        try FileManager.default.createDirectory(atPath: "\(root)/k1005.entry", withIntermediateDirectories: false)
        var bytes = try Data(contentsOf: URL(fileURLWithPath: "\(root)/k250.entry"))
        bytes.replaceSubrange(8..., with: [0, 0, 0, 9] + [UInt8](repeating: 3, count: 60))
        try bytes.write(to: URL(fileURLWithPath: "\(root)/k250.entry"))
        try FileManager.default.moveItem(atPath: "\(root)/m", toPath: folder.path(of: "m"))
        try FileManager.default.createSymbolicLink(atPath: "\(root)/m", withDestinationPath: folder.path(of: "m"))

        let survey = try await StoreSurvey.of(FileBackend(folder: root))
        let named = ["k100 notAStore", "k1005 notAStore", "k250 newerFormat", "m/ notAStore"]
        #expect(survey.damage.map { "\($0.key?.text ?? "") \($0.kind)" }.sorted() == named)
        #expect(survey.wholeCount == 230 - 2 + 2)

        let target = MemoryBackend()
        let report = try await StoreCopy(from: FileBackend(folder: root), to: target, skippingDamage: true).run()
        #expect(report.damage.map { "\($0.key?.text ?? "") \($0.kind)" }.sorted() == named)
        #expect(report.copiedCount == 230)
        for name in ["m0", "n", "k329"] { #expect(try await target.read(EntryKey(name)).outcome != .absent, "\(name)") }
    }

    @Test("continues after a bad sector, retries unavailable entries, and ends when the store fails")
    func unavailable() async throws {
        let error = BackendError(.unavailable, disposition: .permanent, message: "a bad sector")
        let sector = UnreliableBackend(FileBackend(folder: root), [try EntryKey("k200"): (.max, error)])
        let bad = try await StoreSurvey.of(sector)
        #expect(bad.damage.map(\.key?.text) == ["k200"] && bad.damage.map(\.kind) == [.unavailable])
        #expect(bad.wholeCount == 234)

        let passing = BackendError(.unavailable, message: "away")
        let faults = [try EntryKey("k110"): (2, passing), try EntryKey("k300"): (Int.max, passing)]
        let survey = try await StoreSurvey.of(UnreliableBackend(FileBackend(folder: root), faults))
        #expect(survey.damage.map(\.key?.text) == ["k300"] && survey.wholeCount == 234)

        for kind in [BackendError.Kind.busy, .cancelled] {
            let store = UnreliableBackend(
                FileBackend(folder: root), [try EntryKey("k200"): (.max, BackendError(kind, message: "not now"))])
            let thrown = await #expect(throws: BackendError.self) { try await StoreSurvey.of(store) }
            #expect(thrown?.kind == kind)
        }
    }
}

/// A store in which some keys cannot be read or listed, each for a number of calls.
private final class UnreliableBackend: ForwardingBackend, @unchecked Sendable {
    let base: any KeyValueBackend
    private let lock = NSLock()
    private var faults: [EntryKey: (count: Int, error: BackendError)]

    init(_ base: any KeyValueBackend, _ faults: [EntryKey: (Int, BackendError)]) {
        self.base = base
        self.faults = faults.mapValues { ($0.0, $0.1) }
    }

    private func meet(_ key: EntryKey, _ operation: BackendError.Operation) throws(BackendError) {
        let error = lock.withLock { () -> BackendError? in
            guard let fault = faults[key], fault.count > 0 else { return nil }
            faults[key] = (fault.count - 1, fault.error)
            return fault.error
        }
        if let error { throw error.during(operation, key: key) }
    }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try meet(key, .read)
        return try await base.read(key, unless: knownVersion)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        let page = try await base.list(prefix: prefix, after: cursor, limit: limit)
        for item in page.outcome.items { try meet(item.key, .list) }
        return page
    }
}
