import SyncCore
import SyncCoreTesting
import SyncProtocol
import Testing

@Suite("Paths of keys")
struct WirePathTests {
    @Test(
        "A path reads like its key, and special characters are escaped",
        arguments: [
            ("accounts/alice/ledger", "/v1/kv/accounts/alice/ledger"),
            ("tx/app-store_1~x", "/v1/kv/tx/app-store_1~x"),
            ("a b", "/v1/kv/a%20b"), ("100%", "/v1/kv/100%25"), ("%2F", "/v1/kv/%252F"), ("é", "/v1/kv/%C3%A9"),
            ("e\u{301}", "/v1/kv/e%CC%81"), ("?#[]", "/v1/kv/%3F%23%5B%5D"), ("a+b", "/v1/kv/a%2Bb"),
            ("/", "/v1/kv/%2F"), ("a//b", "/v1/kv/a%2F%2Fb"), ("/a", "/v1/kv/%2Fa"), ("a/", "/v1/kv/a%2F"),
            ("..", "/v1/kv/%2E%2E"), (".", "/v1/kv/%2E"), ("a/../b", "/v1/kv/a%2F%2E%2E%2Fb"),
            ("a/.b/c..", "/v1/kv/a/.b/c.."), ("a/.../b", "/v1/kv/a%2F%2E%2E%2E%2Fb"),
        ])
    func escaped(text: String, path: String) throws {
        let key = try EntryKey(text)
        #expect(WirePath.path(of: key) == path)
        #expect(try WirePath.key(ofPath: path) == key)
    }

    @Test("Every key survives the way through a path, which consists of unreserved characters")
    func everyKey() throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed of WirePathTests: \(seed)")
        var generator = SeededGenerator(seed: seed)
        let pieces = [
            "/", "//", ".", "..", "%", "%2F", "a", "Z", "é", "\u{10FFFF}", " ", "?", "#", "+", "&", "~", "\\",
        ]
        for _ in 0..<5_000 {
            let count = Int.random(in: 1...12, using: &generator)
            let text = (0..<count).map { _ in pieces.randomElement(using: &generator) ?? "x" }.joined()
            let key = try EntryKey(text)
            let path = WirePath.path(of: key)
            #expect(try WirePath.key(ofPath: path) == key, "\(text)")
            let parts = path.dropFirst(WirePath.prefix.count).split(separator: "/", omittingEmptySubsequences: false)
            #expect(parts.allSatisfy { !["", ".", ".."].contains($0) }, "\(text)")
            #expect(path.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "?") }, "\(text)")
        }
    }

    @Test("Other encodings of the same path are accepted", arguments: ["/v1/kv/a%62c", "/v1/kv/%61bc", "/v1/kv/abc"])
    func otherSpelling(path: String) throws {
        #expect(try WirePath.key(ofPath: path) == EntryKey("abc"))
        #expect(try WirePath.key(ofPath: "/v1/kv/x%2fy%2Fz@b:c") == EntryKey("x/y/z@b:c"))
    }

    @Test(
        "An ambiguous or malformed path is rejected",
        arguments: [
            "", "/", "/v1/kv", "/v1/kv/", "/v1/KV/a", "/v2/kv/a", "v1/kv/a", "//v1/kv/a", "/v1/kv//a", "/v1/kv/a/",
            "/v1/kv/a//b", "/v1/kv/a/../b", "/v1/kv/..", "/v1/kv/./a", "/v1/kv/a/.", "/v1/kv/%", "/v1/kv/%4",
            "/v1/kv/%zz", "/v1/kv/a%0", "/v1/kv/a%00b", "/v1/kv/a%0Ab", "/v1/kv/a%7F", "/v1/kv/%C3", "/v1/kv/%ED%A0%80",
            "/v1/kv/%C0%AF", "/v1/kv/a b", "/v1/kv/a\u{0}b", "/v1/kv/é", "/v1/kv/a?b", "/v1/kv/a#b", "/v1/kv/a\\b",
            "/v1/kv/a\"b", "/v1/kv/[a]", "/v1/kv/" + String(repeating: "a", count: 1_025),
        ])
    func refused(path: String) throws {
        let error = #expect(throws: BackendError.self) { try WirePath.key(ofPath: path) }
        #expect(error?.kind == .invalidKey && error?.message.isEmpty == false)
    }

    @Test("A path is decoded once; a text that still looks encoded is part of the key")
    func once() throws {
        #expect(try WirePath.key(ofPath: "/v1/kv/a%252F%252E%252E%252Fb") == EntryKey("a%2F%2E%2E%2Fb"))
    }
}
