import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@testable import WebDAVStorage

@Suite("The multistatus parser")
struct MultistatusTests {
    private static let apache = """
        <?xml version="1.0" encoding="utf-8"?>
        <D:multistatus xmlns:D="DAV:" xmlns:ns0="DAV:">
        <D:response xmlns:lp1="DAV:" xmlns:lp2="http://apache.org/dav/props/">
        <D:href>/owls/</D:href>
        <D:propstat><D:prop><lp1:getetag>"1000-5f"</lp1:getetag>
        <lp1:resourcetype><D:collection/></lp1:resourcetype></D:prop>
        <D:status>HTTP/1.1 200 OK</D:status></D:propstat>
        </D:response>
        <D:response><D:href>/owls/a&amp;b%20&#x63;.entry</D:href>
        <D:propstat><D:prop><D:getetag><![CDATA[W/"1-2"]]></D:getetag><D:resourcetype/></D:prop>
        <D:status>HTTP/1.1 200 OK</D:status></D:propstat>
        </D:response>
        <response xmlns="DAV:"><href>/owls/gone</href><status>HTTP/1.1 404 Not Found</status><!-- & < --></response>
        <D:response><D:href>/owls/x</D:href><D:propstat><D:prop xmlns:o="urn:other"><o:getetag>"no"</o:getetag>
        <o:collection/></D:prop></D:propstat></D:response>
        </D:multistatus>

        """

    @Test("matches elements by namespace, not by prefix")
    func understood() throws {
        #expect(
            try Multistatus(Array(Self.apache.utf8)).resources == [
                .init(href: "/owls/", isCollection: true, tag: "\"1000-5f\""),
                .init(href: "/owls/a&b%20c.entry", tag: "W/\"1-2\""), .init(href: "/owls/gone", status: 404),
                .init(href: "/owls/x"),
            ])
    }

    private static func wrapped(_ content: String) -> String {
        "<multistatus xmlns=\"DAV:\"><response>\(content)</response></multistatus>"
    }

    @Test(
        "rejects malformed documents, document types and unknown entities",
        arguments: [
            "", " ", "<", "<a/>", "<multistatus/>", "<multistatus xmlns='DAV:'>", "<multistatus xmlns='DAV:'/><b/>",
            "<multistatus xmlns='DAV:'/>text", "<d:multistatus/>", "<multistatus xmlns=DAV:/>",
            "<multistatus xmlns='DAV:'></response>", "<multistatus xmlns='DAV:' a='<'/>",
            wrapped(""), wrapped("<href></href>"), wrapped("<href>/a</href><status>no</status>"),
            wrapped("<href>/a</b></href>"), wrapped("<href>&unknown;</href>"), wrapped("<href>&#0;</href>"),
            wrapped("<href>&#xD800;</href>"), wrapped("<href>&#99999999999;</href>"), wrapped("<href>&amp</href>"),
            wrapped("<href><![CDATA[/a]]</href>"), wrapped("<href>\(String(repeating: "a", count: 20_000))</href>"),
            "<!DOCTYPE multistatus [<!ENTITY a \"aaaaaaaaaa\">]>" + wrapped("<href>&a;</href>"),
            "<?xml version='1.0'?><!DOCTYPE x SYSTEM \"file:///etc/passwd\">" + wrapped("<href>/a</href>"),
            "<!DOCTYPE x [<!ENTITY % b SYSTEM 'http://127.0.0.1:1/'>%b;]>" + wrapped("<href>/a</href>"),
            String(repeating: "<a>", count: 100_000),
        ])
    func rejected(xml: String) {
        #expect(throws: XMLReader.Malformed.self) { try Multistatus(Array(xml.utf8)) }
    }

    @Test("accepts only UTF-8, with or without a byte-order mark")
    func encodings() throws {
        let text = Self.wrapped("<href>/ö</href>")
        #expect(try Multistatus([0xEF, 0xBB, 0xBF] + text.utf8).resources == [.init(href: "/ö")])
        let others: [[UInt8]] = [
            text.utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }, [0xFF, 0xFE] + text.utf8,
            text.unicodeScalars.map { UInt8($0.value) },
        ]
        for bytes in others { #expect(throws: XMLReader.Malformed.self) { try Multistatus(bytes) } }
    }

    @Test("returns a result or an error for randomly damaged input")
    func mutations() {
        var generator = SeededGenerator(seed: printedSeed("MultistatusTests"))
        let whole = Array(Self.apache.utf8)
        var rejectedCount = 0
        for _ in 0..<600 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let place = Int.random(in: 0..<bytes.count, using: &generator)
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
                case 1: bytes[place] = Array("<>&;/!?'\"= []".utf8).randomElement(using: &generator) ?? 0
                case 2: bytes.removeSubrange(place..<min(bytes.count, place + 9))
                default: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 40)], at: place)
                }
            }
            do { _ = try Multistatus(bytes) } catch { rejectedCount += 1 }
        }
        #expect((200..<600).contains(rejectedCount), "\(rejectedCount) of 600 were rejected")
    }

    @Test("reads 2,000 responses, but rejects 10,000 namespace declarations")
    func large() throws {
        let response = "<response><href>/owls/a</href><propstat><prop><getetag>x</getetag></prop></propstat></response>"
        let xml = "<multistatus xmlns=\"DAV:\">" + String(repeating: response, count: 2_000) + "</multistatus>"
        #expect(try Multistatus(Array(xml.utf8)).resources.count == 2_000)
        let bindings = (0..<10_000).map { " xmlns:p\($0)='urn:\($0)'" }.joined()
        #expect(throws: XMLReader.Malformed.self) {
            try Multistatus(Array("<multistatus xmlns='DAV:'\(bindings)></multistatus>".utf8))
        }
    }
}

@Suite("File names of keys")
struct FileNameTests {
    @Test("A key has one name, in lower-case ASCII characters that every server keeps distinct")
    func names() throws {
        #expect(FileName.parts(of: try EntryKey("accounts/Alice/ledger")) == ["accounts=2f=41lice=2fledger.entry"])
        let long = try EntryKey(String(repeating: "/", count: 1_024))
        #expect(FileName.parts(of: long).count == 24)
        var generator = SeededGenerator(seed: printedSeed("FileNameTests"))
        for _ in 0..<500 {
            let scalars = (0..<Int.random(in: 1...200, using: &generator)).map { _ in
                ["a", "B", "/", ".", "=", "é", "e\u{301}", "🦉", "%", " "].randomElement(using: &generator) ?? "a"
            }
            let key = try EntryKey(scalars.joined())
            let parts = FileName.parts(of: key)
            #expect(FileName.key(of: parts) == key)
            for part in parts {
                #expect(part.utf8.count <= 134)
                #expect(
                    part.allSatisfy {
                        $0.isASCII && !$0.isUppercase && ($0.isLetter || $0.isNumber || "=-_.".contains($0))
                    })
            }
            for prefix in ["", "a", key.text] where key.hasPrefix(prefix) {
                #expect(FileName.mayHoldKeys(withPrefix: prefix, in: Array(parts.dropLast())))
            }
        }
    }

    @Test(
        "Any other spelling is not the name of a key",
        arguments: [
            [], ["a"], ["A.entry"], ["=61.entry"], ["=2F.entry"], ["=2.entry"], [".entry"], ["=00.entry"],
            ["x.more", "a.entry"], ["a", "a.entry"], ["=ff.entry"], ["a.more"],
        ])
    func strange(parts: [String]) { #expect(FileName.key(of: parts) == nil) }
}
