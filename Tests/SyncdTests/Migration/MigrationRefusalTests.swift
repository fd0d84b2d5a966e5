import Foundation
import Testing

@Suite("An import that fails reports one line and imports nothing")
struct MigrationRefusalTests {
    private static let good = """
        <plist><dict><key>ExpirationDate</key><date>2026-03-10T18:30:00Z</date><key>\(Owls.night)</key><true/>
        """

    private static let refusals: [Refusal] = [
        Refusal(3, "import none.plist --format userdefaults", "none.plist: no such file"),
        Refusal(
            1, "import cut.plist --format userdefaults",
            "cut.plist: the property list is damaged: Encountered unexpected EOF"),
        Refusal(
            1, "import text.plist --format userdefaults",
            "text.plist: ExpirationDate: a date is expected, not a string"),
        Refusal(
            1, "import flag.plist --format userdefaults",
            "flag.plist: \(Owls.shy): true or false is expected, not a string"),
        Refusal(
            1, "import good.plist --format parse",
            "good.plist: line 1, column 1: a value is expected here"),
        Refusal(
            1, "import good.plist --format facts",
            "good.plist: at byte 0: this is not a ledger: it does not begin with ESLG"),
        Refusal(
            1, "import user.json --format userdefaults",
            "user.json: this is not an XML property list"),
        Refusal(
            1, "import user.json --format parse --user nobody",
            #"user.json: none of the 1 users of the export is "nobody""#),
        Refusal(
            3, "import good.plist --format userdefaults --group nothing", #"the catalogue has no group "nothing""#),
        Refusal(
            2, "import good.plist --format userdefaults --catalog two.json",
            #"the group of the expiry must be given: choose one of "a", "b" (pass --group)"#),
        Refusal(
            2, "import good.plist --format userdefaults --asserted-at soon",
            #"--asserted-at: "soon" is not a date: the year needs 4 digits (write 2026-01-31T12:00:00Z or "#
                + "2026-01-31)"),
        Refusal(
            2, "import good.plist --format userdefaults --user bob",
            "--user does not apply to the format userdefaults. See 'syncd help import'."),
        Refusal(
            2, "import h.json --format history --group random",
            "--group does not apply to the format history. See 'syncd help import'."),
        Refusal(
            2, "import l --format facts --asserted-at 2026-01-01",
            "--asserted-at does not apply to the format facts. See 'syncd help import'."),
    ]

    @Test("A wrong import is rejected", arguments: refusals)
    func refused(refusal: Refusal) throws {
        let sandbox = try Sandbox()
        try sandbox.write(Self.good + "</dict></plist>", to: "good.plist")
        try sandbox.write(Self.good, to: "cut.plist")
        let text = Self.good.replacing("<date>", with: "<string>").replacing("</date>", with: "</string>")
        try sandbox.write(text + "</dict></plist>", to: "text.plist")
        try sandbox.write(Self.good + "<key>\(Owls.shy)</key><string>yes</string></dict></plist>", to: "flag.plist")
        try sandbox.write(
            #"{"username":"bob","sessionToken":"5EC4E7","ExpirationDate":"2026-03-10T18:30:00Z"}"#, to: "user.json")
        try sandbox.write(
            #"""
            {"products":[{"id":"a","type":"nonRenewing","group":"a","duration":"P1M"},
                         {"id":"b","type":"nonRenewing","group":"b","duration":"P1M"},
                         {"id":"\#(Owls.night)","type":"nonConsumable"}]}
            """#, to: "two.json")
        let before = try sandbox.tree()
        #expect(try sandbox.run(refusal.arguments) == .refused(refusal.exitCode, refusal.reason))
        #expect(try sandbox.tree() == before)
    }
}
