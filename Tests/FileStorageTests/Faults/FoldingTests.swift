import FileStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The file backend on a file system that ignores case or Unicode normalization")
struct FoldingTests {
    private static let texts = [
        "a", "A", "é", "e\u{301}", "É", "E\u{301}", "ß", "ss", "SS", "İ", "i\u{307}", "ı", "I", "i", "ﬁ", "fi", "K",
        "\u{212A}", "k", "Å", "\u{212B}", "A\u{30A}", "a/B", "A/B", "a/b", "ａ", "con", "CON", "a.", "a", "x ", "x",
    ]

    @Test("The simulated file system treats É and é, composed or decomposed, as equal")
    func simulation() throws {
        for naming in [ModelFileSystem.Naming.folding, .decomposing] {
            let fileSystem = ModelFileSystem(naming: naming)
            fileSystem.close(try fileSystem.open("/É", .createNew))
            for name in ["/é", "/E\u{301}"] {
                let error = #expect(throws: FileSystemError.self) { try fileSystem.open(name, .createNew) }
                // EEXIST.
                #expect(error?.code == 17)
            }
            // Only decomposing changes the stored name.
            #expect(
                Array(fileSystem.paths()[0].unicodeScalars).count == (naming == .decomposing ? 3 : 2))
        }
    }

    @Test(
        "Keys that a file system may treat as equal are stored and listed separately",
        arguments: ModelFileSystem.Naming.allCases)
    func keysApart(naming: ModelFileSystem.Naming) async throws {
        let backend = FileBackend(folder: "/store", fileSystem: ModelFileSystem(naming: naming))
        let keys = try Set(Self.texts.map { try EntryKey($0) }).sorted()
        for (number, key) in keys.enumerated() {
            guard case .written = try await backend.write([UInt8(number)], to: key, if: .absent).outcome else {
                Issue.record("\(key) collides with another key")
                return
            }
        }
        for (number, key) in keys.enumerated() {
            guard case .found(let entry) = try await backend.read(key).outcome else {
                Issue.record("\(key) is missing")
                return
            }
            #expect(entry.value == [UInt8(number)])
        }
        #expect(try await backend.list(prefix: "", after: nil, limit: 1_000).outcome.items.map(\.key) == keys)
    }

    @Test(
        "Keys of 1 KiB that differ only in the case of their last letter are stored and listed separately",
        arguments: ["x", "é"])
    func longKeys(character: String) async throws {
        let backend = FileBackend(folder: "/store", fileSystem: ModelFileSystem(naming: .folding))
        let long = String(repeating: character, count: 1_023 / character.utf8.count)
        let padded = long + String(repeating: "-", count: 1_023 - long.utf8.count)
        let keys = try ["A", "a"].map { try EntryKey(padded + $0) }
        for (number, key) in keys.enumerated() {
            #expect(key.text.utf8.count == EntryKey.maximumByteCount)
            _ = try await backend.write([UInt8(number)], to: key, if: .absent)
        }
        #expect(try await backend.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key) == keys)
        #expect(try await backend.changes(since: nil, limit: 10).outcome.changes.map(\.key) == keys)
    }
}
