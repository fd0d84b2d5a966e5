import CurlTransport
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing
import WebDAVStorage

@Suite(
    "Conformance of the WebDAV backend on Apache's mod_dav", .timeLimit(.minutes(15)),
    .enabled(if: ApacheServer.isInstalled, "Apache with mod_dav is not installed: apt-get install apache2-bin"))
struct WebDAVConformanceTests {
    @Test("All checks for a backend without compare-and-swap pass")
    func conformance() async throws {
        let apache = try ApacheServer.shared.get()
        let transport = try CurlClient()
        let seed = printedSeed("WebDAVConformanceTests")
        @Sendable func open(_ folder: ApacheServer.Folder) throws -> WebDAVBackend {
            try WebDAVBackend(address: folder.url, transport: transport)
        }
        await expectConformance(of: "WebDAV", seed: seed) {
            let folder = try apache.makeFolder()
            return StoreUnderTest(
                try open(folder), reopen: { try open(folder) },
                failing: {
                    try WebDAVBackend(address: folder.url, transport: LossyTransport(transport, seed: seed))
                },
                wipe: { try open(try apache.makeFolder()) },
                backup: {
                    let copy = try apache.copy(folder)
                    return { try open(try apache.copy(copy)) }
                },
                lives: {
                    let first = try apache.makeFolder()
                    var histories = [try await WrittenHistory(writingInto: try open(first))]
                    let backup = try apache.copy(first)
                    for folder in [first, backup, try apache.makeFolder()] {
                        histories.append(try await WrittenHistory(writingInto: try open(folder)))
                    }
                    return histories
                })
        }
    }
}
