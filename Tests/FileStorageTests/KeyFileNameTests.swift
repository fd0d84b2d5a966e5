import FileStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The file name of a key")
struct KeyFileNameTests {
    private func place(_ text: String) throws -> String {
        let name = KeyFileName(try EntryKey(text))
        return (name.folders + [name.file]).joined(separator: "/")
    }

    @Test(
        "A name is readable, with escapes where a file system could confuse keys",
        arguments: [
            ("accounts/alice/ledger", "accounts/alice/ledger.entry"), ("a", "a.entry"), ("a/b", "a/b.entry"),
            ("A", "%41.entry"), ("a.entry", "a%2eentry.entry"), (".", "%2e.entry"), ("..", "%2e%2e.entry"),
            ("/", "%/%.entry"), ("//a", "%/%/a.entry"), ("a/", "a/%.entry"), ("%", "%25.entry"), ("a+b", "a%2bb.entry"),
            ("é", "%c3%a9.entry"), ("e\u{301}", "e%cc%81.entry"), ("_-9", "_-9.entry"), (" ", "%20.entry"),
        ])
    func examples(key: String, expected: String) throws {
        #expect(try place(key) == expected)
    }

    @Test("All bytes except a-z, 0-9, _ and - are escaped, reversibly")
    func everyByte() throws {
        for scalar in (0x20...0x17F).compactMap(Unicode.Scalar.init) where scalar != "\u{7F}" && scalar != "/" {
            let key = try EntryKey("x\(Character(scalar))")
            let name = KeyFileName(key)
            let isPlain = "abcdefghijklmnopqrstuvwxyz0123456789_-".unicodeScalars.contains(scalar)
            #expect(name.file.hasPrefix("x%") != isPlain, "\(scalar)")
            #expect(KeyFileName.key(ofFolders: name.folders, file: name.file) == key)
        }
    }

    @Test("No part of any key has more than 205 characters, and all are lower-case ASCII")
    func bounded() throws {
        for unit in ["x", "/", "%", "é", "🦉", "x/", "Ab/"] {
            for count in 1...(1_024 / unit.utf8.count) {
                let key = try EntryKey(String(repeating: unit, count: count))
                let name = KeyFileName(key)
                for part in name.folders + [name.file] {
                    #expect((1...205).contains(part.utf8.count))
                    #expect(part == part.lowercased() && part.utf8.allSatisfy { $0 < 0x80 })
                    #expect(part != "." && part != "..")
                }
                #expect(KeyFileName.key(ofFolders: name.folders, file: name.file) == key)
            }
        }
    }

    @Test(
        "For all keys of a small alphabet, names are different even after case folding, and reversible"
    )
    func injective() throws {
        let alphabet = ["a", "A", "/", ".", "%", "+", "-"]
        var texts = [""]
        var places: Set<String> = []
        var keyCount = 0
        for _ in 1...5 {
            texts = texts.flatMap { text in alphabet.map { text + $0 } }
            for text in texts {
                let key = try EntryKey(text)
                let name = KeyFileName(key)
                let isNew = places.insert((name.folders + [name.file]).joined(separator: "/").lowercased()).inserted
                guard isNew, KeyFileName.key(ofFolders: name.folders, file: name.file) == key else {
                    Issue.record("\"\(text)\" shares its place or cannot be decoded")
                    return
                }
                keyCount += 1
            }
        }
        #expect(keyCount == 7 + 49 + 343 + 2_401 + 16_807)
    }

    @Test("The parts of one folder are sorted like their keys, also where a long component is split")
    func order() throws {
        var generator = SeededGenerator(seed: printedSeed("order of parts"))
        let long = String(repeating: "x", count: 196)
        for _ in 0..<5_000 {
            let texts = (0..<2).map { _ in
                (Bool.random(using: &generator) ? long : "")
                    + (0..<Int.random(in: 1...6, using: &generator)).map { _ in
                        ["x", "/", "!", "a", "Z"].randomElement(using: &generator) ?? "x"
                    }.joined()
            }
            let keys = try texts.map { try EntryKey($0) }
            let walks = try keys.map { key in
                let name = KeyFileName(key)
                return try name.folders.map { try #require(KeyFileName.Part(folderName: $0)).sortKey }
                    + [try #require(KeyFileName.Part(fileName: name.file)).sortKey]
            }
            let isBefore = zip(walks[0], walks[1]).first { $0 != $1 }.map { $0.lexicographicallyPrecedes($1) }
            #expect((isBefore ?? (walks[0].count < walks[1].count)) == (keys[0] < keys[1]), "\(texts)")
        }
    }

    @Test(
        "A file name that is never written is rejected",
        arguments: [
            "A.entry", "%41", "%2E.entry", "%61.entry", "%6.entry", "%", ".entry", "", "a.txt", ".pending.tmp",
            "store.format", "store.lock", "a+.entry", "%%.entry", "a.entry.entry",
            String(repeating: "x", count: 198) + ".entry",
        ])
    func foreignFiles(name: String) {
        #expect(KeyFileName.Part(fileName: name) == nil)
    }

    @Test("A folder name that is never written is rejected", arguments: ["a+", "+", "a.b", "", "B", "%+", ".git"])
    func foreignFolders(name: String) {
        #expect(KeyFileName.Part(folderName: name) == nil)
    }
}
