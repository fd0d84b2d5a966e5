import Entitlements
import Testing

@Suite("Paths of content")
struct ContentPathTests {
    @Test(
        "A path is decoded once, and its query is cut off",
        arguments: [
            ("/", [], true), ("/a", ["a"], false), ("/a/", ["a"], true), ("/a/b.jpg?x=/../", ["a", "b.jpg"], false),
            ("/caf%C3%A9/%7Euser", ["café", "~user"], false), ("/a%20b", ["a b"], false),
            ("/a..b/...", ["a..b", "..."], false),
            ("/a+b", ["a+b"], false), ("/%61", ["a"], false), ("/a;v=1/b;", ["a;v=1", "b;"], false),
            ("/a%3B/..a;x", ["a;", "..a;x"], false),
        ])
    func good(target: String, segments: [String], isFolder: Bool) throws {
        let path = try #require(ContentPath(target: target))
        #expect(path.segments == segments && path.isFolder == isFolder)
    }

    @Test(
        "A target that a web server could read as another path is refused",
        arguments: [
            "", "a", "http://host/a", "*", "//", "//a", "/a//b", "/a//", "/.", "/..", "/a/.", "/a/..", "/a/../b",
            "/./a",
            "/%2e", "/%2e%2e/a", "/a/%2E%2e", "/a/.%2e/b", "/a%2fb", "/a%2Fb", "/%2f", "/a%5cb", "/a\\b", "/a%00",
            "/a%0a", "/a\tb",
            "/a/..;/b", "/..;", "/a/.;x=1/b", "/a/..%3B/b", "/a/..%3bx", "/%2e%2e%3b/b", "/a/..;x;y/", "/;/a",
            "/a/;x/b",
            "/a%7f", "/a%", "/a%2", "/a%zz", "/a%252e", "/a%25", "/a%ff", "/a%c0%af", "/a#b", "/a%e2%80", "?", "?/a",
        ])
    func bad(target: String) {
        #expect(ContentPath(target: target) == nil)
    }

    private static func isOpen(_ target: String, _ openings: [ContentOpening]) throws -> Bool {
        let path = try #require(ContentPath(target: target))
        // The order of rules has no effect.
        let verdicts = [openings, openings.reversed()].map { ContentOpening.open(path, in: $0) }
        try #require(verdicts[0] == verdicts[1])
        return verdicts[0]
    }

    @Test("What no rule matches is closed")
    func closed() throws {
        for target in ["/", "/a", "/b/c"] { #expect(try !Self.isOpen(target, [])) }
        let rule = ContentOpening(path: "/a/", extent: .all(true))
        for target in ["/", "/a", "/ab/", "/ab/c", "/A/c", "/b/a/"] {
            #expect(try !Self.isOpen(target, [rule]), "\(target)")
        }
        for target in ["/a/", "/a/b", "/a/b/c/"] { #expect(try Self.isOpen(target, [rule]), "\(target)") }
        let exact = ContentOpening(path: "/a/b", extent: .all(true))
        #expect(try Self.isOpen("/a/b", [exact]))
        for target in ["/a/b/", "/a/b/c", "/a"] { #expect(try !Self.isOpen(target, [exact]), "\(target)") }
    }

    @Test("The most specific rule decides, also when it closes")
    func specific() throws {
        let openings = [
            ContentOpening(path: "/", extent: .all(true)), ContentOpening(path: "/pro/", extent: .all(false)),
            ContentOpening(path: "/pro/free/", extent: .all(true)),
            ContentOpening(path: "/pro/free/not.txt", extent: .all(false)),
            ContentOpening(path: "/sets/{set}/", extent: .sets([2...3, 7...7])),
            ContentOpening(path: "/sets/9/", extent: .all(true)),
        ]
        for target in ["/", "/x", "/pro/free/yes.txt", "/sets/2/a", "/sets/3/", "/sets/7/a", "/sets/9/a", "/sets/x/a"] {
            #expect(try Self.isOpen(target, openings), "\(target)")
        }
        for target in ["/pro/", "/pro/x", "/pro/free/not.txt", "/sets/1/a", "/sets/4/", "/sets/8/a"] {
            #expect(try !Self.isOpen(target, openings), "\(target)")
        }
    }

    @Test("A path with parameters is open only if it is open without them too, because some servers cut them")
    func parameters() throws {
        let openings = [
            ContentOpening(path: "/", extent: .all(true)), ContentOpening(path: "/pro/", extent: .all(false)),
            ContentOpening(path: "/pro/free.txt", extent: .all(true)),
        ]
        for target in ["/x;v=1", "/x;v=1/y;w", "/y%3Bz"] { #expect(try Self.isOpen(target, openings), "\(target)") }
        for target in ["/pro;/x", "/pro;v=1/", "/pro%3B/x", "/pro/free.txt;v", "/pro;x/free.txt;v/y"] {
            #expect(try !Self.isOpen(target, openings), "\(target)")
        }
    }

    @Test("A set is a number in one spelling, and a date is a day that exists")
    func variables() throws {
        let sets = [ContentOpening(path: "/s/{set}/", extent: .sets([1...20]))]
        for text in ["0", "01", "+1", "-1", "1.0", "1e0", "٣", "１", "21", "9999999999", "99999999999999999999", " 1"] {
            #expect(try !Self.isOpen("/s/\(text)/a", sets), "\(text)")
        }
        let year = try Timestamp("2026-01-01T00:00:00Z")..<Timestamp("2027-01-01T00:00:00Z")
        let days = [ContentOpening(path: "/d/{date}", extent: .dates([year]))]
        for text in ["2026-01-01", "2026-12-31"] { #expect(try Self.isOpen("/d/\(text)", days), "\(text)") }
        for text in [
            "2025-12-31", "2027-01-01", "2026-02-29", "2026-2-3", "2026-00-10", "20260101", "2026-01-01T", "+026-01-01",
        ] {
            #expect(try !Self.isOpen("/d/\(text)", days), "\(text)")
        }
    }
}
