import Foundation
import TestSupport
import Testing

@Suite("Docs/Webhooks.md")
struct WebhookDocumentTests {
    /// The only code block marked to be run in `language`.
    private func block(_ language: String) throws -> String {
        let text = try String(contentsOf: Repository.file("Docs/Webhooks.md"), encoding: .utf8)
        let blocks = text.components(separatedBy: "<!-- run: \(language) -->\n```\(language)\n").dropFirst()
        #expect(blocks.count == 1)
        return try #require(blocks.first?.components(separatedBy: "```").first)
    }

    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    private static let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    @Test("The Python function verifies the reference signature at its time, and no other")
    func python() throws {
        let script =
            try block("python") + """

                time.time = lambda: 1614265330
                headers = {"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
                           "webhook-signature": "v1,AAAA \(Self.signature)"}
                body = b'{"test": 2432232314}'
                print(verify("\(Self.secret)", headers, body), verify("\(Self.secret)", headers, body + b" "))
                time.time = lambda: 1614265631
                print(verify("\(Self.secret)", headers, body))
                """
        #expect(try ProcessEnd.run("/usr/bin/env", "python3", "-c", script) == "True False\nFalse")
    }

    @Test("The JavaScript function verifies the reference signature at its time, and no other")
    func javascript() throws {
        let script =
            try block("javascript") + """

                Date.now = () => 1614265330000;
                const headers = {"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
                  "webhook-signature": "v1,AAAA \(Self.signature)"};
                const body = Buffer.from('{"test": 2432232314}');
                const other = Buffer.from("{}");
            console.log(verify("\(Self.secret)", headers, body), verify("\(Self.secret)", headers, other));
                Date.now = () => 1614265631000;
                console.log(verify("\(Self.secret)", headers, body));
                """
        #expect(
            try ProcessEnd.run("/usr/bin/env", "node", "--input-type=module", "-e", script) == "true false\nfalse")
    }

    @Test("The server accepts the file that the command writes")
    func file() throws {
        let folder = try TemporaryFolder()
        try ProcessEnd.run("/usr/bin/env", "bash", "-c", "cd '\(folder.path)'\n" + (try block("sh")))
        let server = try ServerProcess(
            store: "sqlite:\(folder.path(of: "store.sqlite"))",
            options: [
                "--catalog", Repository.catalog, "--projection", "--webhooks", folder.path(of: "webhooks.json"),
            ])
        #expect(server.stop() == 0)
    }
}
