import EntitlementSync
import Entitlements
import Testing

@Suite("Parse exports")
struct ParseTests {
    private func read(_ text: String, user: String? = nil) throws -> Migration {
        try Migration.parse(json: Array(text.utf8), user: user)
    }

    private func errorMessage(of text: String, user: String? = nil) -> String? {
        do {
            _ = try Migration.parse(json: Array(text.utf8), user: user)
            return nil
        } catch { return "\(error)" }
    }

    /// Returns a user object with secrets, which contain `5EC4E7` and must not appear in errors.
    private static func user(_ name: String, _ fields: String = "") -> String {
        #"{"objectId":"id-\#(name)","username":"\#(name)","sessionToken":"r:5EC4E7","#
            + #""_hashed_password":"$2y$5EC4E7"\#(fields)}"#
    }

    private static func dateObject(_ text: String) -> String { #"{"__type":"Date","iso":"\#(text)"}"# }

    private static let ann = user(
        "ann", #","updatedAt":"2026-01-05T08:00:00.000Z","ExpirationDate":\#(dateObject("2026-03-01T00:00:00.000Z"))"#)
    private static let bob = user("bob", #","ExpirationDate":["2026-03-01T00:00:00Z",\#(dateObject("2026-05-01"))]"#)

    @Test(
        "A results object, an array, a single object and one object per line are all accepted",
        arguments: [
            #"{"results":[\#(ann)]}"#, "[\(ann)]", ann, "\(ann)\n\(bob)", " \n\(bob)\r\n\n\(ann)\n",
            #"{"results":[\#(bob),\#n\#(ann)]}"#, ann.replacing(",", with: ",\n"),
        ])
    func formats(text: String) throws {
        let user = text.contains("bob") ? "ann" : nil
        let migration = try read(text, user: user)
        #expect(migration.source == "parse")
        #expect(migration.expiries == [try date("2026-03-01")])
        #expect(migration.statedAt == (try date("2026-01-05T08:00:00Z")))
        #expect(try read(text, user: "id-ann") == migration)
    }

    @Test("An array yields one expiry per date, and a missing date yields none")
    func dates() throws {
        #expect(try read(Self.bob).expiries == [try date("2026-03-01"), try date("2026-05-01")])
        #expect(try read(Self.bob).statedAt == nil)
        for fields in ["", #","ExpirationDate":null"#, #","ExpirationDate":[]"#] {
            #expect(try read(Self.user("carol", fields)).expiries.isEmpty)
        }
    }

    @Test("An export must contain exactly one matching user")
    func userSelection() {
        let both = "[\(Self.ann),\(Self.bob)]"
        #expect(errorMessage(of: both) == "the export holds 2 users: name one with --user")
        #expect(errorMessage(of: both, user: "carol") == #"none of the 2 users of the export is "carol""#)
        #expect(errorMessage(of: "[]") == "the export holds no user")
        #expect(
            errorMessage(of: "[\(Self.ann),\(Self.ann)]", user: "ann")
                == #"2 users of the export match "ann": name one by objectId"#)
    }

    @Test(
        "An invalid export is rejected with the position of the error and without secrets",
        arguments: [
            ("", "line 1, column 1: the text ends where a value is expected"),
            ("7", "an array is expected, not a number"),
            ("[7]", "[0]: an object is expected, not a number"),
            (#"[{"name":"x"}]"#, "[0]: a Parse user needs a username or an objectId"),
            ("[\(ann)", "line 1, column \(ann.utf8.count + 2): \",\" or \"]\" is expected"),
            ("\(ann)\n\(bob.dropLast())", "line 2, column \(bob.utf8.count): \",\" or \"}\" is expected"),
            ("\(ann)\n7", "line 2: an object is expected, not a number"),
            (user("x", #","ExpirationDate":1400000000"#), "ExpirationDate: a date is expected, not a number"),
            (user("x", #","ExpirationDate":[null]"#), "ExpirationDate[0]: a date is expected, not null"),
            (
                user("x", #","ExpirationDate":{"__type":"File","iso":"2026-01-01"}"#),
                "ExpirationDate.__type: a Parse date must have the type Date"
            ),
            (user("x", #","ExpirationDate":{"iso":"2026-01-01"}"#), "ExpirationDate.__type: this is missing"),
            (
                user("x", #","ExpirationDate":"10000-01-01T00:00:00Z""#),
                #"ExpirationDate: "10000-01-01T00:00:00Z" is not a date: "-" is missing (write "#
                    + "2026-01-31T12:00:00Z or 2026-01-31)"
            ),
            (user("x", #","updatedAt":true"#), "updatedAt: a date is expected, not true or false"),
            (
                user("x", #","sessionToken":"5EC4E7""#),
                "line 1, column 93: \"sessionToken\" is repeated"
            ),
            (String(repeating: "[", count: 100_000), "line 1, column 65: nested deeper than 64 levels"),
        ])
    func rejected(text: String, reason: String) throws {
        let message = try #require(errorMessage(of: text))
        #expect(message == reason)
        #expect(!message.contains("5EC4E7"))
    }

    @Test("An export over the size limit is rejected")
    func tooLarge() {
        let message: String?
        do {
            _ = try Migration.parse(json: repeatElement(0x20, count: (64 << 20) + 1))
            message = nil
        } catch { message = "\(error)" }
        #expect(message == "the export must be at most 67108864 bytes, not 67108865: extract the user from it")
    }
}
