import Foundation
import TestSupport
import Testing

@Suite("Docs/Protocol.md")
struct ProtocolDocumentTests {
    /// The code blocks marked to be run in `language`, in order.
    private func blocks(_ language: String) throws -> [String] {
        let text = try String(contentsOf: Repository.file("Docs/Protocol.md"), encoding: .utf8)
        return text.components(separatedBy: "<!-- run: \(language) -->\n```\(language)\n").dropFirst().compactMap {
            $0.components(separatedBy: "```").first
        }
    }

    private func run(_ program: String, _ arguments: [String], _ server: ServerProcess) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [program] + arguments
        process.environment = ProcessInfo.processInfo.environment.merging(["SERVER": server.url]) { $1 }
        let folder = try TemporaryFolder()
        process.currentDirectoryURL = URL(filePath: folder.path)
        let pipe = Pipe.closedOnExec()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = pipe.textToEnd()
        ProcessEnd(of: process).wait()
        return output
    }

    @Test("The shell, Python and JavaScript examples produce the documented results")
    func examples() throws {
        let server = try ServerProcess(store: "memory:", options: ["--catalog", Repository.catalog])
        let shell = try blocks("sh")
        #expect(shell.count == 4)
        let printed = try run("bash", ["-c", shell.joined(separator: "\n")], server)
        for part in [
            #""name": "alice""#, "HTTP/1.1 200 OK", "ETag: \"", "event: cursor", #""changes":["#, #""products""#,
            #""access""#, #""at": "2027-01-01T00:00:00.000Z""#, "bye",
        ] {
            #expect(printed.contains(part), "\(part) in \(printed)")
        }
        #expect(!printed.contains("late"), "a write after the deadline must not take effect")
        let python = try blocks("python")
        #expect(try run("python3", ["-c", try #require(python.first)], server) == "200 b'2'\n")
        let javascript = try #require(try blocks("javascript").first)
        let script = "const server = process.env.SERVER;\n" + javascript
        #expect(try run("node", ["--input-type=module", "-e", script], server) == "200 alice\n")
    }
}
