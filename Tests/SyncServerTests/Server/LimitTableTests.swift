import Foundation
import SyncServer
import TestSupport
import Testing

@Suite("The table of limits in Docs/Operations.md")
struct LimitTableTests {
    @Test("The table has exactly the limits and defaults of --limits, in the same order")
    func table() throws {
        let text = try String(contentsOf: Repository.file("Docs/Operations.md"), encoding: .utf8)
        let lines = text.split(separator: "\n").drop { !$0.hasPrefix("## Limits") }.filter { $0.hasPrefix("| `") }
        let described = lines.map { line in
            line.split(separator: "|").prefix(2).map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " `")) }
        }
        let rows = ServerLimits(listener: ListenerConfiguration()).rows
        #expect(described == rows.map { [$0.name, $0.value] })
    }

    @Test("syncd serve --limits shows the values that --limit sets, and an invalid limit is a one-line error")
    func commands() throws {
        let program = BuiltProgram.path(of: "syncd")
        let shown = try Tool.run(
            program, ["serve", "--limits", "--limit", "log-ins=3/30", "--limit", "account-bytes=none"])
        #expect(shown.exitCode == 0)
        let rows = shown.output.split(separator: "\n").map { $0.split(separator: " ").prefix(2).map(String.init) }
        #expect(rows.contains(["log-ins", "3/30"]) && rows.contains(["account-bytes", "none"]))
        #expect(rows.count == 34)
        for arguments in [["--limit", "nothing=1"], ["--limit", "requests=0"], ["--trusted-proxy", "10.0.0.1/8"]] {
            let refused = try Tool.run(program, ["serve", "--store", "memory:"] + arguments)
            #expect(refused.exitCode == 2)
            #expect(refused.errors.split(separator: "\n").count == 1, "\(refused.errors)")
        }
    }
}
