import Foundation
import Testing

@Suite("Help and unknown commands")
struct HelpTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    @Test(
        "An unknown subcommand is refused with a suggestion and a pointer to the help",
        arguments: [
            ("recrod purchase x", "'recrod' is not a subcommand of 'syncd'. Did you mean 'record'? See 'syncd help'."),
            (
                "purchase x",
                "'purchase' is not a subcommand of 'syncd'. Did you mean 'record purchase'? See 'syncd help'."
            ),
            (
                "record purchse --date 2026-01-01",
                "'purchse' is not a subcommand of 'syncd record'. Did you mean 'purchase'? See 'syncd help record'."
            ),
            ("catalog show", "'show' is not a subcommand of 'syncd catalog'. See 'syncd help catalog'."),
            ("foo", "'foo' is not a subcommand of 'syncd'. See 'syncd help'."),
            ("help foo", "'foo' is not a subcommand of 'syncd'. See 'syncd help'."),
            ("help record foo", "'foo' is not a subcommand of 'syncd record'. See 'syncd help record'."),
            (
                "help record flag foo",
                "'foo' is not a subcommand of 'syncd record flag'. See 'syncd help record flag'."
            ),
        ])
    func unknownCommand(command: String, reason: String) throws {
        #expect(try sandbox.run(command) == .refused(2, reason))
    }

    @Test("Help lists a command's own options before the shared groups")
    func order() throws {
        let lines = try sandbox.run("help record purchase").output.split(separator: "\n").map(String.init)
        let titles = lines.filter { $0.hasSuffix(":") && !$0.hasPrefix(" ") }
        #expect(
            titles == ["ARGUMENTS:", "OPTIONS:", "COMMON OPTIONS:", "CATALOGUE OPTIONS:", "SERVER OPTIONS:"])
        let options = try #require(lines.firstIndex(of: "OPTIONS:"))
        #expect(lines[options + 1].hasPrefix("  --transaction <id>"))
        #expect(try sandbox.run("record purchase --help") == sandbox.run("help record purchase"))
    }

    @Test("An error of a server is not followed by the same words again")
    func noRepetition() throws {
        let outcome = try sandbox.run("store check http://127.0.0.1:1", environment: ["SYNCD_TOKEN": "token"])
        #expect(outcome.exitCode == 75)
        #expect(outcome.error.components(separatedBy: "127.0.0.1 port 1").count == 2, "\(outcome.error)")
    }
}
