import EntitlementSync
import Entitlements
import Foundation
import SyncCoreTesting
import Testing
import TestSupport

@Suite("User-defaults property lists")
struct PropertyListTests {
    private let catalog: Catalog

    init() throws {
        catalog = try Owls.catalog()
    }

    private func read(_ bytes: some Collection<UInt8>) throws -> Migration {
        try Migration.userDefaults(propertyList: bytes, catalog: catalog)
    }

    private func refusal(of bytes: some Collection<UInt8>) -> String? {
        do {
            _ = try Migration.userDefaults(propertyList: bytes, catalog: catalog)
            return nil
        } catch { return "\(error)" }
    }

    static func xml(_ entries: String, before: String = "") -> [UInt8] {
        Array(
            """
            <?xml version="1.0" encoding="UTF-8"?>
            \(before)<plist version="1.0">
            <dict>
            \(entries)
            </dict>
            </plist>

            """.utf8)
    }

    private static func encoded(_ values: [String: Any], _ format: PropertyListSerialization.PropertyListFormat)
        throws -> [UInt8]
    {
        Array(try PropertyListSerialization.data(fromPropertyList: values, format: format, options: 0))
    }

    @Test("Random user defaults written by Foundation as XML and as binary are read back unchanged")
    func asFoundationWrites() throws {
        var random = SeededGenerator(seed: printedSeed("asFoundationWrites"))
        let owls = catalog.products.filter { $0.kind == .nonConsumable }.map(\.id)
        for _ in 0..<300 {
            var values: [String: Any] = [:]
            let owned = owls.filter { _ in Bool.random(using: &random) }
            for owl in owls where owned.contains(owl) || Bool.random(using: &random) {
                values[owl.rawValue] = owned.contains(owl)
            }
            let seconds = Int64.random(in: -62_135_596_800...253_402_300_799, using: &random)
            let date = Bool.random(using: &random) ? Timestamp(milliseconds: seconds * 1_000) : nil
            values["ExpirationDate"] = date.map { Date(timeIntervalSince1970: Double($0.milliseconds) / 1_000) }
            var others = 0
            for (name, value) in Self.clutter where Bool.random(using: &random) {
                values[name] = value
                others += 1
            }
            // More than 255 objects force two-byte references.
            for index in 0..<(Int.random(in: 0...20, using: &random) == 0 ? 400 : 0) {
                values["clutter \(index)"] = index
                others += 1
            }
            for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
                // Foundation writes years before 1000 in XML with fewer than the four digits that the reader requires.
                if format == .xml, seconds < -30_610_224_000, date != nil { continue }
                let migration = try read(try Self.encoded(values, format))
                #expect(migration.owned == owned)
                #expect(migration.expiries == (date.map { [$0] } ?? []))
                #expect(migration.otherCount == others)
                #expect(migration.ignored.isEmpty)
            }
        }
    }

    private static let clutter: [(String, any Sendable)] = [
        ("AppleLanguages", ["en", "de"]), ("nested", ["a": ["b": ["c": [1, 2, 3]]]]), ("volume", 0.5), ("tab", 7),
        ("token", Data([0, 1, 2, 255])), ("name & <title>", "a < b && \"c\" > 'd'"), ("🦉 ü", "Eule 🦉"),
        ("last seen", Date(timeIntervalSince1970: 1_700_000_000)), ("empty", [String]()), ("none", ""),
        ("long", String(repeating: "x", count: 400)),
    ]

    @Test("Comments, character data, entities, attributes and short forms of XML are read")
    func xmlForms() throws {
        let doctype = "<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://a/b.dtd\">\n<!-- <dict> -->\n"
        let migration = try read(
            [0xEF, 0xBB, 0xBF]
                + Self.xml(
                    """
                    <key>ExpirationDate</key> <!-- until --> <date> 2026-03-10T18:30:00Z </date>
                    <key><![CDATA[com.back40.InsomniOwl.NightOwl]]></key><true></true>
                    <key>com.back40.InsomniOwl.Couch&#79;w&#x6C;</key><true a="/>"/>
                    <key>other</key><array><dict><key>x</key><string><![CDATA[</array>]]></string></dict><true/></array>
                    <key></key><string/>
                    """, before: doctype))
        #expect(migration.expiries == [try date("2026-03-10T18:30:00Z")])
        #expect(migration.owned == [Owls.couchOwl, Owls.nightOwl])
        #expect(migration.otherCount == 2)
    }

    @Test("Entries that look like purchases but cannot be migrated are listed with the reason")
    func ignored() throws {
        let migration = try read(
            Self.xml(
                """
                <key>com.back40.InsomniOwl.RandomOwls</key><integer>3</integer>
                <key>\(Owls.threeMonths)</key><true/><key>isFirstStart</key><false/><key>volume</key><real>1</real>
                """))
        #expect(
            migration.ignored.map { "\($0.key): \($0.reason)" } == [
                "\(Owls.threeMonths): a subscription is migrated by its ExpirationDate",
                "com.back40.InsomniOwl.RandomOwls: units without a transaction are not migrated",
                "isFirstStart: the catalogue has no such product",
            ])
        #expect(migration.otherCount == 1)
        #expect(migration.owned.isEmpty)
    }

    @Test(
        "A file that is not a property list of user defaults is rejected with the position of the error",
        arguments: [
            ("", "this is neither an XML nor a binary property list"),
            ("{ ExpirationDate = 1; }", "this is neither an XML nor a binary property list"),
            ("<", "line 1, column 1: the file ends within a tag"),
            ("<html></html>", "line 1, column 1: <plist> is expected"),
            ("<plist><array/></plist>", "line 1, column 8: user defaults must be a dictionary, not <array>"),
            ("<plist><dict></plist>", "line 1, column 14: <key> or </dict> is expected, not <plist>"),
            ("<plist><dict/></plist>x", "line 1, column 23: unexpected content after the end of the property list"),
            ("<plist><dict><key>a</key></dict></plist>", #"line 1, column 26: the key "a" has no value"#),
            (
                "<plist><dict><key>a</key><set/></dict></plist>",
                "line 1, column 26: <set> is not a property list element"
            ),
            ("<plist><dict><key>a</key><array><dict></array></dict></plist>", "line 1, column 39: </dict> is expected"),
            (
                "<plist><dict><key>a&b;</key><true/></dict></plist>",
                "line 1, column 20: unknown entity; write & as &amp;"
            ),
            (
                "<plist><dict><key>a</key><true/>\n<key>a</key><false/></dict></plist>",
                #"line 2, column 1: duplicate key "a""#
            ),
            (
                "<!DOCTYPE plist [<!ENTITY a \"b\">]><plist><dict/></plist>",
                "line 1, column 1: a document type with declarations is not supported"
            ),
            (
                "<?xml version=\"1.0\" encoding=\"UTF-16\"?><plist><dict/></plist>",
                "line 1, column 40: the XML property list must declare UTF-8"
            ),
            ("<plist><dict><key>a</key><true>yes</true></dict></plist>", "line 1, column 26: <true> must be empty"),
            (
                "<plist><dict><key>ExpirationDate</key><string>2026-01-01</string></dict></plist>",
                "ExpirationDate: a date is expected, not a string"
            ),
            (
                "<plist><dict><key>ExpirationDate</key><array/></dict></plist>",
                "ExpirationDate: a date is expected, not an array"
            ),
            (
                "<plist><dict><key>ExpirationDate</key><date>NaN</date></dict></plist>",
                "ExpirationDate: a date is expected, not a date that cannot be read: \"NaN\" is not a date: the year "
                    + "needs 4 digits (write 2026-01-31T12:00:00Z or 2026-01-31)"
            ),
            (
                "<plist><dict><key>ExpirationDate</key><date>10000-01-01T00:00:00Z</date></dict></plist>",
                "ExpirationDate: a date is expected, not a date that cannot be read: \"10000-01-01T00:00:00Z\" is "
                    + "not a date: \"-\" is missing (write 2026-01-31T12:00:00Z or 2026-01-31)"
            ),
            (
                "<plist><dict><key>com.back40.InsomniOwl.NightOwl</key><integer>1</integer></dict></plist>",
                "com.back40.InsomniOwl.NightOwl: true or false is expected, not a number"
            ),
        ])
    func refused(text: String, reason: String) {
        #expect(refusal(of: Array(text.utf8)) == reason)
    }

    @Test("An invalid date under an unrelated key is ignored")
    func otherDates() throws {
        #expect(try read(Self.xml("<key>a</key><date>never</date>")).otherCount == 1)
    }

    @Test("A binary date that is not finite or outside the years 1 to 9999 is rejected with its key")
    func binaryDates() throws {
        let written = try Self.encoded(["ExpirationDate": Date(timeIntervalSinceReferenceDate: 1.5)], .binary)
        let pattern = (1.5).bitPattern.bigEndianBytes
        let offset = try #require(written.indices.first { written[$0...].starts(with: pattern) })
        for (value, name) in [
            (Double.nan, "nan"), (.infinity, "inf"), (-1e300, "-1e+300"), (252_423_993_600, "252423993600.0"),
        ] {
            var bytes = written
            bytes.replaceSubrange(offset..<offset + 8, with: value.bitPattern.bigEndianBytes)
            #expect(
                refusal(of: bytes)
                    == "ExpirationDate: a date is expected, not a date that cannot be read: \(name) seconds after 2001 "
                    + "is outside the years 1 to 9999")
        }
        #expect(try read(written).expiries == [try date("2001-01-01T00:00:01.500Z")])
    }

    @Test("A file truncated at any byte is rejected, XML or binary")
    func truncated() throws {
        let values: [String: Any] = ["ExpirationDate": Date(timeIntervalSince1970: 1e9), Owls.nightOwl.rawValue: true]
        for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
            let whole = try Self.encoded(values, format)
            // XML without its final line break is still complete.
            for count in 0..<(whole.count - 1) {
                #expect(refusal(of: whole[..<count]) != nil, "\(count) bytes of \(format.rawValue)")
            }
        }
    }

    @Test("Randomly damaged bytes are either read or rejected, without a crash")
    func damaged() throws {
        var random = SeededGenerator(seed: printedSeed("damaged"))
        let values: [String: Any] = [
            "ExpirationDate": Date(timeIntervalSince1970: 1e9), Owls.nightOwl.rawValue: true, "🦉": ["a": [1]],
            "long": String(repeating: "x", count: 300),
        ]
        var refused = 0
        for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
            let whole = try Self.encoded(values, format)
            for _ in 0..<5_000 {
                var bytes = whole
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
                }
                if refusal(of: bytes) != nil { refused += 1 }
            }
        }
        #expect((100...9_900).contains(refused))
    }

    @Test("Deep nesting, cyclic or invalid references and oversized files are handled without a crash")
    func bombs() throws {
        let depth = 100_000
        let nested =
            "<key>bomb</key>" + String(repeating: "<array>", count: depth) + String(repeating: "</array>", count: depth)
        #expect(try read(Self.xml(nested)).otherCount == 1)
        #expect(refusal(of: Self.xml("<key>bomb</key>" + String(repeating: "<array>", count: depth))) != nil)
        // A dictionary whose only value is itself.
        let cyclic: [UInt8] =
            Array("bplist00".utf8) + [0xD1, 1, 0, 0x51, 0x61, 8, 11] + Self.trailer(count: 2, table: 13)
        #expect(try read(cyclic).otherCount == 1)
        // Eight-byte references whose position in the offset table overflows.
        let far: [UInt8] = [0x7F] + [UInt8](repeating: 0xFF, count: 7)
        var trailer = Self.trailer(count: 1, table: 25)
        trailer[7] = 8
        #expect(
            refusal(of: Array("bplist00".utf8) + [0xD1] + far + far + [8] + trailer)
                == "byte 25: the binary property list is damaged: an object lies outside of the file")
        let endless = Array("bplist00".utf8) + [0xDF, 0x13] + [UInt8](repeating: 0xFF, count: 8)
        #expect(
            refusal(of: endless + [8] + Self.trailer(count: 1, table: 18))
                == "byte 9: the binary property list is damaged: the length of an object is invalid")
        #expect(
            refusal(of: [UInt8](repeating: 0x78, count: 17 << 20))
                == "user defaults must be at most 16777216 bytes, not 17825792")
        #expect(
            refusal(of: [UInt8](repeating: 0x78, count: 16 << 20))
                == "this is neither an XML nor a binary property list")
    }

    private static func trailer(count: UInt64, table: UInt64) -> [UInt8] {
        [0, 0, 0, 0, 0, 0, 1, 1] + count.bigEndianBytes + UInt64(0).bigEndianBytes + table.bigEndianBytes
    }
}

extension UInt64 {
    fileprivate var bigEndianBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
}
