import Foundation
import SyncProtocol
import TestSupport
import Testing

@testable import SyncServer

@Suite("Files of a web page")
struct WebTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        let manager = FileManager.default
        try manager.createDirectory(atPath: folder.path(of: "web/sub/.git"), withIntermediateDirectories: true)
        for (name, text) in [
            ("web/index.html", "<p>start"), ("web/app.js", "1"), ("web/sub/index.html", "<p>sub"),
            ("web/sub/a b.txt", "blank"),
            ("web/.secret", "secret"), ("web/sub/.git/config", "secret"), ("outside.txt", "secret"),
        ] {
            try Data(text.utf8).write(to: URL(filePath: folder.path(of: name)))
        }
        for (link, target) in [
            ("web/out.txt", "../outside.txt"), ("web/up", ".."), ("web/root", "/"), ("web/in.js", "app.js"),
        ] {
            try manager.createSymbolicLink(atPath: folder.path(of: link), withDestinationPath: target)
        }
    }

    @Test("Files are found with their media types, and a folder path means its index.html")
    func files() async throws {
        let web = try WebFolder(path: folder.path(of: "web"))
        func text(_ path: String) async -> String? {
            await web.file(at: path).map { String(decoding: $0.bytes, as: UTF8.self) }
        }
        #expect(await text("/") == "<p>start")
        #expect(await text("/index.html") == "<p>start")
        #expect(await text("/sub/") == "<p>sub")
        #expect(await text("/sub/a%20b.txt") == "blank")
        #expect(await web.file(at: "/")?.mediaType == "text/html; charset=utf-8")
        #expect(await web.file(at: "/app.js")?.mediaType == "text/javascript; charset=utf-8")
        let tag = await web.file(at: "/app.js")?.tag
        #expect(tag?.description.count == 34)
        try Data("2".utf8).write(to: URL(filePath: folder.path(of: "web/app.js")))
        #expect(await text("/app.js") == "2")
        #expect(await web.file(at: "/app.js")?.tag != tag)
    }

    @Test("Outside files, dot files, listings, symbolic links and unusual path spellings are not served")
    func outside() async throws {
        let web = try WebFolder(path: folder.path(of: "web"))
        for path in [
            "", "x", "/sub", "/.secret", "/%2esecret", "/sub/.git/config", "/../outside.txt", "/%2e%2e/outside.txt",
            "/..%2foutside.txt", "/sub/../app.js", "/sub/..%2fapp.js", "//app.js", "/sub//index.html", "/./app.js",
            "/out.txt", "/in.js", "/up/outside.txt", "/root/etc/passwd", "/app.js/", "/app.js%00", "/app.js%00.html",
            "/app.js%2f", "/sub%5cindex.html", "/sub\\index.html", "/%ff", "/app.js%", "/app.js%zz", "/nothing",
            "/" + String(repeating: "a", count: 300), "/" + String(repeating: "sub/", count: 40),
        ] {
            #expect(await web.file(at: path) == nil, "\(path)")
        }
        #expect(throws: ListenerError.self) { try WebFolder(path: folder.path(of: "nothing")) }
        #expect(throws: ListenerError.self) { try WebFolder(path: folder.path(of: "outside.txt")) }
    }

    @Test("A pipe or a too large file is not served, and does not block")
    func special() async throws {
        #expect(mkfifo(folder.path(of: "web/pipe"), 0o600) == 0)
        try #require(FileManager.default.createFile(atPath: folder.path(of: "web/big"), contents: nil))
        truncate(folder.path(of: "web/big"), (16 << 20) + 1)
        let web = try WebFolder(path: folder.path(of: "web"))
        #expect(await web.file(at: "/pipe") == nil)
        #expect(await web.file(at: "/big") == nil)
    }

    @Test("The server sends security header fields, and 304 for a known entity tag")
    func served() throws {
        let server = try ServerProcess(store: "memory:", options: ["--web", folder.path(of: "web")])
        let page = try #require(try ask(server.port, "GET", "/?x=1"))
        #expect(page.status == 200 && page.text == "<p>start")
        #expect(page.fields["content-type"] == "text/html; charset=utf-8")
        #expect(page.fields["content-security-policy"]?.contains("default-src 'self'") == true)
        #expect(page.fields["content-security-policy"]?.contains("frame-ancestors 'none'") == true)
        #expect(page.fields["x-content-type-options"] == "nosniff")
        #expect(page.fields["referrer-policy"] == "no-referrer")
        let tag = try #require(page.fields["etag"])
        for field in [tag, "W/\(tag)", "\"other\", \(tag)", "*"] {
            let again = try ask(server.port, "GET", "/", fields: ["If-None-Match: \(field)"])
            #expect(again?.status == 304 && again?.body == [], "\(field)")
        }
        #expect(try ask(server.port, "GET", "/", fields: ["If-None-Match: \"other\""])?.status == 200)
        let head = try #require(try ask(server.port, "HEAD", "/"))
        #expect(head.fields["content-length"] == "8")
        #expect(try ask(server.port, "POST", "/", body: "x")?.status == 405)
        for path in ["/out.txt", "/root/etc/passwd", "/../outside.txt", "/.secret", "/sub"] {
            let answer = try #require(try ask(server.port, "GET", path))
            #expect(answer.status == 404 && !answer.text.contains("secret"), "\(path)")
        }
        #expect(try ask(server.port, "GET", "/healthz")?.text == "up\n")
        #expect(try ask(server.port, "GET", "/v1/nothing")?.status == 404)
    }
}
