import EntitlementSync
import Entitlements
import Foundation
import SyncCoreTesting
import TestSupport
import Testing

@testable import syncd

@Suite("A property list of user defaults")
struct UserDefaultsFileTests {
    private let catalog: Catalog

    init() throws {
        catalog = try Catalog(json: Data(contentsOf: URL(filePath: Sandbox.example)))
    }

    private func refusal(of bytes: some Collection<UInt8>) -> String? {
        do throws(InputError) {
            _ = try UserDefaultsFile(Array(bytes), catalog: catalog)
            return nil
        } catch {
            return error.description
        }
    }

    private static func encoded(
        _ values: [String: Any], _ format: PropertyListSerialization.PropertyListFormat = .xml
    ) throws -> [UInt8] {
        Array(try PropertyListSerialization.data(fromPropertyList: values, format: format, options: 0))
    }

    @Test("Values that apps write are read: the expiry, owned products, and what is left out with its reason")
    func values() throws {
        let expiry = Date(timeIntervalSince1970: 1_773_167_400)
        let file = try UserDefaultsFile(
            Self.encoded([
                "ExpirationDate": expiry, Owls.night: true, Owls.couch: true, Owls.shy: false, Owls.units: 3,
                Owls.threeMonths: true, "isFirstStart": false, "AppleLanguages": ["en"], "volume": 0.5, "tab": 1,
                "name & <title> 🦉": "a < b && \"c\"", "nested": ["a": ["b": [1]]], "last seen": Date(),
                "token": Data([0, 255]), "": "",
            ]), catalog: catalog)
        #expect(file.migration.expiries == [try Timestamp("2026-03-10T18:30:00Z")])
        #expect(file.migration.owned.map(\.rawValue) == [Owls.couch, Owls.night])
        #expect(file.migration.source == "userdefaults")
        #expect(
            file.ignored.map { "\($0.key): \($0.reason)" } == [
                "\(Owls.threeMonths): a subscription is migrated by its ExpirationDate",
                "\(Owls.units): units without a transaction are not migrated",
                "isFirstStart: the catalogue has no such product",
            ])
        #expect(file.otherCount == 8)
    }

    @Test(
        "A file that is no XML property list of user defaults is refused with the reason",
        arguments: [
            ("", "this is not an XML property list"),
            ("{ ExpirationDate = 1; }", "this is not an XML property list"),
            ("<plist><array/></plist>", "user defaults must be a dictionary, not an array"),
            (
                "<plist><dict></plist>",
                "the property list is damaged: Close tag on line 1 does not match open tag dict"
            ),
            (
                "\u{FEFF} <plist><dict><key>ExpirationDate</key><string>2026-01-01</string></dict></plist>",
                "ExpirationDate: a date is expected, not a string"
            ),
            (
                "<plist><dict><key>ExpirationDate</key><date>12026-01-01T00:00:00Z</date></dict></plist>",
                "ExpirationDate: a date in the years 1 to 9999 is expected"
            ),
            (
                "<plist><dict><key>\(Owls.night)</key><integer>1</integer></dict></plist>",
                "\(Owls.night): true or false is expected, not a number"
            ),
        ])
    func refused(text: String, reason: String) {
        #expect(refusal(of: text.utf8) == reason)
    }

    @Test("A binary file and an oversized one are refused with the remedy, before they are parsed")
    func unsupported() throws {
        #expect(
            refusal(of: try Self.encoded(["a": true], .binary))
                == "this property list is binary: convert it to XML, on a Mac with plutil -convert xml1")
        #expect(
            refusal(of: [UInt8](repeating: 0x20, count: 17 << 20))
                == "user defaults must be at most 16777216 bytes, not 17825792")
    }

    @Test("Truncated, damaged and deeply nested files are read or refused, without a crash")
    func hostile() throws {
        var random = SeededGenerator(seed: printedSeed("hostile"))
        let whole = try Self.encoded([
            "ExpirationDate": Date(timeIntervalSince1970: 1e9), Owls.night: true, "🦉": ["a": [1]], "d": Data([1, 2]),
        ])
        // XML without its final line break is still complete.
        for count in 0..<(whole.count - 1) { #expect(refusal(of: whole[..<count]) != nil, "\(count) bytes") }
        var refused = 0
        for _ in 0..<2_000 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
            }
            if refusal(of: bytes) != nil { refused += 1 }
        }
        #expect((100...1_999).contains(refused))
        let depth = 100_000
        let nested = String(repeating: "<array>", count: depth) + String(repeating: "</array>", count: depth)
        #expect(refusal(of: "<plist><dict><key>bomb</key>\(nested)</dict></plist>".utf8) != nil)
    }
}
